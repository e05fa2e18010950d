//! Every ready manifest of Kubernetes leads to a lock for both archs, where its sources are within reach: the lab's.

use eggo_tests::lab::{Kind, Lab};
use eggo_tests::ready;
use eggo_tests::site::{DEBIANS, built, downloads, program, succeed};
use std::process::Command;

#[test]
fn every_ready_manifest_locks() {
    let Some(lab) = Lab::take(&[("a", Kind::DebAmd64)]) else { return };
    if built("coredns", DEBIANS.coredns, &["amd64", "arm64"]).is_none() {
        return;
    }
    let upstream = lab.upstream();
    let names = ready::names();
    assert!(names.len() >= 11, "{names:?}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in names {
        let file = folder.path().join(format!("{name}.yaml"));
        let manifest = ready::manifest(&name, DEBIANS, &upstream);
        std::fs::write(&file, manifest.to_string()).expect("a manifest");
        let mut lock = Command::new(program("eggo-bundle"));
        lock.args(["lock", "--dry-run", "-m"]).arg(&file);
        lock.arg("--cache-dir").arg(downloads()).env("HOME", folder.path());
        let told = succeed(lock);
        println!("{name}: {}", told.lines().next().unwrap_or_default());
    }
}
