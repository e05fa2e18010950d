//! Registries that fail: a proxy in front of a real one breaks what it is told to.

mod images_support;

use eggo_bundle::http::Options;
use eggo_bundle::images::{self, Credentials, Error, Registries, Wanted};
use eggo_bundle::lock::LockedImage;
use eggo_bundles::Arch;
use eggo_terminal::Report;
use images_support::make::{Pile, Style};
use images_support::proxy::{Act, Asked, Proxy};
use images_support::{Bench, DockerRegistry, have, plain};
use std::time::{Duration, Instant};

const SIZE: usize = 300_000;

/// A registry with one image of two archs.
struct Stage {
    registry: DockerRegistry,
    bench: Bench,
}

impl Stage {
    async fn new() -> Option<Self> {
        if !have(&["docker-registry"]) {
            return None;
        }
        let (registry, bench) = (DockerRegistry::start(), Bench::new());
        let mut pile = Pile::default();
        let index = pile.multi(Style::Oci, "x", SIZE);
        pile.push(&bench.http, &registry.address, "app", &index, "1").await;
        Some(Self { registry, bench })
    }

    fn proxy(&self, rule: impl FnMut(&Asked, &[Asked]) -> Act + Send + 'static) -> Proxy {
        Proxy::start(&self.registry.address, rule)
    }
}

async fn pull(bench: &Bench, address: &str, registries: &Registries) -> Result<Vec<LockedImage>, Error> {
    let reference = format!("{address}/app:1").parse().unwrap();
    let wanted = Wanted::new(reference, vec![], "test".to_string());
    let locked = images::lock(&[wanted], &Arch::ALL, registries, bench.path(), bench.tools()).await?;
    images::fetch(&locked, registries, bench.path(), bench.tools()).await?;
    Ok(locked)
}

fn whole(bench: &Bench, locked: &[LockedImage]) -> bool {
    let mut blobs = locked.iter().flat_map(LockedImage::blobs);
    blobs.all(|blob| bench.cache.verified(&blob.sha256).unwrap().is_some())
}

fn first_of_its_path(asked: &Asked, before: &[Asked]) -> bool {
    before.iter().all(|other| other.path != asked.path)
}

#[tokio::test]
async fn what_passes_by_itself_is_waited_for() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = stage.proxy(|asked, before| match before.len() % 3 {
        0 if first_of_its_path(asked, before) => Act::Say(503, vec![], b"busy".to_vec()),
        1 if first_of_its_path(asked, before) => Act::Hang,
        _ => Act::Pass,
    });
    let locked = pull(&stage.bench, &proxy.address, &plain(&[&proxy.address])).await.unwrap();
    assert!(whole(&stage.bench, &locked));
}

#[tokio::test]
async fn retry_after_is_obeyed() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = stage.proxy(|_, before| match before.is_empty() {
        true => Act::Say(429, vec!["retry-after: 1".into()], vec![]),
        false => Act::Pass,
    });
    let begin = Instant::now();
    pull(&stage.bench, &proxy.address, &plain(&[&proxy.address])).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn an_interrupted_blob_goes_on_where_it_stopped() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = stage.proxy(|asked, before| match asked.is_blob() && first_of_its_path(asked, before) {
        true => Act::Cut(100_000),
        false => Act::Pass,
    });
    let locked = pull(&stage.bench, &proxy.address, &plain(&[&proxy.address])).await.unwrap();
    assert!(whole(&stage.bench, &locked));
    let resumed: Vec<Asked> =
        proxy.asked().into_iter().filter(|asked| asked.header("range").is_some()).collect();
    assert_eq!(resumed.len(), 3, "three large layers, each continued once");
    for asked in resumed {
        let range = asked.header("range").unwrap();
        let from: u64 = range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap();
        assert!(from > 0 && from <= 100_000, "{range}");
    }
}

#[tokio::test]
async fn a_flipped_bit_is_found_and_nothing_wrong_is_kept() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = stage.proxy(|asked, _| match asked.is_blob() && asked.header("range").is_none() {
        true => Act::Flip,
        false => Act::Pass,
    });
    let error = pull(&stage.bench, &proxy.address, &plain(&[&proxy.address])).await.unwrap_err();
    let text = Report::from(error).to_string();
    assert!(text.contains("has sha256 `") && text.contains("expected `"), "{text}");
    // The next run, against the registry itself, finds nothing wrong in the cache.
    let at = &stage.registry.address;
    let locked = pull(&stage.bench, at, &plain(&[at])).await.unwrap();
    assert!(whole(&stage.bench, &locked));
}

#[tokio::test]
async fn a_damaged_config_in_the_cache_is_fetched_again() {
    let Some(stage) = Stage::new().await else { return };
    let at = &stage.registry.address;
    let locked = pull(&stage.bench, at, &plain(&[at])).await.unwrap();
    let config = stage.bench.cache.path(&locked[0].config.sha256);
    let mut bytes = std::fs::read(&config).unwrap();
    bytes[5] ^= 1;
    std::fs::write(&config, bytes).unwrap();
    assert_eq!(pull(&stage.bench, at, &plain(&[at])).await.unwrap(), locked);
    assert!(whole(&stage.bench, &locked));
}

#[tokio::test]
async fn a_wrong_manifest_is_refused() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = stage.proxy(|asked, _| match asked.path.contains("/manifests/sha256:") {
        true => Act::Flip,
        false => Act::Pass,
    });
    let error = pull(&stage.bench, &proxy.address, &plain(&[&proxy.address])).await.unwrap_err();
    assert!(error.to_string().contains("expected `"), "{error}");
}

#[tokio::test]
async fn a_registry_that_dies_midway_is_said_and_the_next_run_goes_on() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = stage.proxy(|asked, before| match before.iter().filter(|asked| asked.is_blob()).count() {
        // Configs are blobs too: two of them come before the layers.
        0 | 1 => Act::Pass,
        2 if asked.is_blob() => Act::Cut(120_000),
        2 => Act::Pass,
        _ => Act::Hang,
    });
    let bench = Bench::with(Options { attempts: 2, ..Options::default() });
    let error = pull(&bench, &proxy.address, &plain(&[&proxy.address])).await.unwrap_err();
    let text = Report::from(error).to_string();
    assert!(text.starts_with("error: cannot fetch image `"), "{text}");
    assert!(text.contains("what was fetched so far is kept"), "{text}");

    let healthy = stage.proxy(|_, _| Act::Pass);
    let locked = pull(&bench, &healthy.address, &plain(&[&healthy.address])).await.unwrap();
    assert!(whole(&bench, &locked));
    let asked = healthy.asked();
    assert!(asked.iter().any(|asked| asked.header("range").is_some()), "the cut layer is continued");
    let configs = asked.iter().filter(|asked| asked.is_blob()).count();
    assert_eq!(configs, 3, "only the layers are asked for again");
}

#[tokio::test]
async fn an_endless_manifest_is_cut_off() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = stage.proxy(|asked, _| match asked.path.contains("/manifests/") {
        true => Act::Say(200, vec![], vec![b' '; 5 << 20]),
        false => Act::Pass,
    });
    let error = pull(&stage.bench, &proxy.address, &plain(&[&proxy.address])).await.unwrap_err();
    assert!(error.to_string().contains("is larger than 4"), "{error}");
}

/// A token server in front of the registry: the first token is good for `good_for` requests,
/// those after it for any number, unless it is 0.
fn token_server(good_for: usize) -> impl FnMut(&Asked, &[Asked]) -> Act + Send + 'static {
    let (mut issued, mut used) = (0, 0);
    move |asked, _| {
        if asked.path.starts_with("/token") {
            assert!(asked.path.contains("scope=repository%3Aapp%3Apull"), "{}", asked.path);
            (issued, used) = (issued + 1, 0);
            let body = format!("{{\"token\": \"token-{issued}\", \"expires_in\": 300}}");
            return Act::Say(200, vec![], body.into_bytes());
        }
        used += 1;
        if asked.header("authorization") == Some(&format!("Bearer token-{issued}"))
            && (used <= good_for || (good_for > 0 && issued > 1))
        {
            return Act::Pass;
        }
        let host = asked.header("host").unwrap();
        let challenge = format!("www-authenticate: Bearer realm=\"http://{host}/token\",service=\"test\"");
        Act::Say(401, vec![challenge], vec![])
    }
}

#[tokio::test]
async fn tokens_are_fetched_shared_and_renewed() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = stage.proxy(token_server(usize::MAX));
    let locked = pull(&stage.bench, &proxy.address, &plain(&[&proxy.address])).await.unwrap();
    assert!(whole(&stage.bench, &locked));
    let tokens =
        |proxy: &Proxy| proxy.asked().iter().filter(|asked| asked.path.starts_with("/token")).count();
    // One for locking, one for fetching.
    assert_eq!(tokens(&proxy), 2);

    let expiring = stage.proxy(token_server(2));
    let bench = Bench::new();
    let locked = pull(&bench, &expiring.address, &plain(&[&expiring.address])).await.unwrap();
    assert!(whole(&bench, &locked));
    assert_eq!(tokens(&expiring), 3);
}

#[tokio::test]
async fn a_token_that_expires_amid_a_layer_is_renewed_and_the_layer_goes_on() {
    let Some(stage) = Stage::new().await else { return };
    let (mut issued, mut oldest_good) = (0, 1);
    let mut cut = std::collections::HashSet::new();
    let proxy = stage.proxy(move |asked, _| {
        if asked.path.starts_with("/token") {
            issued += 1;
            return Act::Say(200, vec![], format!("{{\"token\": \"{issued}\"}}").into_bytes());
        }
        let carried = asked.header("authorization").and_then(|text| text.strip_prefix("Bearer "));
        if carried.and_then(|token| token.parse().ok()).is_none_or(|token: i32| token < oldest_good) {
            let host = asked.header("host").unwrap();
            let challenge = format!("www-authenticate: Bearer realm=\"http://{host}/token\"");
            return Act::Say(401, vec![challenge], vec![]);
        }
        // Every blob is cut once, the small configs after their end. With the last of the three
        // layers the tokens so far die.
        if asked.is_blob() && cut.insert(asked.path.clone()) {
            if cut.len() == 5 {
                oldest_good = issued + 1;
            }
            return Act::Cut(100_000);
        }
        Act::Pass
    });
    let locked = pull(&stage.bench, &proxy.address, &plain(&[&proxy.address])).await.unwrap();
    assert!(whole(&stage.bench, &locked));
    let resumed = proxy.asked().into_iter().filter(|asked| asked.header("range").is_some()).count();
    assert!(resumed >= 4, "three layers go on, one of them is refused first");
}

#[tokio::test]
async fn a_token_that_never_suffices_is_a_no_and_not_a_loop() {
    let Some(stage) = Stage::new().await else { return };
    let proxy = stage.proxy(token_server(0));
    let error = pull(&stage.bench, &proxy.address, &plain(&[&proxy.address])).await.unwrap_err();
    assert!(error.to_string().contains("refuses to give `app`"), "{error}");
    assert_eq!(proxy.asked().len(), 3, "asked, got a token, asked again");
}

/// With docker's own file of credentials.
fn logged_in(bench: &Bench, registry: &str, auth: serde_json::Value) -> Registries {
    let config = bench.path().join("config.json");
    let auths = serde_json::json!({"auths": {registry: auth}});
    std::fs::write(&config, auths.to_string()).unwrap();
    Registries { credentials: Credentials::from_files([config]), ..plain(&[registry]) }
}

#[tokio::test]
async fn identity_tokens_and_passwords_go_to_the_token_server_only() {
    let Some(stage) = Stage::new().await else { return };
    for (auth, expected) in [
        (serde_json::json!({"auth": "YWxpY2U6c2VjcmV0"}), "GET"),
        (serde_json::json!({"identitytoken": "refresh-me"}), "POST"),
    ] {
        let proxy = stage.proxy(move |asked, _| {
            let host = asked.header("host").unwrap();
            if asked.path.starts_with("/token") {
                assert_eq!(asked.method, expected);
                if expected == "GET" {
                    assert_eq!(asked.header("authorization"), Some("Basic YWxpY2U6c2VjcmV0"));
                }
                return Act::Say(200, vec![], b"{\"access_token\": \"t\"}".to_vec());
            }
            match asked.header("authorization") {
                Some("Bearer t") => Act::Pass,
                None => {
                    let challenge = format!("www-authenticate: Bearer realm=\"http://{host}/token\"");
                    Act::Say(401, vec![challenge], vec![])
                }
                Some(other) => panic!("the registry was told `{other}`"),
            }
        });
        let bench = Bench::new();
        let registries = logged_in(&bench, &proxy.address, auth);
        let locked = pull(&bench, &proxy.address, &registries).await.unwrap();
        assert!(whole(&bench, &locked));
    }
}

#[tokio::test]
async fn a_redirect_does_not_take_the_credentials_along() {
    let Some(stage) = Stage::new().await else { return };
    // Another port is another host: as if blobs lay with a storage provider.
    let storage = stage.proxy(|asked, _| match asked.header("authorization") {
        None => Act::Pass,
        Some(_) => Act::Say(500, vec![], b"leaked".to_vec()),
    });
    let to = storage.address.clone();
    let mut tokens = token_server(usize::MAX);
    let proxy = stage.proxy(move |asked, before| match tokens(asked, before) {
        Act::Pass if asked.is_blob() => {
            Act::Say(307, vec![format!("location: http://{to}{}", asked.path)], vec![])
        }
        other => other,
    });
    let locked = pull(&stage.bench, &proxy.address, &plain(&[&proxy.address])).await.unwrap();
    assert!(whole(&stage.bench, &locked));
    let asked = storage.asked();
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|asked| asked.header("authorization").is_none()));
}

#[tokio::test]
async fn a_host_that_is_redirected_to_cannot_ask_for_the_credentials() {
    let Some(stage) = Stage::new().await else { return };
    for redirected in ["/blobs/", "/manifests/"] {
        let thief = stage.proxy(|_, _| Act::Say(200, vec![], b"{\"token\": \"t\"}".to_vec()));
        let realm = format!("www-authenticate: Bearer realm=\"http://{}/token\"", thief.address);
        let storage = stage.proxy(move |_, _| Act::Say(401, vec![realm.clone()], vec![]));
        let to = storage.address.clone();
        let proxy = stage.proxy(move |asked, _| match asked.path.contains(redirected) {
            true => Act::Say(307, vec![format!("location: http://{to}{}", asked.path)], vec![]),
            false => Act::Pass,
        });
        let bench = Bench::new();
        let registries = logged_in(&bench, &proxy.address, serde_json::json!({"auth": "YWxpY2U6c2VjcmV0"}));
        let error = pull(&bench, &proxy.address, &registries).await.unwrap_err();
        assert!(error.to_string().contains(&format!("`http://{}/", storage.address)), "{error}");
        assert!(error.to_string().contains("answered 401"), "{error}");
        assert!(thief.asked().is_empty(), "{redirected}: told {:?}", thief.asked());
    }
}

#[tokio::test]
async fn a_token_server_cannot_send_an_identity_token_on() {
    let Some(stage) = Stage::new().await else { return };
    let thief = stage.proxy(|_, _| Act::Say(200, vec![], b"{\"token\": \"t\"}".to_vec()));
    let to = format!("location: http://{}/token", thief.address);
    let tokens = stage.proxy(move |_, _| Act::Say(307, vec![to.clone()], vec![]));
    let realm = format!("www-authenticate: Bearer realm=\"http://{}/token\"", tokens.address);
    let proxy = stage.proxy(move |_, _| Act::Say(401, vec![realm.clone()], vec![]));
    let bench = Bench::new();
    let registries = logged_in(&bench, &proxy.address, serde_json::json!({"identitytoken": "refresh-me"}));
    let error = pull(&bench, &proxy.address, &registries).await.unwrap_err();
    assert!(error.to_string().contains("to another host"), "{error}");
    assert!(thief.asked().is_empty(), "told {:?}", thief.asked());
}
