//! What people see: help, usage, first steps.

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
