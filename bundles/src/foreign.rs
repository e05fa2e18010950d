//! The parsers of bytes that somebody else wrote, by name, each as a function that takes anything:
//! for fuzzing. They must end in time, within memory, and without a panic; what they find does not
//! matter here. Each crate lists its own.

use crate::archive::{Format, Limits, inflate, sniff, walk_tar};
use crate::content::{deb, elf, image, rpm};
use crate::reader::Pipe;
use crate::rules;
use std::io::{self, Cursor, Read as _};
use std::path::Path;

/// A name, and what is fed.
pub type Parser = (&'static str, fn(&[u8]));

pub const PARSERS: [Parser; 5] =
    [("bundle", bundle), ("deb", deb), ("index", index), ("rpm", rpm), ("tar", tar)];

/// What content a test may unpack.
const UNPACKED: u64 = 1 << 20;

fn bundle(bytes: &[u8]) {
    let pipe = Pipe::open(Cursor::new(bytes.to_vec()), Path::new("-")).and_then(Pipe::without_trust);
    let _ = pipe.and_then(|pipe| pipe.verify_all(&crate::progress::Silent));
}

fn index(bytes: &[u8]) {
    let _ = rules::parse(bytes);
}

fn deb(bytes: &[u8]) {
    let _ = deb::parse(&String::from_utf8_lossy(bytes));
    let mut reader = bytes;
    let Ok(mut members) = deb::Members::open(&mut reader) else { return };
    let _ = members.control();
    if let Ok((_, mut data)) = members.data() {
        let _ = io::copy(&mut data, &mut io::sink());
    }
    let _ = members.end();
}

fn rpm(bytes: &[u8]) {
    let _ = rpm::read(&mut &bytes[..]).map(|package| package.flaw());
    let _ = elf::parse(bytes);
    let _ = image::read_config(&mut &bytes[..]);
}

/// As it is, and as a plain tar with its checksums put right: no chance finds those.
fn tar(bytes: &[u8]) {
    walk(bytes, sniff(bytes).unwrap_or(Format::Tar));
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(header) = bytes.get_mut(at..at + 512) {
        let mut changed = tar::Header::new_old();
        changed.as_mut_bytes().copy_from_slice(header);
        changed.set_cksum();
        header.copy_from_slice(changed.as_bytes());
        let content = changed.entry_size().ok().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        at = at
            .saturating_add(512)
            .saturating_add(content.checked_next_multiple_of(512).unwrap_or(usize::MAX));
        if at > bytes.len() {
            break;
        }
    }
    walk(&bytes, Format::Tar);
}

fn walk(bytes: &[u8], format: Format) {
    let Ok(reader) = inflate(bytes, format) else { return };
    let limits = Limits { unpacked: UNPACKED, setuid: bytes.len().is_multiple_of(2) };
    let _ = walk_tar(reader, limits, &mut |member, content| {
        assert!(!member.path.starts_with('/') && !member.path.split('/').any(|part| part == ".."));
        io::copy(&mut content.take(UNPACKED), &mut io::sink())?;
        Ok(())
    });
}
