//! What is packed comes out again, for every reader.

mod made;

use eggo_bundles::progress::Silent;
use made::{Sample, trusted};
use std::io::Read as _;

#[test]
fn packs_verifies_and_reads_each_item() {
    let folder = tempfile::tempdir().unwrap();
    let sample = Sample::small();
    let path = sample.write(folder.path());
    let bundle = eggo_bundles::Bundle::open(&path).unwrap().verify(&trusted()).unwrap();
    bundle.verify_all(&Silent).unwrap();
    for item in &bundle.index().items {
        let mut content = Vec::new();
        bundle.read(item).unwrap().read_to_end(&mut content).unwrap();
        assert!(content == sample.content(&item.path), "{}", item.path);
    }
}
