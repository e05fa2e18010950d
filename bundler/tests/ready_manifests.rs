//! The manifests that come with the program can be read by it.

use eggo_bundle::manifest::Manifest;
use std::path::Path;

#[test]
fn every_ready_manifest_is_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut read = 0;
    for file in files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")) {
        let manifest = Manifest::load(Some(&file)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(manifest.archs.len(), 2, "{}: both archs", file.display());
        read += 1;
    }
    assert!(read >= 7, "only {read} manifests found");
}
