//! Packages of a small repository: who asked for them, what was misspelt, what a target must have.

use crate::server::{Answer, Server};
use crate::world::{World, noise};
use std::fmt::Write as _;
use std::process::{Command, Stdio};

/// A flat repository of packages for any arch, and a manifest that asks for `app` and `tool`.
/// `None` where packages cannot be made.
fn repository() -> Option<World> {
    let world = World::new();
    let mut index = String::new();
    for (name, depends) in [
        ("app", "libapp, libcommon"),
        ("tool", "libcommon (>= 1)"),
        ("libapp", "libcommon"),
        ("libcommon", "base (>= 2)"),
        ("base", ""),
    ] {
        let mut control = format!("Package: {name}\nVersion: 2.0\nArchitecture: all\n");
        if !depends.is_empty() {
            writeln!(control, "Depends: {depends}").unwrap();
        }
        if name == "base" {
            control.push_str("Essential: yes\n");
        }
        let described = format!("{control}Maintainer: x\nDescription: x\n");
        world.write(&format!("made/{name}/DEBIAN/control"), described);
        if name == "app" {
            world.write("made/app/opt/app", noise(100_000));
        }
        let file = format!("repo/{name}_2.0_all.deb");
        std::fs::create_dir_all(world.path("repo")).unwrap();
        let made = Command::new("dpkg-deb")
            .args(["--root-owner-group", "-b", &format!("made/{name}"), &file])
            .current_dir(world.path("."))
            .stdout(Stdio::null())
            .status();
        if !made.is_ok_and(|status| status.success()) {
            println!("skipped: no dpkg-deb");
            return None;
        }
        let bytes = world.read(&file);
        let digest = eggo_bundles::Digest::of(&bytes);
        writeln!(index, "{control}Filename: {name}_2.0_all.deb\nSize: {}\nSHA256: {digest}\n", bytes.len())
            .unwrap();
    }
    world.write("repo/Packages", &index);
    let digest = eggo_bundles::Digest::of(index.as_bytes());
    world.write("repo/Release", format!("Suite: stable\nSHA256:\n {digest} {} Packages\n", index.len()));
    world.write("m.yaml", manifest(&world, "app, tool"));
    world.done(&["keygen", "--no-password", "-o", "key"]);
    Some(world)
}

fn manifest(world: &World, packages: &str) -> String {
    let url = world.path("repo").display().to_string();
    format!(
        "name: x\nversion: 1\narchs: [amd64, arm64]\n\
         repos: [{{name: local, type: deb, url: 'file://{url}/', suites: [./], allow-unsigned: true}}]\n\
         packages: {{node: [{packages}]}}\n"
    )
}

#[test]
fn why_names_everyone_who_needs_it() {
    let Some(world) = repository() else { return };
    world.done(&["lock", "-m", "m.yaml"]);
    insta::assert_snapshot!(world.transcript(&["why", "libcommon", "-m", "m.yaml"]));
    insta::assert_snapshot!(world.transcript(&["why", "libcommno", "-m", "m.yaml"]));
    insta::assert_snapshot!(world.transcript(&["why", "base", "-m", "m.yaml"]));
    let json = world.done(&["why", "libcommon", "-m", "m.yaml", "--arch", "arm64", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["also_required_by"], serde_json::json!(["libapp 2.0", "tool 2.0"]));
}

#[test]
fn a_misspelt_package_is_reported_with_what_was_meant() {
    let Some(world) = repository() else { return };
    world.write("m.yaml", manifest(&world, "app, libcomon"));
    insta::assert_snapshot!(world.transcript(&["lock", "-m", "m.yaml"]));
    world.write("m.yaml", manifest(&world, "app, 'tolo >= 1'"));
    let ran = world.run(&["lock", "-m", "m.yaml"]);
    assert!(ran.stderr.contains("hint: did you mean `tool`?"), "{}", ran.stderr);
    // An unknown name is not guessed, and a known name is not second-guessed.
    world.write("m.yaml", manifest(&world, "app, zebra"));
    let ran = world.run(&["lock", "-m", "m.yaml"]);
    assert!(ran.code == 1 && !ran.stderr.contains("did you mean"), "{}", ran.stderr);
    world.write("m.yaml", manifest(&world, "'tool >= 3'"));
    let ran = world.run(&["lock", "-m", "m.yaml"]);
    assert!(ran.code == 1 && !ran.stderr.contains("did you mean"), "{}", ran.stderr);
}

#[test]
fn a_baseline_that_was_captured_anew_makes_the_lock_stale() {
    let Some(world) = repository() else { return };
    let manifest = manifest(&world, "app");
    world.write("m.yaml", manifest.replace("packages:", "baseline: 'have-{arch}.txt'\npackages:"));
    world.write("have-amd64.txt", "base 2.0\n");
    world.write("have-arm64.txt", "base 2.0\n");
    world.done(&["lock", "-m", "m.yaml"]);
    world.done(&["lock", "-m", "m.yaml", "--locked"]);
    world.write("have-arm64.txt", "base 2.0\nlibcommon 2.0\n");
    let ran = world.run(&["lock", "-m", "m.yaml", "--locked"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("the manifest asks for: baseline have-arm64.txt sha256 "), "{}", ran.stderr);
    assert!(!ran.stderr.contains("have-amd64"), "{}", ran.stderr);
    assert!(world.done(&["lock", "-m", "m.yaml"]).stdout.contains("libcommon"));
}

/// eggo's tarballs do not say what their packages were resolved for.
#[test]
fn an_imported_bundle_tells_what_targets_must_have() {
    let Some(world) = repository() else { return };
    world.done(&["build", "-m", "m.yaml", "--key", "key", "-o", "b.tar.gz"]);
    assert_eq!(world.done(&["check", "b.tar.gz"]).stdout, "");
    world.done(&["export", "--eggo", "b.tar.gz", "-o", "packages"]);
    let tarballs = ["amd64=packages/packages-x86.tar.gz", "arm64=packages/packages-arm.tar.gz"];
    world.done(&[&["import", "--key", "key", "-o", "c.tar.gz"][..], &tarballs].concat());
    insta::assert_snapshot!(world.transcript(&["check", "c.tar.gz", "--pubkey", "key.pub"]));
}

/// A package that was damaged on its way is no question of completeness.
#[test]
fn check_refuses_a_damaged_package() {
    let Some(world) = repository() else { return };
    world.done(&["build", "-m", "m.yaml", "--key", "key", "-o", "b.tar.gz"]);
    // Most of the bundle is the package that was given some weight.
    let mut bytes = world.read("b.tar.gz");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    world.write("bad.tar.gz", bytes);
    let ran = world.run(&["check", "bad.tar.gz", "--pubkey", "key.pub"]);
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("is damaged"), "{}", ran.stderr);
}

/// Serves a folder to alice alone.
fn guarded(folder: std::path::PathBuf) -> Server {
    Server::start(move |asked| {
        if asked.header("authorization") != Some("Basic YWxpY2U6c2VjcmV0") {
            return Answer::new(401, "");
        }
        let name = asked.path.trim_start_matches(['/', '.']);
        match std::fs::read(folder.join(name)) {
            Ok(bytes) => Answer::file(asked, &bytes, "\"1\""),
            Err(_) => Answer::new(404, ""),
        }
    })
}

/// What is in a url to fetch something stays on this machine.
#[test]
fn passwords_in_urls_are_used_and_recorded_nowhere() {
    let Some(world) = repository() else { return };
    world.write("repo/tool.conf", "content");
    world.write("repo/addon.yaml", "kind: ConfigMap\ndata: {}\n");
    let server = guarded(world.path("repo"));
    let url = server.url("").replace("http://", "http://alice:secret@");
    let packages =
        manifest(&world, "app").replace(&format!("file://{}/", world.path("repo").display()), &url);
    world.write(
        "m.yaml",
        format!(
            "{packages}files: [{{name: tool.conf, url: ['{url}/none', '{url}/tool.conf'], dst: /etc/kubernetes}}]\n\
             addons: [{{name: settings, url: '{url}/addon.yaml'}}]\n"
        ),
    );
    let build = ["build", "-m", "m.yaml", "--key", "key", "-o", "b.tar.gz"];
    world.done(&build);
    let lock = String::from_utf8(world.read("m.lock")).unwrap();
    assert!(lock.contains(&server.url("/app_2.0_all.deb")), "{lock}");
    let remembered = world.list("home/.cache/eggo/urls");
    assert!(!remembered.is_empty());
    for name in remembered {
        let text = String::from_utf8(world.read(&format!("home/.cache/eggo/urls/{name}"))).unwrap();
        assert!(!text.contains("alice") && !text.contains("secret"), "{text}");
    }
    // Everything is fetched again, by the lock.
    let first = world.read("b.tar.gz");
    std::fs::remove_dir_all(world.path("home/.cache")).unwrap();
    std::fs::remove_file(world.path("b.tar.gz")).unwrap();
    world.done(&[&build[..], &["--locked"]].concat());
    assert!(first == world.read("b.tar.gz"));
    let index = world.done(&["inspect", "b.tar.gz", "--json"]).stdout;
    let sbom = world.done(&["sbom", "b.tar.gz"]).stdout;
    for (name, text) in [("lock", lock), ("index", index), ("sbom", sbom)] {
        assert!(!text.contains("alice") && !text.contains("secret"), "{name}: {text}");
    }
}

/// `apt-get download` writes an epoch as `%3a`, and what it wrote is scanned into an index as it is.
#[test]
fn a_name_with_a_percent_is_asked_for_as_that_name() {
    let Some(world) = repository() else { return };
    let plain = "repo/libapp_2.0_all.deb";
    std::fs::rename(world.path(plain), world.path("repo/libapp_1%3a2.0_all.deb")).unwrap();
    let index = String::from_utf8(world.read("repo/Packages")).unwrap();
    let index = index.replace("Filename: libapp_2.0_all.deb", "Filename: ./libapp_1%3a2.0_all.deb");
    world.write("repo/Packages", &index);
    let digest = eggo_bundles::Digest::of(index.as_bytes());
    world.write("repo/Release", format!("Suite: stable\nSHA256:\n {digest} {} Packages\n", index.len()));
    let build = ["build", "-m", "m.yaml", "--key", "key", "-o", "b.tar.gz"];
    world.done(&build);

    let folder = world.path("repo");
    let server = Server::start(move |asked| {
        let name = asked.path.trim_start_matches(['/', '.']).replace("%25", "%");
        std::fs::read(folder.join(name)).map_or(Answer::new(404, ""), |bytes| Answer::new(200, bytes))
    });
    let local = format!("file://{}/", world.path("repo").display());
    world.write("m.yaml", manifest(&world, "app, tool").replace(&local, &server.url("/")));
    std::fs::remove_dir_all(world.path("home/.cache")).unwrap();
    std::fs::remove_file(world.path("b.tar.gz")).unwrap();
    world.done(&["lock", "-m", "m.yaml"]);
    world.done(&build);
    let lock = String::from_utf8(world.read("m.lock")).unwrap();
    assert!(lock.contains(&server.url("/libapp_1%253a2.0_all.deb")), "{lock}");
}

/// A token in a url opens the server's door, and stays on this machine.
#[test]
fn tokens_in_urls_are_used_and_recorded_nowhere() {
    let world = World::new();
    let server = Server::start(|asked| match asked.path.as_str() {
        "/tool.conf?token=s3cret" => Answer::new(200, "content"),
        _ => Answer::new(401, ""),
    });
    let url = server.url("/tool.conf?token=s3cret");
    world.write(
        "m.yaml",
        format!("name: x\nversion: 1\nfiles: [{{name: tool.conf, url: '{url}', dst: /etc/kubernetes}}]\n"),
    );
    world.done(&["keygen", "--no-password", "-o", "key"]);
    let build = ["build", "-m", "m.yaml", "--key", "key", "-o", "b.tar.gz"];
    world.done(&build);
    std::fs::remove_dir_all(world.path("home/.cache")).unwrap();
    std::fs::remove_file(world.path("b.tar.gz")).unwrap();
    world.done(&[&build[..], &["--locked"]].concat());
    let lock = String::from_utf8(world.read("m.lock")).unwrap();
    assert!(lock.contains(&server.url("/tool.conf")), "{lock}");
    let index = world.done(&["inspect", "b.tar.gz", "--json"]).stdout;
    let sbom = world.done(&["sbom", "b.tar.gz"]).stdout;
    for (name, text) in [("lock", lock), ("index", index), ("sbom", sbom)] {
        assert!(!text.contains("s3cret"), "{name}: {text}");
    }
}
