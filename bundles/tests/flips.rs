//! One flipped bit anywhere in a bundle is found, from a file and from a pipe.

mod made;

use eggo_bundles::progress::Silent;
use eggo_bundles::reader::Pipe;
use eggo_bundles::{Arch, Bundle};
use made::{Sample, elf, noise, trusted};
use std::path::Path;

/// A bundle so small that hundreds of flips take no time, with every class of member in it:
/// root files, deflated, stored and linked items, an item of two members, a long name.
fn sample() -> Sample {
    let mut sample = Sample::empty();
    sample.add("amd64/bin/tool", &elf(Arch::Amd64, 5000));
    sample.add("amd64/file/stored", &noise(40_000, 1));
    sample.add("amd64/file/two", &[noise(1 << 20, 2), vec![7; 100_000]].concat());
    sample.add("arm64/file/stored", &noise(40_000, 1));
    sample.link("arm64/dir/x/link", "other");
    sample.add(&format!("arm64/file/{}", "long".repeat(30)), b"long");
    sample
}

fn is_found(folder: &Path, bytes: &[u8]) -> (bool, bool) {
    let path = folder.join("flipped.tar.gz");
    std::fs::write(&path, bytes).unwrap();
    let file = Bundle::open(&path).and_then(|bundle| bundle.verify(&trusted())?.verify_all(&Silent));
    let pipe = Pipe::open(std::io::Cursor::new(bytes.to_vec()), Path::new("-"))
        .and_then(|pipe| pipe.verify(&trusted())?.verify_all(&Silent));
    (file.is_err(), pipe.is_err())
}

#[test]
fn in_hundreds_of_random_places() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(sample().write(folder.path())).unwrap();
    assert_eq!(is_found(folder.path(), &bytes), (false, false));
    let mut state = 42_u64;
    for _ in 0..200 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        flip_and_find(folder.path(), &bytes, (state >> 16) as usize % (bytes.len() * 8));
    }
}

/// The first and last bytes of every member: gzip headers, block headers and their unused bits,
/// checksums, lengths.
#[test]
fn in_every_class_of_member() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(sample().write(folder.path())).unwrap();
    let starts: Vec<usize> = (0..bytes.len() - 4)
        .filter(|&at| bytes[at..at + 3] == [0x1f, 0x8b, 8] && bytes[at + 4..at + 8] == [0; 4])
        .collect();
    assert!(starts.len() > 10);
    for (number, start) in starts.into_iter().enumerate() {
        // Not every bit of every member: a few of each, all together covering all positions.
        for bit in (0..20 * 8).skip(number % 5).step_by(5) {
            flip_and_find(folder.path(), &bytes, start * 8 + bit);
        }
        if let Some(end) = start.checked_sub(12) {
            for bit in (0..12 * 8).skip(number % 7).step_by(7) {
                flip_and_find(folder.path(), &bytes, end * 8 + bit);
            }
        }
    }
}

#[test]
fn in_every_bit_of_the_footer() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(sample().write(folder.path())).unwrap();
    for bit in (bytes.len() - 82) * 8..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let path = folder.path().join("flipped.tar.gz");
        std::fs::write(&path, &changed).unwrap();
        assert!(Bundle::open(&path).is_err(), "bit {bit}");
    }
}

fn flip_and_find(folder: &Path, bytes: &[u8], bit: usize) {
    if bit / 8 >= bytes.len() {
        return;
    }
    let mut changed = bytes.to_vec();
    changed[bit / 8] ^= 1 << (bit % 8);
    assert_eq!(
        is_found(folder, &changed),
        (true, true),
        "byte {} of {}, bit {}",
        bit / 8,
        bytes.len(),
        bit % 8
    );
}
