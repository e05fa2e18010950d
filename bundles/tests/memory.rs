//! Memory does not grow with the bundle. Alone in its program, because it measures all of it.

mod made;

use eggo_bundles::progress::Silent;
use eggo_bundles::reader::{Pipe, Selection};
use eggo_bundles::{Bundle, Content, Digest, Item, Store, seal, write};
use made::{Sample, item, key, trusted};
use std::io::{self, Read as _};

const SIZE: u64 = 400 << 20;
const LIMIT_KIB: u64 = 150 << 10;

/// Content that is longer than memory may be.
struct Zeros;

impl Store for Zeros {
    fn content(&self, item: &Item) -> io::Result<Content> {
        Ok(Content::Reader(Box::new(io::repeat(0).take(item.size))))
    }
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_large_item_is_never_held() {
    let folder = tempfile::tempdir().unwrap();
    let (sha256, size) = Digest::of_reader(&mut io::repeat(0).take(SIZE)).unwrap();
    let mut sample = Sample::empty();
    sample.index.items.push(Item { size, sha256, ..item("amd64/file/large", b"") });
    let path = folder.path().join("large.tar.gz");
    write(&path, &seal(sample.index, key()).unwrap(), &Zeros, &Silent).unwrap();
    let bundle = Bundle::open(&path).unwrap().verify(&trusted()).unwrap();
    bundle.verify_all(&Silent).unwrap();
    io::copy(&mut bundle.read(&bundle.index().items[0]).unwrap(), &mut io::sink()).unwrap();
    let pipe = Pipe::open(std::fs::File::open(&path).unwrap(), &path).unwrap();
    pipe.verify(&trusted()).unwrap().verify_all(&Silent).unwrap();
    bundle.extract(&folder.path().join("out"), &Selection::All, &Silent).unwrap();
    assert!(peak_kib() < LIMIT_KIB, "{} KiB", peak_kib());
}
