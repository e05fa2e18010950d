//! What the writer does with content and disks that are not as they should be, and that
//! any index round-trips.

mod made;

use eggo_bundles::progress::Silent;
use eggo_bundles::rules::BadIndex;
use eggo_bundles::{Bundle, Content, Item, Store, WriteError, seal, write, writer};
use made::{Sample, key, noise, trusted};
use proptest::prelude::*;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

/// Content of one item from a file on disk, of the others from the sample.
struct OnDisk(Sample, &'static str, PathBuf);

impl Store for OnDisk {
    fn content(&self, item: &Item) -> io::Result<Content> {
        if item.path == self.1 { Ok(Content::File(self.2.clone())) } else { Store::content(&self.0, item) }
    }
}

#[test]
fn a_file_that_changed_on_disk_is_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let sample = Sample::small();
    let original = sample.content("amd64/file/large").to_vec();
    let mut changed = original.clone();
    changed[1_234_567] ^= 1;
    let cases = [
        (Some(changed), "has sha256"),
        (Some(original[..1_000_000].to_vec()), "is 1000000 bytes long"),
        (Some([&original[..], b"more"].concat()), "bytes long"),
        (None, "cannot read"),
    ];
    for (content, expected) in cases {
        let file = folder.path().join("cached");
        let _ = std::fs::remove_file(&file);
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let out = folder.path().join("out.tar.gz");
        let store = OnDisk(sample.clone(), "amd64/file/large", file.clone());
        let sealed = seal(sample.index.clone(), key()).unwrap();
        let error = write(&out, &sealed, &store, &Silent).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(expected) && message.contains("`amd64/file/large`"), "{message}");
        assert!(message.contains(&*file.to_string_lossy()), "{message}");
        let left =
            std::fs::read_dir(folder.path()).unwrap().filter(|entry| entry.as_ref().unwrap().path() != file);
        assert_eq!(left.count(), 0);
    }
}

#[test]
fn an_index_that_no_reader_takes_is_not_sealed() {
    let mut sample = Sample::small();
    sample.index.items[0].version = "1".repeat(64 << 20);
    let error = seal(sample.index, key()).unwrap_err();
    assert!(matches!(error, BadIndex::TooLong { .. }), "{error}");
    assert!(error.hint().is_some());
}

/// Takes so many bytes, then no more.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_said_wherever_it_happens() {
    let sample = Sample::small();
    let sealed = seal(sample.index.clone(), key()).unwrap();
    let size = writer::write_to(&mut io::sink(), &sealed, &sample, &Silent).unwrap().size as usize;
    for room in [0, 1000, size / 2, size - 1] {
        let error = writer::write_to(&mut Full(room), &sealed, &sample, &Silent).unwrap_err();
        assert!(
            matches!(&error, WriteError::Output { source, .. } if source.kind() == io::ErrorKind::StorageFull)
        );
        assert!(error.hint().unwrap().contains("space"));
    }
    assert_eq!(writer::write_to(&mut Full(size), &sealed, &sample, &Silent).unwrap().size as usize, size);
}

#[test]
fn a_folder_that_is_not_there_is_said() {
    let sample = Sample::small();
    let sealed = seal(sample.index.clone(), key()).unwrap();
    let error = write(Path::new("/nonexistent/folder/out.tar.gz"), &sealed, &sample, &Silent).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/folder/out.tar.gz"), "{error}");
}

#[test]
fn an_index_that_breaks_a_rule_is_not_sealed() {
    let mut sample = Sample::small();
    sample.add("amd64/bin/../x", b"x");
    assert!(seal(sample.index, key()).unwrap_err().to_string().contains("`..`"));
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    // Around the borders of blocks and members, compressible or not.
    let length = prop_oneof![
        0_usize..2000,
        (1_usize << 20) - 1100..(1 << 20) + 100,
        Just((1 << 20) - 512),
        Just((2 << 20) - 512),
    ];
    (length, 0_u64..3)
        .prop_map(|(length, seed)| if seed == 0 { vec![b'a'; length] } else { noise(length, seed) })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_packed_comes_out(files in proptest::collection::btree_map("[a-zé ]{1,120}", content(), 0..6)) {
        let folder = tempfile::tempdir().unwrap();
        let mut sample = Sample::empty();
        for (name, content) in &files {
            sample.add(&format!("amd64/file/{name}"), content);
        }
        let path = sample.write(folder.path());
        let bundle = Bundle::open(&path).unwrap().verify(&trusted()).unwrap();
        bundle.verify_all(&Silent).unwrap();
        prop_assert_eq!(bundle.index().items.len(), files.len());
        for item in &bundle.index().items {
            let mut content = Vec::new();
            bundle.read(item).unwrap().read_to_end(&mut content).unwrap();
            prop_assert!(content == sample.content(&item.path));
        }
    }
}
