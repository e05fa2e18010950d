//! The sample deploy.yaml files that come with the program are valid.

use eggo_deploy::config;
use std::path::Path;

#[test]
fn every_sample_is_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/deploy");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let loaded = config::load(&file).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(loaded.warnings.list.is_empty(), "{}", loaded.warnings);
        read += 1;
    }
    assert!(read >= 3, "only {read} samples found");
}
