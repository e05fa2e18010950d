//! Tar headers, byte by byte: GNU's format without times and owners.
//!
//! Written here rather than by a crate because a reader compares the bytes it finds with
//! the ones it expects: no field may be left to a library's taste. Long names use GNU's
//! `L` and `K` entries, since busybox skips pax headers.

use crate::entries::{BLOCK, Body, Entry, MEMBER};

pub(crate) const FILE: u8 = b'0';
pub(crate) const HARD_LINK: u8 = b'1';
pub(crate) const SYM_LINK: u8 = b'2';
const LONG_LINK: u8 = b'K';
const LONG_NAME: u8 = b'L';
const GNU_MAGIC: &[u8; 8] = b"ustar  \0";
const NAME_FIELD: usize = 100;
/// The largest size that eleven octal digits hold.
const LARGEST_OCTAL: u64 = 0o77_777_777_777;

/// The two zero blocks at the end of an archive.
pub(crate) const END: [u8; 2 * BLOCK as usize] = [0; 2 * BLOCK as usize];

/// All header blocks of `entry`: up to the first byte of its content.
pub(crate) fn header(entry: &Entry) -> Vec<u8> {
    let (kind, link) = match &entry.body {
        Body::Content { .. } => (FILE, ""),
        Body::HardLink { target } => (HARD_LINK, target.as_str()),
        Body::SymLink { target } => (SYM_LINK, target.as_str()),
    };
    let mut bytes = Vec::new();
    if link.len() > NAME_FIELD {
        long(&mut bytes, LONG_LINK, link);
    }
    if entry.path.len() > NAME_FIELD {
        long(&mut bytes, LONG_NAME, &entry.path);
    }
    bytes.extend(block(&entry.path, entry.mode, entry.size(), kind, link));
    bytes
}

/// The length of [`header`].
pub(crate) fn header_length(entry: &Entry) -> u64 {
    let long = |text: &str| match text.len() as u64 {
        length if length > NAME_FIELD as u64 => BLOCK + (length + 1).next_multiple_of(BLOCK),
        _ => 0,
    };
    let link = match &entry.body {
        Body::Content { .. } => 0,
        Body::HardLink { target } | Body::SymLink { target } => long(target),
    };
    BLOCK + long(&entry.path) + link
}

/// The zeros between the end of content and the next block.
pub(crate) fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK) - size
}

fn long(bytes: &mut Vec<u8>, kind: u8, text: &str) {
    let size = text.len() as u64 + 1;
    bytes.extend(block("././@LongLink", 0o644, size, kind, ""));
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len() + 1 + padding(size) as usize, 0);
}

fn block(name: &str, mode: u32, size: u64, kind: u8, link: &str) -> [u8; BLOCK as usize] {
    let mut block = [0; BLOCK as usize];
    put(&mut block[..100], name.as_bytes());
    put(&mut block[100..107], format!("{mode:07o}").as_bytes());
    put(&mut block[108..115], b"0000000");
    put(&mut block[116..123], b"0000000");
    if size <= LARGEST_OCTAL {
        put(&mut block[124..135], format!("{size:011o}").as_bytes());
    } else {
        block[124] = 0x80;
        put(&mut block[128..136], &size.to_be_bytes());
    }
    put(&mut block[136..147], b"00000000000");
    block[156] = kind;
    put(&mut block[157..257], link.as_bytes());
    put(&mut block[257..265], GNU_MAGIC);
    let sum = checksum(&block);
    put(&mut block[148..156], format!("{sum:06o}\0 ").as_bytes());
    block
}

fn put(field: &mut [u8], bytes: &[u8]) {
    let length = bytes.len().min(field.len());
    field[..length].copy_from_slice(&bytes[..length]);
}

fn checksum(block: &[u8; BLOCK as usize]) -> u32 {
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    sum(&block[..148]) + 8 * u32::from(b' ') + sum(&block[156..])
}

/// What a foreign header says, read only to tell a person what was refused, or to find
/// the index and its signature at the front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub path: String,
    pub kind: u8,
    pub mode: u64,
    pub size: u64,
    pub link: String,
    /// How long all its header blocks are.
    pub length: usize,
}

/// Reads the header at the front of `bytes`; none if there is no sound one.
pub(crate) fn find(bytes: &[u8]) -> Option<Found> {
    let mut rest = bytes;
    let mut name = None;
    let mut link = None;
    // Several extension headers may precede an entry; more than a few are nobody's archive.
    for _ in 0..8 {
        let block: &[u8; BLOCK as usize] = rest.first_chunk()?;
        if octal(&block[148..156])? != u64::from(checksum(block)) {
            return None;
        }
        let size = number(&block[124..136])?;
        let kind = block[156];
        rest = &rest[BLOCK as usize..];
        if !matches!(kind, LONG_LINK | LONG_NAME | b'x' | b'g') {
            let length = bytes.len() - rest.len();
            return Some(Found {
                path: name.unwrap_or_else(|| full_name(block)),
                kind: if kind == 0 { FILE } else { kind },
                mode: octal(&block[100..108])?,
                size,
                link: link.unwrap_or_else(|| text(&block[157..257])),
                length,
            });
        }
        let body = rest.get(..usize::try_from(size).ok()?)?;
        match kind {
            LONG_NAME => name = Some(text(body)),
            LONG_LINK => link = Some(text(body)),
            _ => {
                name = pax(body, "path").or(name);
                link = pax(body, "linkpath").or(link);
            }
        }
        rest = rest.get(usize::try_from(size.checked_add(padding(size))?).ok()?..)?;
    }
    None
}

/// The name with the prefix that POSIX headers may have.
fn full_name(block: &[u8; BLOCK as usize]) -> String {
    let name = text(&block[..100]);
    let prefix = if &block[257..263] == b"ustar\0" { text(&block[345..500]) } else { String::new() };
    if prefix.is_empty() { name } else { format!("{prefix}/{name}") }
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn octal(field: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

fn number(field: &[u8]) -> Option<u64> {
    if field[0] == 0x80 && field[1..4] == [0; 3] {
        Some(u64::from_be_bytes(field[4..12].try_into().ok()?))
    } else {
        octal(field)
    }
}

/// The value of `key` in a pax header's `LENGTH KEY=VALUE\n` records.
fn pax(mut body: &[u8], key: &str) -> Option<String> {
    let mut found = None;
    while !body.is_empty() {
        let space = body.iter().position(|&byte| byte == b' ')?;
        let length: usize = std::str::from_utf8(&body[..space]).ok()?.parse().ok()?;
        let record = body.get(space + 1..length)?;
        let record = String::from_utf8_lossy(record.strip_suffix(b"\n")?).into_owned();
        if let Some((name, value)) = record.split_once('=')
            && name == key
        {
            found = Some(value.to_string());
        }
        body = &body[length..];
    }
    found
}

/// How many members the tar stream of an entry takes.
pub(crate) fn members(entry: &Entry) -> u64 {
    let stream = header_length(entry) + entry.size().next_multiple_of(BLOCK);
    stream.div_ceil(MEMBER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, body: Body) -> Entry {
        Entry { path: path.to_string(), mode: 0o755, body, item: None }
    }

    #[test]
    fn what_is_written_is_found() {
        let long = format!("amd64/dir/{}", "x".repeat(150));
        for entry in [
            entry("amd64/bin/a", Body::Content { size: 12 }),
            entry(&long, Body::Content { size: 9 << 30 }),
            entry(&long, Body::HardLink { target: format!("{long}y") }),
            entry(&"n".repeat(100), Body::SymLink { target: "b".repeat(100) }),
        ] {
            let bytes = header(&entry);
            assert_eq!(header_length(&entry), bytes.len() as u64);
            let found = find(&bytes).unwrap();
            assert_eq!(
                (found.path.as_str(), found.size, found.mode),
                (entry.path.as_str(), entry.size(), 0o755)
            );
            assert_eq!(found.length, bytes.len());
            match entry.body {
                Body::Content { .. } => assert_eq!(found.kind, FILE),
                Body::HardLink { target } => assert_eq!((found.kind, found.link), (HARD_LINK, target)),
                Body::SymLink { target } => assert_eq!((found.kind, found.link), (SYM_LINK, target)),
            }
        }
    }

    #[test]
    fn other_tars_read_the_headers() {
        let bytes = header(&entry("amd64/bin/a", Body::Content { size: 12 }));
        let parsed = tar::Header::from_byte_slice(&bytes);
        assert_eq!(parsed.path_bytes().as_ref(), b"amd64/bin/a");
        assert_eq!(parsed.cksum().unwrap(), checksum(bytes.first_chunk().unwrap()));
        assert!(parsed.as_gnu().is_some());
    }

    #[test]
    fn nonsense_is_not_a_header() {
        assert_eq!(find(&[]), None);
        assert_eq!(find(&[0; 512]).map(|found| found.path), None);
        assert_eq!(find(&[0xff; 4096]), None);
    }
}
