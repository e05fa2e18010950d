//! The manifests that come with the program: all can be read, those of Debian lock here, and
//! each names the source that cannot be reached.

use eggo_bundle::Tools;
use eggo_bundle::cache::Cache;
use eggo_bundle::http::{Http, Options};
use eggo_bundle::manifest::{Manifest, RepoSource};
use eggo_bundle::packages::{self, history::History};
use eggo_bundles::Arch;
use eggo_bundles::progress::Silent;
use std::path::{Path, PathBuf};
use std::process::Command;

fn ready_manifests() -> Vec<Manifest> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    files.iter().map(|file| Manifest::load(Some(file)).unwrap_or_else(|error| panic!("{error}"))).collect()
}

#[test]
fn every_ready_manifest_is_sound() {
    let manifests = ready_manifests();
    assert!(manifests.len() >= 12, "only {} manifests found", manifests.len());
    for manifest in manifests {
        assert_eq!(manifest.archs, Arch::ALL, "{}: both archs", manifest.file.display());
    }
}

/// Debian's own sources are within reach of every machine that runs these tests with a network.
#[test]
fn packages_of_the_debian_manifests_lock_for_both_archs() {
    let debian: Vec<Manifest> = ready_manifests().into_iter().filter(of_debian).collect();
    assert!(debian.len() >= 4, "only {} manifests of Debian", debian.len());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ready-manifests");
    let cache = Cache::open(folder).unwrap();
    let http = Http::new(Options::default()).unwrap();
    let tools = Tools { http: &http, cache: &cache, progress: &Silent };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for manifest in debian {
        let file = manifest.file.display();
        let locked = match runtime.block_on(packages::lock(&manifest, &Arch::ALL, &History::default(), tools))
        {
            Ok(locked) => locked.packages,
            Err(error) => {
                let told = eggo_terminal::Report::from(error).to_string();
                assert!(told.contains("cannot fetch"), "{file}: {told}");
                println!("skipped: locking {file}: {}", told.lines().next().unwrap_or_default());
                continue;
            }
        };
        for request in &manifest.packages {
            for arch in Arch::ALL {
                let found = locked.iter().any(|package| package.name == request.name && package.arch == arch);
                assert!(found, "{file}: `{}` for {arch} is not in the lock", request.name);
            }
        }
    }
}

fn of_debian(manifest: &Manifest) -> bool {
    let debians = |source: &RepoSource| match source {
        RepoSource::DebSystem => true,
        RepoSource::Deb { urls, .. } => urls.iter().all(|url| url.contains("//deb.debian.org/")),
        _ => false,
    };
    !manifest.repos.is_empty() && manifest.repos.iter().all(|repo| debians(&repo.source))
}

#[test]
fn what_cannot_be_reached_is_named() {
    let home = tempfile::tempdir().unwrap();
    for manifest in ready_manifests() {
        let run = Command::new(env!("CARGO_BIN_EXE_eggo-bundle"))
            .args(["lock", "--dry-run", "--offline", "-m"])
            .arg(&manifest.file)
            .env_clear()
            .env("HOME", home.path())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{told}");
        let mut quoted = told.split('`').skip(1).step_by(2);
        let named = quoted.any(|text| text.contains("://") || text.contains("/keyrings/"));
        assert!(named, "{}: {told}", manifest.file.display());
    }
}
