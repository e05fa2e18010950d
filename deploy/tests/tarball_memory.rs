//! A tarball of old eggo is not signed: what it claims does not decide how much memory it takes.
//! Alone in its program, because it measures all of it.

use eggo_bundles::Arch;
use eggo_deploy::content::Tarballs;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use tar::EntryType;

const CLAIM: u64 = 2 << 30;
const LIMIT_KIB: u64 = 100 << 10;

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn header(name: &str, kind: EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_path(name).unwrap();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

/// A header that is followed by gigabytes of zeros.
fn bomb(kind: EntryType) -> Vec<u8> {
    let packed = |write: &dyn Fn(&mut GzEncoder<Vec<u8>>)| {
        let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
        write(&mut gz);
        gz.finish().unwrap()
    };
    let zeros = packed(&|gz| assert!(io::copy(&mut io::repeat(0).take(16 << 20), gz).is_ok()));
    let count = usize::try_from(CLAIM >> 24).unwrap();
    let front = packed(&|gz| gz.write_all(header("bin/x", kind, CLAIM).as_bytes()).unwrap());
    [front, zeros.repeat(count)].concat()
}

#[test]
fn bombs_are_refused_within_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packages.tar.gz");
    let open = || Tarballs::open(&[(Arch::Amd64, path.clone())].into(), folder.path()).map(drop).unwrap_err();
    for kind in [EntryType::GNULongName, EntryType::XHeader, EntryType::XGlobalHeader] {
        std::fs::write(&path, bomb(kind)).unwrap();
        assert!(open().to_string().contains("headers before one member"), "{}", open());
    }
    // Content is bounded, too, and so is what a package in it says of itself.
    let mut gz = GzEncoder::new(File::create(&path).unwrap(), Compression::fast());
    gz.write_all(header("bin/x", EntryType::Regular, 1 << 40).as_bytes()).unwrap();
    gz.finish().unwrap();
    assert!(open().to_string().contains("unpacks to more than"), "{}", open());
    let control = bomb(EntryType::GNULongName);
    let mut deb = b"!<arch>\n".to_vec();
    for (name, content) in [("debian-binary", &b"2.0\n"[..]), ("control.tar.gz", &control)] {
        deb.extend(format!("{name:<16}{:<32}{:<10}`\n", "", content.len()).bytes());
        deb.extend(content);
    }
    let mut gz = GzEncoder::new(File::create(&path).unwrap(), Compression::none());
    gz.write_all(header("pkg/x.deb", EntryType::Regular, deb.len() as u64).as_bytes()).unwrap();
    gz.write_all(&deb).unwrap();
    gz.write_all(&vec![0; 1024 + (512 - deb.len() % 512) % 512]).unwrap();
    gz.finish().unwrap();
    assert!(open().to_string().contains("headers before one member"), "{}", open());
    assert!(peak_kib() < LIMIT_KIB, "{} KiB", peak_kib());
}
