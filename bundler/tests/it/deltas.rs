//! What people see of a delta: what it carries, and what it wants its parent for.

use crate::build::local;
use crate::world::{AMD64, World, elf, noise};

const DELTA: [&str; 9] =
    ["build", "-m", "m.yaml", "--key", "key", "-o", "delta.tar.gz", "--base", "old.tar.gz"];

/// `old.tar.gz`, and a manifest that has changed since.
fn changed() -> World {
    let world = local();
    world.write("addon.yaml", "kind: ConfigMap\ndata: {}\n");
    let manifest = String::from_utf8(world.read("m.yaml")).unwrap();
    world.write("m.yaml", manifest + "addons:\n- {name: settings, path: addon.yaml}\n");
    world.done(&["build", "-m", "m.yaml", "--key", "key", "-o", "old.tar.gz"]);
    world.write("bin/amd64/tool", elf(AMD64, "newer"));
    world
}

#[test]
fn a_delta_says_what_it_carries() {
    let world = changed();
    world.done(&["lock", "-m", "m.yaml"]);
    insta::assert_snapshot!(world.transcript(&DELTA));
    insta::assert_snapshot!(world.transcript(&["inspect", "delta.tar.gz", "--pubkey", "key.pub"]));
    insta::assert_snapshot!(world.transcript(&["inspect", "delta.tar.gz", "--tree", "--pubkey", "key.pub"]));
    let listed = world.done(&["inspect", "delta.tar.gz", "--json", "--pubkey", "key.pub"]).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["verified"], true);
    assert_eq!(listed["key"].as_str().unwrap().len(), 16);
    let carried = listed["items"].as_array().unwrap().iter().filter(|item| item["carried"] == true);
    let carried: Vec<&str> = carried.map(|item| item["path"].as_str().unwrap()).collect();
    assert_eq!(carried, ["amd64/bin/tool", "amd64/dir/tree/link", "arm64/dir/tree/link"]);
    let unverified = world.done(&["inspect", "delta.tar.gz", "--format", "json"]).stdout;
    let unverified: serde_json::Value = serde_json::from_str(&unverified).unwrap();
    assert!(unverified["verified"] == false && unverified["key"].is_null());
}

#[test]
fn a_delta_that_carries_nothing_is_warned_about() {
    let world = local();
    world.done(&["build", "-m", "m.yaml", "--key", "key", "-o", "old.tar.gz"]);
    let built = world.done(&DELTA);
    assert!(built.stderr.contains("warning: the delta carries nothing"), "{}", built.stderr);
    let diffed = ["diff", "old.tar.gz", "old.tar.gz", "-o", "delta.tar.gz", "--key", "key"];
    let diffed = world.done(&diffed);
    assert!(diffed.stderr.contains("warning: the delta carries nothing"), "{}", diffed.stderr);
    let shown = world.done(&["inspect", "delta.tar.gz"]).stdout;
    assert!(shown.contains("this is a delta: it carries nothing"), "{shown}");
    assert!(shown.contains("not verified: no trusted key signed it"), "{shown}");
}

#[test]
fn what_a_delta_lacks_is_in_its_parent() {
    let world = changed();
    world.done(&DELTA);
    let on_parent = ["--base", "old.tar.gz", "--pubkey", "key.pub"];
    insta::assert_snapshot!(world.transcript(&["check", "delta.tar.gz", "--pubkey", "key.pub"]));
    insta::assert_snapshot!(world.transcript(&[&["check", "delta.tar.gz"], &on_parent[..]].concat()));
    // One of them is not verified: neither is what they make up.
    let unverified = world.done(&["check", "delta.tar.gz", "--base", "old.tar.gz"]);
    assert!(unverified.stderr.contains("`old.tar.gz` is not verified"), "{}", unverified.stderr);
    let not_one = world.run(&[&["check", "old.tar.gz"], &on_parent[..]].concat());
    assert!(not_one.code == 1 && not_one.stderr.contains("is not a delta"), "{}", not_one.stderr);

    let export = ["export", "--eggo", "delta.tar.gz", "-o", "packages"];
    let alone = world.run(&export);
    assert_eq!(alone.code, 1);
    assert!(alone.stderr.contains("hint: give the parent with `--base`"), "{}", alone.stderr);
    world.done(&[&export[..], &on_parent[..]].concat());
    assert_eq!(world.list("packages"), ["packages-arm.tar.gz", "packages-x86.tar.gz"]);

    insta::assert_snapshot!(world.transcript(&["verify", "delta.tar.gz", "--pubkey", "key.pub"]));
    insta::assert_snapshot!(world.transcript(&[&["verify", "delta.tar.gz"], &on_parent[..]].concat()));
    insta::assert_snapshot!(world.transcript(&["extract", "delta.tar.gz", "-C", "x", "--pubkey", "key.pub"]));
    let both = world.done(&[&["extract", "delta.tar.gz", "-o", "y"], &on_parent[..]].concat());
    assert!(!both.stderr.contains("parent"), "{}", both.stderr);
    assert_eq!(world.read("y/arm64/file/net.conf"), b"shared by both");
}

/// A file that was damaged on its way is not to be trusted, whatever is done with it.
#[test]
fn damaged_content_is_exit_3() {
    let world = changed();
    let noise: String = noise(30_000).iter().map(|byte| format!("{byte:02x}")).collect();
    world.write("addon.yaml", format!("kind: ConfigMap\ndata: {{}}\n# {noise}\n"));
    world.done(&["build", "-m", "m.yaml", "--key", "key", "-o", "new.tar.gz"]);
    world.done(&DELTA);
    // Most of both is the addon.
    for name in ["new.tar.gz", "delta.tar.gz"] {
        let mut bytes = world.read(name);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        world.write(&format!("bad-{name}"), bytes);
    }
    for arguments in [
        &["check", "bad-new.tar.gz", "--pubkey", "key.pub"][..],
        &["merge", "old.tar.gz", "bad-delta.tar.gz", "-o", "merged.tar.gz", "--pubkey", "key.pub"],
        &["diff", "old.tar.gz", "bad-new.tar.gz", "-o", "d.tar.gz", "--key", "key"],
    ] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, 3, "{arguments:?}\n{}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("is damaged"), "{}", ran.stderr);
    }
    assert!(!world.path("merged.tar.gz").exists() && !world.path("d.tar.gz").exists());
}
