//! Metadata and packages must be what was promised.

use crate::repo::{PACKAGES, Repo, STABLE, ask, has, refused};
use eggo_bundle::lock::LockedPackage;
use eggo_bundle::packages::proof;
use eggo_bundles::{Arch, Digest};
use eggo_terminal::Report;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn metadata_that_does_not_fit_is_refused() {
    let unsigned = |repo: &Repo| ask(&[repo.url()], &format!("{STABLE}, allow-unsigned: true"));
    let publish = |text: &str| {
        let repo = Repo::new();
        let release = repo.packages("dists/stable", "", text);
        repo.write("dists/stable/Release", &release);
        (repo, release)
    };

    let (repo, _) = publish(PACKAGES);
    let packages = fs::read_to_string(repo.path("dists/stable/main/binary-amd64/Packages")).unwrap();
    repo.write("dists/stable/main/binary-amd64/Packages", packages.replace("2", "3"));
    refused(&unsigned(&repo), &["main/binary-amd64/Packages", "sha256"]);

    let (repo, release) = publish(PACKAGES);
    repo.write("dists/stable/Release", format!("Valid-Until: Sat, 01 Jan 2022 00:00:00 UTC\n{release}"));
    refused(&unsigned(&repo), &["expired on 2022-01-01", "Release", "set `check-valid-until: false`"]);
    let snapshot = format!("{STABLE}, allow-unsigned: true, check-valid-until: false");
    assert_eq!(ask(&[repo.url()], &snapshot).lock().unwrap().packages.len(), 4);
    repo.write("dists/stable/Release", release.replace("SHA256:", "MD5Sum:"));
    refused(&unsigned(&repo), &["only weak hashes"]);
    repo.write("dists/stable/Release", release.replace("main/binary-amd64", "../../etc"));
    refused(&unsigned(&repo), &["../../etc"]);

    for path in ["../../etc/passwd", "/etc/passwd"] {
        let (repo, _) = publish(&PACKAGES.replace("pool/lib_2_all.deb", path));
        refused(&unsigned(&repo), &["unsafe path", path, "package `lib`", "/Packages`"]);
    }
    let (repo, _) = publish(&PACKAGES.replace("SHA256", "MD5sum"));
    let error = unsigned(&repo).lock().unwrap_err();
    assert!(error.contains("its repo has no SHA256 for it"), "{error}");
}

#[test]
fn a_package_must_be_what_its_metadata_says() {
    if !has("dpkg-deb") {
        return;
    }
    let repo = Repo::new();
    repo.write(
        "tool/DEBIAN/control",
        "Package: tool\nVersion: 1.0-1\nArchitecture: amd64\nMaintainer: m\nDescription: d\n",
    );
    let deb = repo.path("tool_1.0-1_amd64.deb");
    let built =
        Command::new("dpkg-deb").args(["--root-owner-group", "-b"]).arg(repo.path("tool")).arg(&deb).output();
    assert!(built.unwrap().status.success());
    let mut package = LockedPackage {
        name: "tool".into(),
        version: "1.0-1".into(),
        arch: Arch::Amd64,
        architecture: "amd64".into(),
        repo: "local".into(),
        url: "http://x/pool/tool_1.0-1_amd64.deb".into(),
        sha256: Digest::of(b""),
        size: 0,
        mirrors: Vec::new(),
        roles: Vec::new(),
        required_by: Vec::new(),
        key: None,
    };
    proof::agree(&package, &deb).unwrap();
    package.version = "1.0-2".into();
    let error = Report::from(proof::agree(&package, &deb).unwrap_err()).to_string();
    assert!(
        error.contains("says that it is `tool 1.0-1` for amd64, its metadata that it is `tool 1.0-2`"),
        "{error}"
    );
    assert!(
        proof::agree(&package, Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path()).is_err()
    );
}
