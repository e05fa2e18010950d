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
