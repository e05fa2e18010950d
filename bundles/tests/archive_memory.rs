//! What a foreign archive claims does not decide how much memory it takes. Alone in its program,
//! because it measures all of it.

use eggo_bundles::archive::{Format, Limits, inflate, walk_tar};
use eggo_bundles::content::deb;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Read as _, Write as _};
use tar::EntryType;

const CLAIM: u64 = 4 << 30;
/// With the archive itself, which is held once as it is and once as a package.
const LIMIT_KIB: u64 = 200 << 10;

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn packed(write: impl FnOnce(&mut GzEncoder<Vec<u8>>)) -> Vec<u8> {
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    write(&mut gz);
    gz.finish().unwrap()
}

/// A header that is followed by gigabytes of zeros, in some megabytes.
fn bomb(kind: EntryType) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(CLAIM);
    header.set_mode(0o644);
    header.set_cksum();
    let zeros = packed(|gz| assert!(io::copy(&mut io::repeat(0).take(16 << 20), gz).is_ok()));
    let count = usize::try_from(CLAIM >> 24).unwrap();
    [packed(|gz| gz.write_all(header.as_bytes()).unwrap()), zeros.repeat(count)].concat()
}

/// Many members with long paths, each below folders of its own.
fn many_names() -> Vec<u8> {
    packed(|gz| {
        let mut builder = tar::Builder::new(gz);
        for number in 0..2000 {
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            header.set_mode(0o644);
            let path = format!("{number}/{}", ["a"; 500].join("/"));
            builder.append_data(&mut header, path, io::empty()).unwrap();
        }
        builder.finish().unwrap();
    })
}

fn deb_of(control: &[u8]) -> Vec<u8> {
    let mut bytes = deb::MAGIC.to_vec();
    for (name, content) in [("debian-binary", &b"2.0\n"[..]), ("control.tar.gz", control)] {
        bytes.extend(format!("{name:<16}{:<32}{:<10}`\n", "", content.len()).bytes());
        bytes.extend(content);
    }
    bytes
}

#[test]
fn bombs_are_refused_within_memory() {
    let kinds =
        [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader, EntryType::XGlobalHeader];
    for archive in kinds.into_iter().map(bomb).chain([many_names()]) {
        let tar = inflate(&archive[..], Format::TarGz).unwrap();
        walk_tar(tar, Limits::of_size(archive.len() as u64), &mut |_, _| Ok(())).unwrap_err();
        let archive = deb_of(&archive[..archive.len().min(30 << 20)]);
        deb::read(&mut &archive[..]).unwrap_err();
    }
    assert!(peak_kib() < LIMIT_KIB, "{} KiB", peak_kib());
}
