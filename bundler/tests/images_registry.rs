//! Images from a real registry: every kind of manifest, auth, TLS, mirrors; compared with skopeo.

mod images_support;

use eggo_bundle::http::{Http, Options, Trust};
use eggo_bundle::images::{self, Credentials, Error, Registries, Wanted};
use eggo_bundle::lock::LockedImage;
use eggo_bundles::{Arch, Digest};
use eggo_terminal::{Explain, Report};
use images_support::make::{Pile, Style, config_of, digest_of};
use images_support::{Bench, DockerRegistry, Setup, have, plain, run};
use serde_json::Value;
use std::path::PathBuf;

const BOTH: [Arch; 2] = Arch::ALL;

fn wanted(name: &str) -> Wanted {
    Wanted::new(name.parse().unwrap(), vec![], "manifest".to_string())
}

async fn lock(
    bench: &Bench,
    registries: &Registries,
    names: &[&str],
    archs: &[Arch],
) -> Result<Vec<LockedImage>, Error> {
    let wanted: Vec<Wanted> = names.iter().map(|name| wanted(name)).collect();
    images::lock(&wanted, archs, registries, bench.path(), bench.tools()).await
}

fn explained(error: Error) -> String {
    Report::from(error).to_string()
}

/// A registry that has one image.
async fn registry_with(bench: &Bench, pile: &Pile, name: &str, image: &Value, tag: &str) -> DockerRegistry {
    let registry = DockerRegistry::start();
    pile.push(&bench.http, &registry.address, name, image, tag).await;
    registry
}

#[tokio::test]
async fn every_kind_of_manifest_as_skopeo_sees_it() {
    if !have(&["docker-registry", "skopeo"]) {
        return;
    }
    let registry = DockerRegistry::start();
    let bench = Bench::new();
    let at = &registry.address;
    let mut names = Vec::new();
    for (tag, style) in [("oci", Style::Oci), ("docker", Style::Docker)] {
        let mut pile = Pile::default();
        let index = pile.multi(style, tag, 20_000);
        pile.push(&bench.http, at, "team/app", &index, tag).await;
        names.push(format!("{at}/team/app:{tag}"));
        names.push(format!("{at}/team/app:{tag}@{}", digest_of(&index).oci()));
        names.push(format!("{at}/team/app@{}", digest_of(&index).oci()));
    }
    // Attestations, an older variant spelling, and an image for newer CPUs beside the right one.
    let mut pile = Pile::default();
    let newer = pile.image(Style::Oci, "amd64", Some("v3"), &[("newer", 100)]);
    let amd64 = pile.image(Style::Oci, "amd64", None, &[("plain", 100)]);
    let arm64 = pile.image(Style::Oci, "arm64", None, &[("arm", 100)]);
    let attestation = pile.attestation(&amd64);
    let index = pile.index(Style::Oci, &[attestation, newer, amd64.clone(), arm64]);
    pile.push(&bench.http, at, "team/attested", &index, "1").await;
    names.push(format!("{at}/team/attested:1"));

    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let registries = plain(&[at]);
    let locked = lock(&bench, &registries, &names, &BOTH).await.unwrap();
    assert_eq!(locked.len(), names.len() * 2);
    let attested = locked.iter().find(|i| i.name == *names.last().unwrap() && i.arch == Arch::Amd64).unwrap();
    assert_eq!(attested.manifest, digest_of(&amd64));

    images::fetch(&locked, &registries, bench.path(), bench.tools()).await.unwrap();
    for image in &locked {
        // skopeo reads the manifest of one platform and prints its bytes and config as they are.
        let source = format!("docker://{at}/{}", by_digest(image));
        let raw = run("skopeo", &["inspect", "--raw", "--tls-verify=false", &source]);
        assert_eq!(Digest::of(raw.as_bytes()), image.manifest, "{}", image.name);
        let config = run("skopeo", &["inspect", "--raw", "--config", "--tls-verify=false", &source]);
        assert_eq!(Digest::of(config.as_bytes()), image.config.sha256, "{}", image.name);
        for blob in image.blobs() {
            let (_, size) = bench.cache.verified(&blob.sha256).unwrap().expect("every blob is in the cache");
            assert_eq!(size, blob.size);
        }
    }
}

fn by_digest(image: &LockedImage) -> String {
    let reference: images::Reference = image.name.parse().unwrap();
    format!("{}@{}", reference.repository(), image.manifest.oci())
}

#[tokio::test]
async fn a_single_manifest_serves_its_own_arch_only() {
    if !have(&["docker-registry"]) {
        return;
    }
    let (mut pile, bench) = (Pile::default(), Bench::new());
    let amd64 = pile.image(Style::Docker, "amd64", None, &[("only", 100)]);
    let registry = registry_with(&bench, &pile, "single", &amd64, "1").await;
    let at = &registry.address;
    let registries = plain(&[at]);
    let name = format!("{at}/single:1");
    let locked = lock(&bench, &registries, &[&name], &[Arch::Amd64]).await.unwrap();
    assert_eq!(locked[0].manifest, digest_of(&amd64));
    assert_eq!(locked[0].media_type, Style::Docker.manifest());
    let error = lock(&bench, &registries, &[&name], &BOTH).await.unwrap_err();
    assert_eq!(
        explained(error),
        format!(
            "error: image `{name}` has nothing for arm64\n  found: linux/amd64\n\n\
             hint: choose a tag that has arm64, or name it under `images` with the `archs` that it is for"
        )
    );
}

#[tokio::test]
async fn what_is_not_there_is_said_with_the_nearest_tag() {
    if !have(&["docker-registry"]) {
        return;
    }
    let (mut pile, bench) = (Pile::default(), Bench::new());
    let index = pile.multi(Style::Oci, "x", 100);
    let registry = registry_with(&bench, &pile, "app", &index, "v3.19.1").await;
    let at = &registry.address;
    let registries = plain(&[at]);
    let error = lock(&bench, &registries, &[&format!("{at}/app:v3.19.11")], &BOTH).await.unwrap_err();
    let text = explained(error);
    assert!(text.starts_with(&format!("error: there is no image `{at}/app:v3.19.11`")), "{text}");
    assert!(text.ends_with("hint: did you mean tag `v3.19.1`?"), "{text}");
    let error = lock(&bench, &registries, &[&format!("{at}/none:1")], &BOTH).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { nearest: None, .. }), "{error}");
}

#[tokio::test]
async fn plain_http_is_spoken_only_to_registries_that_are_named() {
    if !have(&["docker-registry"]) {
        return;
    }
    let registry = DockerRegistry::start();
    let bench = Bench::with(Options { attempts: 1, ..Options::default() });
    let at = &registry.address;
    let error = lock(&bench, &Registries::default(), &[&format!("{at}/app:1")], &BOTH).await.unwrap_err();
    let hint = error.hint().unwrap_or_default();
    assert!(hint.contains("seems to speak plain http"), "{error}: {hint}");
}

// bcrypt of `secret`, which is the only kind the registry takes.
const USERS: &str = "alice:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

#[tokio::test]
async fn passwords_come_from_dockers_config() {
    if !have(&["docker-registry", "skopeo"]) {
        return;
    }
    let registry = DockerRegistry::with(&Setup { users: Some(USERS), ..Setup::default() });
    let bench = Bench::new();
    let at = &registry.address;
    let mut pile = Pile::default();
    let index = pile.multi(Style::Oci, "private", 1000);
    let layout = bench.path().join("layout");
    pile.write_layout(&layout, &[("1", &index)]);
    let from = format!("oci:{}:1", layout.display());
    let to = format!("docker://{at}/private:1");
    run(
        "skopeo",
        &["copy", "-q", "--all", "--dest-tls-verify=false", "--dest-creds=alice:secret", &from, &to],
    );

    let name = format!("{at}/private:1");
    let mut registries = plain(&[at]);
    let error = lock(&bench, &registries, &[&name], &BOTH).await.unwrap_err();
    let text = explained(error);
    assert!(text.contains(&format!("`{at}` refuses to give `private`")), "{text}");
    assert!(text.contains(&format!("skopeo login {at}")), "{text}");

    let config = bench.path().join("config.json");
    let write = |auth: &str| {
        let auths = serde_json::json!({"auths": {at.as_str(): {"auth": auth}}});
        std::fs::write(&config, auths.to_string()).unwrap();
    };
    write("YWxpY2U6d3Jvbmc="); // alice:wrong
    registries.credentials = Credentials::from_files([config.clone()]);
    let error = lock(&bench, &registries, &[&name], &BOTH).await.unwrap_err();
    let text = explained(error);
    assert!(text.contains("asked as user `alice`") && !text.contains("wrong"), "{text}");
    write("YWxpY2U6c2VjcmV0"); // alice:secret
    let locked = lock(&bench, &registries, &[&name], &BOTH).await.unwrap();
    images::fetch(&locked, &registries, bench.path(), bench.tools()).await.unwrap();
    assert_eq!(locked[1].config.sha256, config_of(&pile, &index, Arch::Arm64));
}

#[tokio::test]
async fn an_own_ca_is_trusted_when_named() {
    if !have(&["docker-registry", "openssl", "skopeo"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
    let mut ca = vec!["req", "-x509", "-subj", "/CN=Test CA"];
    ca.extend(key);
    let (ca_key, ca_file, leaf_key, leaf) =
        (path("ca.key"), path("ca.pem"), path("leaf.key"), path("leaf.pem"));
    ca.extend(["-keyout", &ca_key, "-out", &ca_file]);
    run("openssl", &ca);
    let mut request = vec!["req", "-x509", "-subj", "/CN=registry", "-addext", "subjectAltName=IP:127.0.0.1"];
    request.extend(["-addext", "basicConstraints=critical,CA:FALSE", "-CA", &ca_file, "-CAkey", &ca_key]);
    request.extend(key);
    request.extend(["-keyout", &leaf_key, "-out", &leaf]);
    run("openssl", &request);

    let tls = Some((leaf.into(), leaf_key.into()));
    let registry = DockerRegistry::with(&Setup { tls, ..Setup::default() });
    let at = &registry.address;
    let mut pile = Pile::default();
    let index = pile.multi(Style::Oci, "tls", 1000);
    let layout = folder.path().join("layout");
    pile.write_layout(&layout, &[("1", &index)]);
    let (from, to) = (format!("oci:{}:1", layout.display()), format!("docker://{at}/tls:1"));
    run("skopeo", &["copy", "-q", "--all", "--dest-tls-verify=false", &from, &to]);

    let name = format!("{at}/tls:1");
    let distrustful = Bench::with(Options { attempts: 1, ..Options::default() });
    let error = lock(&distrustful, &Registries::default(), &[&name], &BOTH).await.unwrap_err();
    assert!(error.hint().unwrap().contains("CA"), "{error}");
    let bench = Bench::with(Options { ca_files: vec![ca_file.into()], ..Options::default() });
    let locked = lock(&bench, &Registries::default(), &[&name], &BOTH).await.unwrap();
    images::fetch(&locked, &Registries::default(), bench.path(), bench.tools()).await.unwrap();
}

/// What `openssl req -x509` makes is a CA and a server at once; curl and skopeo take it, too.
#[tokio::test]
async fn a_certificate_that_is_named_is_trusted_as_what_it_is() {
    if !have(&["docker-registry", "openssl"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let self_signed = |name: &str, names: &str| {
        let (key, certificate) = (file(&format!("{name}.key")), file(&format!("{name}.pem")));
        let names = format!("subjectAltName={names}");
        let mut request = vec!["req", "-x509", "-subj", "/CN=self", "-addext", &names, "-days", "2"];
        request.extend(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        request.extend(["-keyout", &key, "-out", &certificate]);
        run("openssl", &request);
        (PathBuf::from(certificate), PathBuf::from(key))
    };
    let (server, guest) = (self_signed("server", "IP:127.0.0.1"), self_signed("guest", "DNS:guest"));
    let misnamed = self_signed("misnamed", "DNS:elsewhere");
    let answer = async |registry: &DockerRegistry, ca_files: Vec<PathBuf>, trusts: Vec<Trust>| {
        let http = Http::new(Options { attempts: 1, ca_files, trusts, ..Options::default() })?;
        let url = eggo_bundle::http::url(&format!("https://{}/v2/", registry.address))?;
        http.get(url, 1 << 10).await.map(drop)
    };
    let open = DockerRegistry::with(&Setup { tls: Some(server.clone()), ..Setup::default() });
    let own = |registry: &DockerRegistry| Trust { host: registry.address.clone(), ..Trust::default() };
    answer(&open, vec![], vec![]).await.unwrap_err();
    answer(&open, vec![guest.0.clone()], vec![]).await.unwrap_err();
    answer(&open, vec![server.0.clone()], vec![]).await.unwrap();
    answer(&open, vec![], vec![Trust { ca_files: vec![server.0.clone()], ..own(&open) }]).await.unwrap();
    answer(&open, vec![], vec![Trust { insecure: true, ..own(&open) }]).await.unwrap();
    let other = Trust { insecure: true, host: "127.0.0.1:1".into(), ..Trust::default() };
    answer(&open, vec![], vec![other]).await.unwrap_err();
    // The right certificate for the wrong name is the wrong one.
    let renamed = DockerRegistry::with(&Setup { tls: Some(misnamed.clone()), ..Setup::default() });
    let error = answer(&renamed, vec![misnamed.0.clone()], vec![]).await.unwrap_err();
    assert!(matches!(error, eggo_bundle::http::Error::Certificate { .. }), "{error}");

    let setup = Setup { tls: Some(server.clone()), client_ca: Some(guest.0.clone()), ..Setup::default() };
    let guarded = DockerRegistry::with(&setup);
    let without_key = Trust { ca_files: vec![server.0.clone()], ..own(&guarded) };
    answer(&guarded, vec![], vec![without_key.clone()]).await.unwrap_err();
    answer(&guarded, vec![], vec![Trust { client: Some(guest), ..without_key }]).await.unwrap();
}

#[tokio::test]
async fn mirrors_are_asked_first_and_the_registry_itself_last() {
    if !have(&["docker-registry"]) {
        return;
    }
    let (mirror, registry) = (DockerRegistry::start(), DockerRegistry::start());
    let bench = Bench::with(Options { attempts: 1, ..Options::default() });
    let mut pile = Pile::default();
    let mirrored = pile.multi(Style::Oci, "mirrored", 1000);
    pile.push(&bench.http, &mirror.address, "hub/library/a", &mirrored, "1").await;
    let mut other = Pile::default();
    let original = other.multi(Style::Oci, "original", 1000);
    other.push(&bench.http, &registry.address, "library/b", &original, "1").await;

    let mut registries = plain(&[&mirror.address, &registry.address]);
    let mirrors = vec!["http://127.0.0.1:1".to_string(), format!("{}/hub", mirror.address)];
    registries.mirrors.insert(registry.address.clone(), mirrors);
    let at = &registry.address;
    let (a, b) = (format!("{at}/library/a:1"), format!("{at}/library/b:1"));
    let locked = lock(&bench, &registries, &[&a, &b], &[Arch::Arm64]).await.unwrap();
    images::fetch(&locked, &registries, bench.path(), bench.tools()).await.unwrap();
    assert_eq!(locked[0].config.sha256, config_of(&pile, &mirrored, Arch::Arm64));
    assert_eq!(locked[1].config.sha256, config_of(&other, &original, Arch::Arm64));
    assert_eq!(locked[0].name, a, "the name stays the registry's");
}
