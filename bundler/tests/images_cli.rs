//! The program itself, from a manifest with images and an addon to a bundle on a registry.

mod images_support;

use images_support::make::{Pile, Style};
use images_support::{Bench, DockerRegistry, Setup, have, run};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const USERS: &str = "alice:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

fn program(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_eggo-bundle"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .env("PATH", format!("{}:/usr/bin:/bin", folder.join("bin").display()))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = program(folder, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_credential_helper_a_bundle_with_images_and_its_release_on_the_registry() {
    if !have(&["docker-registry", "skopeo", "minisign"]) {
        return;
    }
    let registry = DockerRegistry::with(&Setup { users: Some(USERS), ..Setup::default() });
    let (at, bench) = (&registry.address, Bench::new());
    let folder = bench.path();
    let mut pile = Pile::default();
    let index = pile.multi(Style::Oci, "app", 10_000);
    pile.write_layout(&folder.join("layout"), &[("1", &index)]);
    let from = format!("oci:{}:1", folder.join("layout").display());
    for name in ["team/app:1", "team/addon:2"] {
        let to = format!("docker://{at}/{name}");
        run(
            "skopeo",
            &["copy", "-q", "--all", "--dest-tls-verify=false", "--dest-creds=alice:secret", &from, &to],
        );
    }
    std::fs::create_dir_all(folder.join(".docker")).unwrap();
    std::fs::create_dir_all(folder.join("bin")).unwrap();
    let config = serde_json::json!({"credHelpers": {at.as_str(): "test"}});
    std::fs::write(folder.join(".docker/config.json"), config.to_string()).unwrap();
    let helper = folder.join("bin/docker-credential-test");
    let answer = "[ \"$1 $(cat)\" = \"get $WANT\" ] && echo '{\"Username\":\"alice\",\"Secret\":\"secret\"}'";
    std::fs::write(&helper, format!("#!/bin/sh\n{}\n", answer.replace("$WANT", at))).unwrap();
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();

    let addon = format!(
        "kind: Pod\nspec:\n  containers:\n  - image: {at}/team/addon:2\n    args: [--helper=quay.io/a/b:1]\n"
    );
    std::fs::write(folder.join("addon.yaml"), addon).unwrap();
    let manifest = format!(
        "name: k8s\nversion: 1.0.0\narchs: [amd64, arm64]\n\
         registries: [{{name: '{at}', plain-http: true}}]\n\
         images: ['{at}/team/app:1']\n\
         addons: [{{name: addon, path: addon.yaml, images: discover}}]\n"
    );
    std::fs::write(folder.join("m.yaml"), manifest).unwrap();
    succeed(folder, &["keygen", "--no-password", "-o", "key"]);
    let build = program(
        folder,
        &["build", "-m", "m.yaml", "--arch", "amd64,arm64", "--key", "key", "-o", "b.tar.gz"],
    );
    let stderr = String::from_utf8_lossy(&build.stderr);
    assert!(build.status.success(), "{stderr}");
    assert!(stderr.contains("quay.io/a/b:1"), "what may be an image is reported: {stderr}");
    succeed(folder, &["verify", "b.tar.gz", "--pubkey", "key.pub"]);
    let again = [
        "build",
        "-m",
        "m.yaml",
        "--arch",
        "amd64,arm64",
        "--key",
        "key",
        "-o",
        "c.tar.gz",
        "--locked",
        "--offline",
    ];
    succeed(folder, &again);
    let bytes = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(bytes("b.tar.gz") == bytes("c.tar.gz"), "the same lock gives the same bytes");

    let target = format!("oci://{at}/bundles/k8s:1.0.0");
    let publish = ["publish", "b.tar.gz", target.as_str(), "--plain-http", "--pubkey", "key.pub"];
    let printed = succeed(folder, &publish);
    assert!(printed.starts_with(&format!("{at}/bundles/k8s@sha256:")), "{printed}");
    if !have(&["oras"]) {
        return;
    }
    let out = folder.join("pulled");
    let source = target.trim_start_matches("oci://");
    let arguments =
        ["pull", "--plain-http", "-u", "alice", "-p", "secret", "-o", out.to_str().unwrap(), source];
    run("oras", &arguments);
    assert!(std::fs::read(out.join("k8s-1.0.0.tar.gz")).unwrap() == bytes("b.tar.gz"));
    run("sh", &["-c", &format!("cd {} && sha256sum -c --quiet SHA256SUMS", out.display())]);
}

/// As flannel did it for years: an image and a DaemonSet per arch. And words that only look like images.
#[tokio::test]
async fn images_for_one_arch_and_guesses_that_are_wrong() {
    if !have(&["docker-registry"]) {
        return;
    }
    let registry = DockerRegistry::start();
    let (at, bench) = (&registry.address, Bench::new());
    let folder = bench.path();
    let mut pile = Pile::default();
    for arch in ["amd64", "arm64"] {
        let image = pile.image(Style::Docker, arch, None, &[(arch, 1_000)]);
        pile.push(&bench.http, at, "flannel", &image, &format!("v0.11.0-{arch}")).await;
    }
    let index = pile.multi(Style::Oci, "helper", 1_000);
    pile.push(&bench.http, at, "helper", &index, "1").await;
    let daemon = |arch: &str| {
        format!(
            "---\nkind: DaemonSet\napiVersion: apps/v1\nspec: {{template: {{spec: {{\n  \
             nodeSelector: {{kubernetes.io/arch: {arch}}},\n  \
             containers: [{{image: '{at}/flannel:v0.11.0-{arch}', args: ['echo image {at}/echoed:9', '--helper-image={at}/helper:1']}}]}}}}}}\n"
        )
    };
    let addon = ["amd64", "arm64", "s390x"].map(daemon).concat();
    std::fs::write(folder.join("flannel.yaml"), &addon).unwrap();
    let manifest = |more: &str| {
        format!(
            "name: k8s\nversion: 1.0.0\nregistries: [{{name: '{at}', plain-http: true}}]\n\
             addons: [{{name: flannel, path: flannel.yaml, images: all{more}}}]\n"
        )
    };
    std::fs::write(folder.join("m.yaml"), manifest("")).unwrap();
    succeed(folder, &["keygen", "--no-password", "-o", "key"]);
    let build = program(folder, &["build", "-m", "m.yaml", "--key", "key", "-o", "b.tar.gz"]);
    let told = String::from_utf8(build.stderr).unwrap();
    assert!(build.status.success(), "{told}");
    let place = "`flannel.yaml:6, args` only looks like one, and is left out";
    assert!(told.contains(&format!("warning: there is no image `{at}/echoed:9`: {place}")), "{told}");
    assert!(
        told.contains(&format!("run on other machines only: {at}/flannel:v0.11.0-s390x (flannel.yaml:18")),
        "{told}"
    );
    let lock = std::fs::read_to_string(folder.join("m.lock")).unwrap();
    let images: Vec<&str> = lock.lines().filter(|line| line.starts_with("name = \"127")).collect();
    assert_eq!(images.len(), 4, "one of each arch, and the helper for both: {images:?}");
    assert!(lock.contains(&format!("possible = [\"{at}/echoed:9 (flannel.yaml:6, args)\"]")), "{lock}");
    let checked = program(folder, &["check", "b.tar.gz", "--pubkey", "key.pub"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));

    // What a pod names must exist, unless it is excluded.
    std::fs::write(folder.join("flannel.yaml"), addon.replace("v0.11.0-arm64", "v0.12.0-arm64")).unwrap();
    let locked = program(folder, &["lock", "-m", "m.yaml"]);
    let told = String::from_utf8(locked.stderr).unwrap();
    assert_eq!(locked.status.code(), Some(1));
    assert!(told.contains(&format!("there is no image `{at}/flannel:v0.12.0-arm64`")), "{told}");
    std::fs::write(folder.join("m.yaml"), manifest(", exclude: ['*/flannel:v0.12*', '*/echoed:*', 'x']"))
        .unwrap();
    let locked = program(folder, &["lock", "-m", "m.yaml"]);
    let told = String::from_utf8(locked.stderr).unwrap();
    assert!(locked.status.success() && !told.contains("echoed"), "{told}");
    assert!(told.contains("warning: addon `flannel` excludes `x`, which is none of its images"), "{told}");

    // Where nothing says it, the manifest's word counts.
    let plain = format!("kind: Pod\nspec: {{containers: [{{image: '{at}/flannel:v0.11.0-arm64'}}]}}\n");
    std::fs::write(folder.join("flannel.yaml"), plain).unwrap();
    std::fs::write(folder.join("m.yaml"), manifest("")).unwrap();
    let locked = program(folder, &["lock", "-m", "m.yaml"]);
    let told = String::from_utf8(locked.stderr).unwrap();
    assert!(
        told.contains("has nothing for amd64")
            && told.contains("name it under `images` with the `archs` that it is for"),
        "{told}"
    );
    let named = format!("images: [{{name: '{at}/flannel:v0.11.0-arm64', archs: [arm64]}}]\n");
    std::fs::write(folder.join("m.yaml"), manifest("") + &named).unwrap();
    succeed(folder, &["lock", "-m", "m.yaml"]);
    let lock = std::fs::read_to_string(folder.join("m.lock")).unwrap();
    assert_eq!(lock.matches("[[image]]").count(), 1, "{lock}");
}
