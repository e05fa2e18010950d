//! What is made of finished bundles: deltas, parts, release sets, tarballs for old eggo.

use crate::build::{BUILD, build_with, local};
use crate::world::{AMD64, elf};

#[test]
fn deltas_merge_back_to_the_same_bytes() {
    let world = local();
    world.done(&["build", "-m", "m.yaml", "--key", "key", "-o", "old.tar.gz"]);
    world.write("bin/amd64/tool", elf(AMD64, &"newer ".repeat(1000)));
    let manifest = String::from_utf8(world.read("m.yaml")).unwrap();
    world.write("m.yaml", manifest.replace("version: 1.0", "version: 1.1"));
    world.done(&["build", "-m", "m.yaml", "--key", "key", "-o", "new.tar.gz"]);
    insta::assert_snapshot!(world.transcript(&["diff", "old.tar.gz", "new.tar.gz"]));
    world.done(&["diff", "old.tar.gz", "new.tar.gz", "-o", "delta.tar.gz", "--key", "key"]);
    world.done(&build_with(&["--base", "old.tar.gz"]));
    assert!(world.read("out.tar.gz") == world.read("delta.tar.gz"), "both ways give one delta");
    world.done(&["merge", "old.tar.gz", "delta.tar.gz", "-o", "merged.tar.gz", "--pubkey", "key.pub"]);
    assert!(world.read("merged.tar.gz") == world.read("new.tar.gz"), "the bytes differ");
    let refused = world.run(&["merge", "new.tar.gz", "delta.tar.gz", "-o", "x", "--pubkey", "key.pub"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("is a delta for"), "{}", refused.stderr);
    world.done(&["verify", "delta.tar.gz", "--base", "old.tar.gz", "--pubkey", "key.pub"]);
}

#[test]
fn parts_are_as_good_as_the_whole() {
    let world = local();
    world.done(&BUILD);
    let size = format!("{}", world.read("out.tar.gz").len() / 3 + 1);
    world.done(&["split", "out.tar.gz", "--size", &size, "-o", "."]);
    std::fs::rename(world.path("out.tar.gz"), world.path("whole.tar.gz")).unwrap();
    world.done(&["verify", "out.tar.gz.001", "--pubkey", "key.pub"]);
    world.done(&["join", "out.tar.gz.001", "-o", "joined.tar.gz"]);
    assert!(world.read("joined.tar.gz") == world.read("whole.tar.gz"));
    // By the whole's name, which is not there, and to its name.
    for name in ["out.tar.gz", "out.tar.gz.001"] {
        world.done(&["join", name]);
        assert!(world.read("out.tar.gz") == world.read("whole.tar.gz"));
        std::fs::remove_file(world.path("out.tar.gz")).unwrap();
    }
    assert!(!world.path("out.tar").exists());
    for lost in ["out.tar.gz.003", "out.tar.gz.003.sha256"] {
        std::fs::remove_file(world.path(lost)).unwrap();
    }
    let cut = world.run(&["join", "out.tar.gz.001", "-o", "cut.tar.gz"]);
    assert!(cut.code == 3 && cut.stderr.contains("last parts are missing"), "{}", cut.stderr);
    assert!(!world.path("cut.tar.gz").exists());
    std::fs::remove_file(world.path("out.tar.gz.002")).unwrap();
    let missing = world.run(&["verify", "out.tar.gz.001", "--pubkey", "key.pub"]);
    assert!(missing.code != 0 && missing.stderr.contains("out.tar.gz.002"), "{}", missing.stderr);
}

#[test]
fn a_release_set_checks_out() {
    let world = local();
    world.done(&BUILD);
    world.done(&["publish", "out.tar.gz", "release", "--pubkey", "key.pub"]);
    assert_eq!(
        world.list("release"),
        [
            "SHA256SUMS",
            "demo-1.0.json",
            "demo-1.0.json.minisig",
            "demo-1.0.notes.md",
            "demo-1.0.spdx.json",
            "demo-1.0.tar.gz"
        ]
    );
    let checked = std::process::Command::new("sha256sum")
        .args(["-c", "--quiet", "SHA256SUMS"])
        .current_dir(world.path("release"))
        .status()
        .unwrap();
    assert!(checked.success());
    let notes = String::from_utf8(world.read("release/demo-1.0.notes.md")).unwrap();
    assert!(notes.contains("| tool | 1.0 | amd64, arm64 | the builder's machine |"), "{notes}");
    let sbom = world.done(&["sbom", "out.tar.gz"]).stdout;
    assert_eq!(sbom.as_bytes(), world.read("release/demo-1.0.spdx.json"));
    let cyclonedx = world.done(&["sbom", "out.tar.gz", "--format", "cyclonedx"]).stdout;
    assert!(cyclonedx.contains("\"bomFormat\""));
}

#[test]
fn eggo_tarballs_go_out() {
    let world = local();
    world.done(&BUILD);
    world.done(&["export", "--eggo", "out.tar.gz", "-o", "packages"]);
    assert_eq!(world.list("packages"), ["packages-arm.tar.gz", "packages-x86.tar.gz"]);
    let listed = std::process::Command::new("tar")
        .args(["tzf", "packages/packages-arm.tar.gz"])
        .current_dir(world.path("."))
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for path in ["bin/tool", "file/net.conf", "dir/tree/data", "pkg/"] {
        assert!(listed.lines().any(|line| line == path), "{path} is not in\n{listed}");
    }
}
