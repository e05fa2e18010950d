//! Where results are written to, and what is overwritten.

use crate::build::{BUILD, build_with, local};
use crate::world::{AMD64, Ran, elf, noise};
use std::path::Path;
use std::process::Command;

#[test]
fn places_that_cannot_be_written_are_named() {
    let world = local();
    let ran = world.run(&["build", "-m", "m.yaml", "--key", "key", "-o", "no/such/folder/out.tar.gz"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("hint: make the folder `no/such/folder` first"), "{}", ran.stderr);
    assert!(!ran.stderr.contains(".tmp"), "{}", ran.stderr);
    assert!(!world.path("m.lock").exists(), "nothing is done for a place that takes no file");
    world.write("file", "");
    let ran = world.run(&build_with(&["--cache-dir", "file/cache"]));
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("hint: name a folder you can write to with `--cache-dir`"), "{}", ran.stderr);
    let ran = world.run(&["build", "-m", "m.yaml", "--key", "nokey"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("hint: `eggo-bundle keygen -o nokey` makes one"), "{}", ran.stderr);
    world.done(&BUILD);
    for arguments in [
        &["export", "--eggo", "out.tar.gz", "-o", "file/x"][..],
        &["publish", "out.tar.gz", "file/x", "--pubkey", "key.pub"],
        &["split", "out.tar.gz", "-o", "file/x"],
        &["import", "amd64=out.tar.gz", "--key", "key", "-o", "file/x"],
        &["init", "file/x"],
        &["man", "-o", "file/x"],
    ] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, 1, "{arguments:?}");
        assert!(ran.stderr.contains("file/x") && !ran.stderr.contains(".tmp"), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    }
}

/// A file system of 1 MiB, where this machine lets us have one.
fn mount_small(folder: &Path) -> bool {
    let mut mount = Command::new("mount");
    let mounted = mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(folder).status();
    let is_there = mounted.is_ok_and(|status| status.success());
    if !is_there {
        println!("skipped: cannot mount a small file system");
    }
    is_there
}

#[test]
fn a_full_disk_leaves_no_half_file() {
    let world = local();
    world.write("bin/amd64/tool", elf(AMD64, &"x".repeat(100)));
    world.write("conf/net.conf", noise(3_000_000));
    let small = world.path("small");
    std::fs::create_dir(&small).unwrap();
    if !mount_small(&small) {
        return;
    }
    let ran = world.run(&["build", "-m", "m.yaml", "--key", "key", "-o", "small/out.tar.gz"]);
    let left = world.list("small");
    world.done(&["build", "-m", "m.yaml", "--key", "key", "-o", "out.tar.gz"]);
    world.write("conf/net.conf", noise(3_000_001));
    world.done(&["build", "-m", "m.yaml", "--key", "key", "--base", "out.tar.gz", "-o", "delta.tar.gz"]);
    assert!(std::fs::write(world.path("small/full"), noise(3_000_000)).is_err());
    let others = [
        &["keygen", "--no-password", "-o", "small/key"][..],
        &["init", "small/bundle.yaml"],
        &["split", "out.tar.gz", "-o", "small"],
        &["merge", "out.tar.gz", "delta.tar.gz", "-o", "small/merged.tar.gz", "--pubkey", "key.pub"],
    ]
    .map(|arguments| world.run(arguments));
    let left_of_others = world.list("small");
    let unmounted = Command::new("umount").arg(&small).status().unwrap();
    assert!(unmounted.success());
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("hint: free some space"), "{}", ran.stderr);
    assert!(left.is_empty(), "{left:?}");
    for other in others {
        assert_eq!(other.code, 1);
        assert!(other.stderr.contains("hint: free some space"), "{}", other.stderr);
    }
    assert_eq!(left_of_others, ["full"]);
}

#[test]
fn a_lock_that_cannot_be_written_is_reported_at_once() {
    let world = local();
    let read_only = world.path("read-only");
    std::fs::create_dir(&read_only).unwrap();
    if !mount_small(&read_only) {
        return;
    }
    world.write("read-only/m.yaml", "name: x\nversion: 1\nfiles: [{path: /etc/hostname, dst: /tmp}]\n");
    let remount = |arguments: &[&str]| {
        let ran = Command::new(arguments[0]).args(&arguments[1..]).arg(&read_only).status();
        assert!(ran.unwrap().success());
    };
    remount(&["mount", "-o", "remount,ro"]);
    let told = world.transcript(&["lock", "-m", "read-only/m.yaml"]);
    let dry = world.run(&["lock", "-m", "read-only/m.yaml", "--dry-run"]);
    remount(&["umount"]);
    insta::assert_snapshot!(told);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
}

#[test]
fn what_was_put_together_is_not_replaced_unasked() {
    let world = local();
    world.done(&["build", "-m", "m.yaml", "--key", "key", "-o", "old.tar.gz"]);
    world.write("conf/net.conf", "other");
    world.done(&["build", "-m", "m.yaml", "--key", "key", "--base", "old.tar.gz", "-o", "delta.tar.gz"]);
    // The folder is made.
    world.done(&["split", "old.tar.gz", "--size", "700", "-o", "new/stick"]);
    world.write("there.tar.gz", "precious");
    let join = ["join", "new/stick/old.tar.gz.001", "-o", "there.tar.gz"];
    insta::assert_snapshot!(world.transcript(&join));
    let merge = ["merge", "old.tar.gz", "delta.tar.gz", "--pubkey", "key.pub", "-o", "there.tar.gz"];
    assert_eq!(world.run(&merge).code, 1);
    assert_eq!(world.read("there.tar.gz"), b"precious");
    world.done(&[&join[..], &["--force"]].concat());
    assert!(world.read("there.tar.gz") == world.read("old.tar.gz"));
    world.done(&[&merge[..], &["--force"]].concat());
    world.done(&["verify", "there.tar.gz", "--pubkey", "key.pub"]);
}

#[test]
fn a_cut_or_empty_copy_is_reported_as_such() {
    let world = local();
    world.done(&BUILD);
    world.write("empty.tar.gz", "");
    world.write("start.tar.gz", &world.read("out.tar.gz")[..4]);
    world.write("cut.tar.gz", &world.read("out.tar.gz")[..500]);
    insta::assert_snapshot!(world.transcript(&["verify", "empty.tar.gz", "--pubkey", "key.pub"]));
    insta::assert_snapshot!(world.transcript(&["verify", "start.tar.gz", "--pubkey", "key.pub"]));
    insta::assert_snapshot!(world.transcript(&["verify", "cut.tar.gz", "--pubkey", "key.pub"]));
    let whole = world.read("out.tar.gz");
    for (byte, told) in [(1, "its footer is not sound"), (30, "the table of members is not sound")] {
        let mut bytes = whole.clone();
        let at = bytes.len() - byte;
        bytes[at] ^= 1;
        world.write("flipped.tar.gz", bytes);
        let flipped = world.run(&["verify", "flipped.tar.gz", "--pubkey", "key.pub"]);
        assert!(flipped.code == 3 && flipped.stderr.contains(told), "{byte}: {}", flipped.stderr);
        assert!(flipped.stderr.contains("is damaged at its end"), "{}", flipped.stderr);
    }
    world.write("longer.tar.gz", [&whole[..], b"more"].concat());
    let longer = world.run(&["verify", "longer.tar.gz", "--pubkey", "key.pub"]);
    assert!(longer.code == 3 && longer.stderr.contains("behind the archive's end"), "{}", longer.stderr);
    let piped = world.piped("empty.tar.gz", &["verify", "-", "--pubkey", "key.pub"]);
    assert_eq!(piped.code, 3);
    assert!(piped.stderr.starts_with("error: `-` is empty\n"), "{}", piped.stderr);
    world.write("p.tar.gz.001", "");
    let part = world.run(&["verify", "p.tar.gz.001", "--pubkey", "key.pub"]);
    assert!(part.code == 3 && part.stderr.contains("`p.tar.gz.001` is empty"), "{}", part.stderr);
}

/// A bare machine has no CAs: only what comes by https misses them.
#[test]
fn only_https_needs_cas() {
    let world = local();
    let bare = |arguments: &[&str]| {
        let mut command = world.command(arguments);
        Ran::of(
            command.env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", "/nonexistent").output().unwrap(),
        )
    };
    assert_eq!(bare(&BUILD).code, 0);
    let file = r#"{name: a, url: "https://127.0.0.1:1/a", dst: /etc/kubernetes}"#;
    world.write("s.yaml", format!("name: n\nversion: '1'\nfiles: [{file}]\n"));
    let ran = bare(&["build", "-m", "s.yaml", "--key", "key", "-o", "s.tar.gz"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("`ca-certificates`"), "{}", ran.stderr);
}
