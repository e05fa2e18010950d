//! Publishing to a registry: what `oras pull` gets back, and pushes that are interrupted.

mod images_support;

use eggo_bundle::http::Options;
use eggo_bundle::images::{self, Artifact, ArtifactFile, Credentials};
use eggo_bundles::Digest;
use eggo_terminal::Explain;
use images_support::make::layer;
use images_support::proxy::{Act, Proxy};
use images_support::{Bench, DockerRegistry, Setup, have, plain, run};
use std::collections::BTreeMap;
use std::path::Path;

const LARGE: usize = 80 << 20;

fn artifact(folder: &Path) -> Artifact {
    let large = folder.join("bundle.tar.gz");
    if !large.exists() {
        std::fs::write(&large, layer("large", LARGE)).unwrap();
        std::fs::write(folder.join("SHA256SUMS"), "0  bundle.tar.gz\n").unwrap();
    }
    let file = |name: &str, media_type: &str| ArtifactFile {
        path: folder.join(name),
        title: name.into(),
        media_type: media_type.into(),
    };
    Artifact {
        artifact_type: "application/vnd.eggo.bundle.v1".into(),
        annotations: BTreeMap::from([("org.opencontainers.image.version".into(), "1.20.2".into())]),
        files: vec![
            file("bundle.tar.gz", "application/vnd.eggo.bundle.v1.tar+gzip"),
            file("SHA256SUMS", "text/plain"),
        ],
    }
}

fn digest(file: &Path) -> Digest {
    Digest::of_reader(&mut std::fs::File::open(file).unwrap()).unwrap().0
}

#[tokio::test]
async fn what_is_pushed_comes_back_with_oras_and_is_not_sent_twice() {
    if !have(&["docker-registry"]) {
        return;
    }
    let (registry, bench) = (DockerRegistry::start(), Bench::new());
    let artifact = artifact(bench.path());
    let registries = plain(&[&registry.address]);
    let target = format!("{}/bundles/kubernetes:1.20.2", registry.address).parse().unwrap();
    let first = images::push(&target, &artifact, &registries, bench.tools()).await.unwrap();
    assert!(first.sent as usize > LARGE && first.present == 0);
    let second = images::push(&target, &artifact, &registries, bench.tools()).await.unwrap();
    assert_eq!((second.digest, second.sent, second.present), (first.digest, 0, first.sent));

    if !have(&["oras"]) {
        return;
    }
    let out = bench.path().join("pulled");
    run("oras", &["pull", "--plain-http", "-o", out.to_str().unwrap(), &target.to_string()]);
    for file in &artifact.files {
        assert_eq!(digest(&out.join(&file.title)), digest(&file.path), "{}", file.title);
    }
}

#[tokio::test]
async fn an_interrupted_push_goes_on_in_this_run_and_in_the_next() {
    if !have(&["docker-registry"]) {
        return;
    }
    let (registry, bench) = (DockerRegistry::start(), Bench::new());
    let artifact = artifact(bench.path());
    // The second piece breaks in the middle, once.
    let proxy = Proxy::start(&registry.address, |asked, before| {
        let pieces = before.iter().filter(|asked| asked.method == "PATCH").count();
        match asked.method == "PATCH" && pieces == 1 {
            true => Act::Cut(1 << 20),
            false => Act::Pass,
        }
    });
    let registries = plain(&[&proxy.address]);
    let target = format!("{}/a:1", proxy.address).parse().unwrap();
    let pushed = images::push(&target, &artifact, &registries, bench.tools()).await.unwrap();
    assert!((pushed.sent as usize) < LARGE + (40 << 20), "not all was sent again");

    // The registry goes away after the first piece.
    let dying = Proxy::start(&registry.address, |asked, before| {
        let pieces = before.iter().filter(|asked| asked.method == "PATCH").count();
        match pieces {
            0 => Act::Pass,
            _ if asked.method == "HEAD" => Act::Pass,
            _ => Act::Hang,
        }
    });
    let mut impatient = Bench::with(Options { attempts: 1, ..Options::default() });
    let target = format!("{}/b:1", dying.address).parse().unwrap();
    let error =
        images::push(&target, &artifact, &plain(&[&dying.address]), impatient.tools()).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot push to `{target}`")), "{error}");
    assert!(error.hint().is_some());
    let address = dying.address.clone();
    drop(dying);

    // The same address is healthy again.
    let healthy = Proxy::start_at(&address, &registry.address, |_, _| Act::Pass);
    impatient.http = Bench::new().http;
    let pushed = images::push(&target, &artifact, &plain(&[&address]), impatient.tools()).await.unwrap();
    assert!((pushed.sent as usize) < LARGE - (20 << 20), "went on after the first piece: {}", pushed.sent);
    drop(healthy);
}

#[tokio::test]
async fn a_push_uses_credentials_and_says_when_they_do_not_suffice() {
    if !have(&["docker-registry"]) {
        return;
    }
    let users = "alice:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";
    let registry = DockerRegistry::with(&Setup { users: Some(users), ..Setup::default() });
    let bench = Bench::new();
    std::fs::write(bench.path().join("bundle.tar.gz"), "small").unwrap();
    std::fs::write(bench.path().join("SHA256SUMS"), "sums").unwrap();
    let artifact = artifact(bench.path());
    let target = format!("{}/a:1", registry.address).parse().unwrap();
    let mut registries = plain(&[&registry.address]);
    let error = images::push(&target, &artifact, &registries, bench.tools()).await.unwrap_err();
    assert!(error.to_string().contains("refuses a push to `a`"), "{error}");
    let config = bench.path().join("config.json");
    let auths = serde_json::json!({"auths": {registry.address.as_str(): {"auth": "YWxpY2U6c2VjcmV0"}}});
    std::fs::write(&config, auths.to_string()).unwrap();
    registries.credentials = Credentials::from_files([config]);
    images::push(&target, &artifact, &registries, bench.tools()).await.unwrap();
}
