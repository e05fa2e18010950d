//! What is packed comes out again, for every reader.

mod made;

use eggo_bundles::progress::Silent;
use eggo_bundles::reader::Selection;
use eggo_bundles::{Bundle, TrustedKeys, parts};
use made::{Sample, trusted};
use std::io::Read as _;
use std::path::Path;

#[test]
fn packs_verifies_and_reads_each_item() {
    let folder = tempfile::tempdir().unwrap();
    let sample = Sample::small();
    let path = sample.write(folder.path());
    let bundle = Bundle::open(&path).unwrap().verify(&trusted()).unwrap();
    bundle.verify_all(&Silent).unwrap();
    for item in &bundle.index().items {
        let mut content = Vec::new();
        bundle.read(item).unwrap().read_to_end(&mut content).unwrap();
        assert!(content == sample.content(&item.path), "{}", item.path);
    }
}

#[test]
fn parts_are_read_like_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let sample = Sample::small();
    let path = sample.write(folder.path());
    let whole = std::fs::read(&path).unwrap();
    let parts = parts::split(&path, 500_000, folder.path(), &Silent).unwrap();
    assert!(parts.len() > 3);
    std::fs::remove_file(&path).unwrap();
    for name in [&parts[0], &path] {
        let bundle = Bundle::open(name).unwrap().verify(&trusted()).unwrap();
        bundle.verify_all(&Silent).unwrap();
        let out = folder.path().join("out");
        bundle.extract(&out, &Selection::All, &Silent).unwrap();
        for item in bundle.index().items.iter().filter(|item| item.link.is_none()) {
            assert!(
                std::fs::read(out.join(&item.path)).unwrap() == sample.content(&item.path),
                "{}",
                item.path
            );
        }
    }
    let joined = folder.path().join("joined.tar.gz");
    parts::join(&parts[0], &joined, &Silent).unwrap();
    assert!(std::fs::read(&joined).unwrap() == whole);

    let last = parts.last().unwrap();
    std::fs::remove_file(last).unwrap();
    let error = Bundle::open(&parts[0]).err().unwrap().to_string();
    assert!(error.contains(&*last.to_string_lossy()) && error.ends_with("is missing"), "{error}");
    // Only its checksum told of it.
    std::fs::remove_file(format!("{}.sha256", last.display())).unwrap();
    let error = Bundle::open(&parts[0]).err().unwrap();
    assert!(error.is_untrusted() && error.to_string().contains("truncated"), "{error}");
    assert!(error.hint().unwrap().contains("the last parts are missing"), "{:?}", error.hint());
}

/// A bundle of every released format is kept; none may ever become unreadable.
#[test]
fn bundles_of_every_format_stay_readable() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let trusted = TrustedKeys::from_files(&[golden.join("format-1.pub")]).unwrap();
    let bundle = Bundle::open(&golden.join("format-1.tar.gz")).unwrap().verify(&trusted).unwrap();
    bundle.verify_all(&Silent).unwrap();
    let base = Bundle::open(&golden.join("format-1-base.tar.gz")).unwrap().verify(&trusted).unwrap();
    let delta = Bundle::open(&golden.join("format-1-delta.tar.gz")).unwrap().verify(&trusted).unwrap();
    let both = delta.with_base(&base).unwrap();
    both.verify_all(&Silent).unwrap();
    assert_eq!(both.identity(), bundle.identity());
    assert_eq!(bundle.index().items.len(), 13);
}
