//! Whom a bundle is trusted by: keys, changed bytes, and bundles that come through a pipe.

use crate::build::{BUILD, local};

#[test]
fn a_pipe_is_as_good_as_the_file() {
    let world = local();
    world.done(&BUILD);
    let verified = world.piped("out.tar.gz", &["verify", "-", "--pubkey", "key.pub"]);
    insta::assert_snapshot!(world.stable(&verified.stdout));
    for arguments in [
        &["verify", "out.tar.gz", "--pubkey", "key.pub", "--format", "json"][..],
        &["inspect", "out.tar.gz", "--format", "json"],
        &["inspect", "out.tar.gz", "--tree", "--pubkey", "key.pub"],
    ] {
        let from_file = world.done(arguments);
        let of_pipe: Vec<&str> =
            arguments.iter().map(|word| if *word == "out.tar.gz" { "-" } else { *word }).collect();
        let from_pipe = world.piped("out.tar.gz", &of_pipe);
        assert_eq!((from_pipe.code, from_pipe.stdout), (0, from_file.stdout), "{}", from_pipe.stderr);
    }
    let inspected = world.piped("out.tar.gz", &["inspect", "-", "--pubkey", "key.pub"]);
    insta::assert_snapshot!(world.stable(&inspected.stdout));
    world.done(&["extract", "out.tar.gz", "-C", "from-file"]);
    let extracted = world.piped("out.tar.gz", &["extract", "-", "-C", "from-pipe"]);
    assert_eq!(extracted.code, 0, "{}", extracted.stderr);
    let mut diff = std::process::Command::new("diff");
    let same = diff.args(["-r", "from-file", "from-pipe"]).current_dir(world.path(".")).status().unwrap();
    assert!(same.success());
    assert_eq!(world.piped("out.tar.gz", &["extract", "-", "-C", "one", "arm64/bin"]).code, 0);
    assert_eq!(world.list("one/arm64"), ["bin"]);
}

#[test]
fn what_a_pipe_brings_is_trusted_no_more_than_a_file() {
    let world = local();
    world.done(&BUILD);
    world.done(&["keygen", "--no-password", "-o", "other"]);
    let verify = ["verify", "-", "--pubkey", "key.pub"];
    assert_eq!(world.piped("out.tar.gz", &["verify", "-", "--pubkey", "other.pub"]).code, 3);
    assert_eq!(world.piped("out.tar.gz", &["inspect", "-", "--pubkey", "other.pub"]).code, 3);
    let bytes = world.read("out.tar.gz");
    world.write("short.tar.gz", &bytes[..bytes.len() / 2]);
    assert_eq!(world.piped("short.tar.gz", &verify).code, 3);
    world.write("long.tar.gz", [&bytes[..], b"more"].concat());
    assert_eq!(world.piped("long.tar.gz", &verify).code, 3);
    assert_eq!(world.piped("m.yaml", &verify).code, 3);
    world.write("nothing", "");
    assert_eq!(world.piped("nothing", &verify).code, 3);
    let base = world.piped("out.tar.gz", &["verify", "-", "--base", "out.tar.gz", "--pubkey", "key.pub"]);
    assert_eq!(base.code, 2);
    assert!(base.stderr.contains("hint: save the delta to a file"), "{}", base.stderr);
}

#[test]
fn the_wrong_key_and_a_changed_byte_are_exit_3() {
    let world = local();
    world.done(&BUILD);
    world.done(&["keygen", "--no-password", "-o", "other"]);
    insta::assert_snapshot!(world.transcript(&["verify", "out.tar.gz", "--pubkey", "other.pub"]));
    insta::assert_snapshot!(world.transcript(&["verify", "out.tar.gz"]));
    let mut bytes = world.read("out.tar.gz");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    world.write("bad.tar.gz", bytes);
    assert_eq!(world.run(&["verify", "bad.tar.gz", "--pubkey", "key.pub"]).code, 3);
    world.write("short.tar.gz", &world.read("out.tar.gz")[..middle]);
    assert_eq!(world.run(&["verify", "short.tar.gz", "--pubkey", "key.pub"]).code, 3);
    assert_eq!(world.run(&["verify", "nothing.tar.gz", "--pubkey", "key.pub"]).code, 1);
}

/// A key with the number of `real` that is not it: what it says of `real`'s signatures is that they are forged.
fn namesake(real: &str, other: &str) -> String {
    use base64::Engine as _;
    let base64 = base64::engine::general_purpose::STANDARD;
    let raw = |text: &str| base64.decode(text.lines().nth(1).unwrap()).unwrap();
    let (real, other) = (raw(real), raw(other));
    format!("untrusted comment: x\n{}\n", base64.encode([&real[..10], &other[10..]].concat()))
}

#[test]
fn a_forged_signature_is_refused_also_where_an_unknown_key_is_not() {
    let world = local();
    world.done(&BUILD);
    world.done(&["keygen", "--no-password", "-o", "other"]);
    let text = |name: &str| String::from_utf8(world.read(name)).unwrap();
    let extract = ["extract", "out.tar.gz", "-C", "x", "-q"];
    let export = ["export", "--eggo", "out.tar.gz", "-o", "x", "-q"];
    // Unknown: a warning that `-q` does not hide.
    world.write("home/.config/eggo/trusted-keys/k.pub", text("other.pub"));
    for arguments in [&extract[..], &export] {
        let ran = world.done(arguments);
        assert!(ran.stderr.starts_with("warning: `out.tar.gz` is not verified: "), "{}", ran.stderr);
        assert_eq!(world.run(&[arguments, &["--pubkey", "other.pub"]].concat()).code, 3);
    }
    // Forged.
    world.write("home/.config/eggo/trusted-keys/k.pub", namesake(&text("key.pub"), &text("other.pub")));
    std::fs::remove_dir_all(world.path("x")).unwrap();
    for arguments in [&extract[..], &export, &["inspect", "out.tar.gz"], &["check", "out.tar.gz"]] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, 3, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("does not hold"), "{}", ran.stderr);
    }
    assert_eq!(world.piped("out.tar.gz", &["extract", "-", "-C", "x"]).code, 3);
    assert!(!world.path("x").exists());
}
