//! What people see: help, usage, first steps.

use crate::server::{Answer, Server};
use crate::world::World;

#[test]
fn first_steps() {
    let world = World::new();
    insta::assert_snapshot!(world.transcript(&["build"]));
    insta::assert_snapshot!(world.transcript(&["init"]));
    let again = world.run(&["init"]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("hint: name another file"), "{}", again.stderr);
}

#[test]
fn an_arch_that_the_manifest_is_not_for_is_an_error() {
    let world = World::new();
    world.write("m.yaml", "name: n\nversion: 1\narchs: [amd64]\n");
    for command in ["lock", "build"] {
        let ran = world.run(&[command, "-m", "m.yaml", "--arch", "amd64,arm64"]);
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains("error: `m.yaml` is not for arm64, but for amd64"), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint: leave it out of `--arch`"), "{}", ran.stderr);
    }
    assert!(!world.path("m.lock").exists() && !world.path("home/.config").exists());
    // Without `archs` it is for all.
    world.write("m.yaml", "name: n\nversion: 1\n");
    world.done(&["lock", "-m", "m.yaml", "--arch", "arm64"]);
}

#[test]
fn verbose_tells_what_is_fetched_and_what_the_cache_has() {
    let world = World::new();
    let server = Server::start(|asked| Answer::file(asked, b"content", "\"1\""));
    let url = server.url("/f.conf").replace("http://", "http://alice:secret@");
    world.write(
        "m.yaml",
        format!("name: n\nversion: 1\narchs: [amd64]\nfiles: [{{url: '{url}', dst: /etc/kubernetes}}]\n"),
    );
    let build = ["build", "-m", "m.yaml", "-o", "b.tar.gz"];
    let first = world.done(&[&build[..], &["-v"]].concat()).stderr;
    let shown = server.url("/f.conf");
    assert!(first.contains(&format!("DEBUG GET {shown}\n")), "{first}");
    assert!(first.contains(&format!("DEBUG 200 from {shown}: 7 B\n")), "{first}");
    assert!(!first.contains("secret"), "{first}");
    let second = world.done(&[&build[..], &["-v", "--locked"]].concat()).stderr;
    assert!(second.contains("DEBUG in the cache: ") && !second.contains("GET"), "{second}");
    assert!(!world.done(&build).stderr.contains("DEBUG"));
}

#[test]
fn help_suffices() {
    let world = World::new();
    insta::assert_snapshot!(world.transcript(&["--help"]));
    insta::assert_snapshot!(world.transcript(&["build", "--help"]));
    assert_eq!(world.run(&[]).code, 2);
    assert_eq!(world.run(&["biuld"]).code, 2);
    assert_eq!(world.run(&["build", "--no-such-flag"]).code, 2);
}

#[test]
fn completions_and_manual_pages_are_made() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = world.done(&["completions", shell]).stdout;
        assert!(script.contains("cache-dir"), "{shell}");
    }
    assert!(world.done(&["man"]).stdout.contains(".TH eggo-bundle 1"));
    world.done(&["man", "-o", "man"]);
    assert!(world.list("man").contains(&"eggo-bundle-build.1".to_string()));
}

#[test]
fn keys_are_made_once_and_kept_secret() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.done(&["keygen", "--no-password", "-o", "key"]);
    let mode = std::fs::metadata(world.path("key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    insta::assert_snapshot!(world.transcript(&["keygen", "--no-password", "-o", "key"]));
    insta::assert_snapshot!(world.transcript(&["keygen", "-o", "other"]));
    // With a password, the key signs only for those who know it.
    let mut command = world.command(&["keygen", "-o", "locked"]);
    assert!(command.env("EGGO_KEY_PASSWORD", "secret").status().unwrap().success());
    world.write("file", "x");
    world.write("m.yaml", "name: x\nversion: 1\nfiles: [{path: file, dst: /tmp}]\n");
    let build = ["build", "-m", "m.yaml", "--key", "locked", "-o", "out.tar.gz"];
    assert_eq!(world.run(&build).code, 1);
    let wrong = world.command(&build).env("EGGO_KEY_PASSWORD", "wrong").status().unwrap();
    assert_eq!(wrong.code(), Some(1));
    assert!(world.command(&build).env("EGGO_KEY_PASSWORD", "secret").status().unwrap().success());
    world.done(&["verify", "out.tar.gz", "--pubkey", "locked.pub"]);
}

#[test]
fn the_default_key_is_made_on_first_use_and_said() {
    let world = World::new();
    world.write("file", "x");
    world.write("bundle.yaml", "name: x\nversion: 1\nfiles: [{path: file, dst: /tmp}]\n");
    let first = world.done(&["build"]);
    assert!(first.stderr.contains("made a new signing key"), "{}", first.stderr);
    let second = world.done(&["build"]);
    assert!(!second.stderr.contains("made a new signing key"), "{}", second.stderr);
    // What I sign, I trust.
    world.done(&["verify", "x-1.tar.gz"]);
    let quiet = world.done(&["build", "--quiet"]);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
}

#[test]
fn why_tells_who_asked() {
    let world = World::new();
    world.write("file", "x");
    world.write("bundle.yaml", "name: x\nversion: 1\nfiles: [{name: settings, path: file, dst: /tmp}]\n");
    insta::assert_snapshot!(world.transcript(&["why", "settings"]));
    world.done(&["lock"]);
    insta::assert_snapshot!(world.transcript(&["why", "settings"]));
    insta::assert_snapshot!(world.transcript(&["why", "setings"]));
}

#[test]
fn a_bundle_of_nothing_is_warned_about() {
    let world = World::new();
    world.write("bundle.yaml", "name: x\nversion: 1\n");
    let built = world.done(&["build"]);
    assert!(built.stderr.contains("warning: the bundle is empty"), "{}", built.stderr);
}

#[test]
fn habits_of_other_programs_are_understood() {
    let world = World::new();
    world.write("file", "x");
    world.write("bundle.yaml", "name: x\nversion: 1\nfiles: [{path: file, dst: /tmp}]\n");
    let built = world.done(&["build", "--arch", "arm64,amd64,arm64", "-o", "out.tar.gz"]);
    assert!(built.stderr.contains("2 items for amd64 and arm64"), "{}", built.stderr);
    for command in ["inspect", "verify", "check"] {
        let json = world.done(&[command, "out.tar.gz", "--json"]).stdout;
        assert_eq!(json, world.done(&[command, "out.tar.gz", "--format", "json"]).stdout);
        serde_json::from_str::<serde_json::Value>(&json).unwrap();
    }
    assert_eq!(world.run(&["inspect", "out.tar.gz", "--json", "--tree"]).code, 2);
    world.done(&["extract", "out.tar.gz", "-o", "x"]);
    assert_eq!(world.read("x/amd64/file/file"), b"x");
    assert!(!world.done(&["inspect", "--help"]).stdout.contains("--json"));
}

#[test]
fn the_bill_of_materials_has_the_time_that_is_said() {
    let world = World::new();
    world.write("file", "x");
    world.write("bundle.yaml", "name: x\nversion: 1\nfiles: [{path: file, dst: /tmp}]\n");
    let created = |bundle: &str| {
        let document: serde_json::Value =
            serde_json::from_str(&world.done(&["sbom", bundle]).stdout).unwrap();
        document["creationInfo"]["created"].as_str().unwrap().to_string()
    };
    world.done(&["build", "-o", "plain.tar.gz"]);
    assert_eq!(created("plain.tar.gz"), "1970-01-01T00:00:00Z");
    let mut command = world.command(&["build", "-o", "dated.tar.gz"]);
    assert!(command.env("SOURCE_DATE_EPOCH", "1704067200").status().unwrap().success());
    assert_eq!(created("dated.tar.gz"), "2024-01-01T00:00:00Z");
    world.done(&["build", "-o", "said.tar.gz", "--created", "1704067200"]);
    assert!(world.read("dated.tar.gz") == world.read("said.tar.gz"), "the bytes differ");
    assert_eq!(world.run(&["build", "--created", "yesterday"]).code, 2);
}

#[test]
fn an_image_that_cannot_be_had_is_reported_with_who_wants_it() {
    let world = World::new();
    world.write("addon.yaml", "kind: Pod\nspec: {containers: [{image: 'localhost:1/app:1'}]}\n");
    world.write("a.yaml", "name: x\nversion: 1\naddons: [{name: hello, path: addon.yaml}]\n");
    insta::assert_snapshot!(world.transcript(&["lock", "-m", "a.yaml", "--offline"]));
    world.write("i.yaml", "name: x\nversion: 1\nimages: ['localhost:1/app:1']\n");
    let ran = world.run(&["lock", "-m", "i.yaml", "--offline"]);
    assert!(
        ran.stderr.contains("required as image `localhost:1/app:1` by `i.yaml` line 3"),
        "{}",
        ran.stderr
    );
}

#[test]
fn minisign_accepts_our_signatures_and_we_accept_its_keys() {
    if std::process::Command::new("minisign").arg("-v").output().is_err() {
        println!("skipped: minisign is not installed");
        return;
    }
    let world = World::new();
    world.write("file", "x");
    world.write("bundle.yaml", "name: x\nversion: 1\nfiles: [{path: file, dst: /tmp}]\n");
    let minisign = |arguments: &[&str]| {
        let run =
            std::process::Command::new("minisign").args(arguments).current_dir(world.path(".")).output();
        let run = run.unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    };
    minisign(&["-G", "-W", "-s", "theirs", "-p", "theirs.pub"]);
    world.done(&["build", "--key", "theirs", "-o", "out.tar.gz"]);
    world.done(&["verify", "out.tar.gz", "--pubkey", "theirs.pub"]);
    world.done(&["extract", "out.tar.gz", "-C", "x"]);
    minisign(&["-V", "-p", "theirs.pub", "-m", "x/eggo-bundle.json"]);
}
