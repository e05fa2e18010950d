//! The header of an RPM package, and the byte ranges that its signatures cover.
//!
//! 1. Lead: 96 bytes, of which only the magic counts
//! 2. Signature header, padded to 8 bytes: what signs and sums the rest
//! 3. Main header: what the package is
//!
//! A header is: magic, number of entries, length of data; entries of tag, type, offset, count; data.

use super::{Problem, malformed, read_bounded};
use std::io::Read;

pub const MAGIC: [u8; 4] = [0xed, 0xab, 0xee, 0xdb];
const HEADER_MAGIC: [u8; 8] = [0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0];
const LEAD: u64 = 96;
const MOST_ENTRIES: u64 = 1 << 16;
const LONGEST_DATA: u64 = 64 << 20;
/// Of one entry: ten times the files of the largest packages.
const MOST_VALUES: u32 = 1 << 20;
const BINARY: u32 = 7;

/// What an RPM package says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rpm {
    pub name: String,
    pub epoch: Option<u32>,
    pub version: String,
    pub release: String,
    /// RPM's spelling; `noarch` for every arch.
    pub architecture: String,
    pub is_source: bool,
    pub provides: Vec<Dependency>,
    pub requires: Vec<Dependency>,
    pub conflicts: Vec<Dependency>,
    pub obsoletes: Vec<Dependency>,
    /// The paths of all its files.
    pub files: Vec<String>,
    /// What they take together, in bytes; absent beyond 4 GiB.
    pub installed_size: Option<u32>,
    lead: Vec<u8>,
    /// The signature header's entries, by tag.
    pub signature: Header,
    /// The main header as it is in the file: what header signatures and digests cover.
    pub header: Vec<u8>,
    /// Where in the file the main header begins, and the payload behind it.
    pub header_offset: u64,
    pub payload_offset: u64,
    /// sha256 of the compressed payload, if the header says it: a signed header then covers everything.
    pub payload_sha256: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    pub name: String,
    /// RPMSENSE bits: 2 less, 4 greater, 8 equal, and more.
    pub flags: u32,
    /// `[EPOCH:]VERSION[-RELEASE]`; empty: any.
    pub version: String,
}

impl Rpm {
    /// What rpm would refuse about lead and headers.
    pub fn flaw(&self) -> Option<String> {
        // Kind of signature: a header.
        const HEADER_SIGNATURE: [u8; 2] = [0, 5];
        if !matches!(self.lead[4], 3 | 4) || self.lead[78..80] != HEADER_SIGNATURE {
            return Some("its lead is of an unknown version".to_string());
        }
        let main = read_header(&mut &self.header[..], "header").map(|(header, _)| header).ok()?;
        let flaw =
            self.signature.flaw(tag::REGION_SIGNATURES).map(|flaw| format!("its signature header {flaw}"));
        flaw.or_else(|| main.flaw(tag::REGION_IMMUTABLE).map(|flaw| format!("its header {flaw}")))
    }

    /// `[EPOCH:]VERSION-RELEASE`, as dependencies write it.
    pub fn evr(&self) -> String {
        let epoch = self.epoch.map(|epoch| format!("{epoch}:")).unwrap_or_default();
        format!("{epoch}{}-{}", self.version, self.release)
    }
}

/// Reads up to the end of the main header, and nothing of the payload.
pub fn read(reader: &mut dyn Read) -> Result<Rpm, Problem> {
    let lead = read_bounded(reader, LEAD, LEAD, "lead")?;
    if !lead.starts_with(&MAGIC) {
        return malformed("it is not an RPM package");
    }
    let (signature, signature_bytes) = read_header(reader, "signature header")?;
    let padding = (8 - signature_bytes.len() as u64 % 8) % 8;
    read_bounded(reader, padding, 8, "signature padding")?;
    let (main, header) = read_header(reader, "header")?;
    let header_offset = LEAD + signature_bytes.len() as u64 + padding;
    let required = |tag, what: &str| match main.string(tag) {
        Some(value) if !value.is_empty() => Ok(value),
        _ => malformed(format!("its header has no {what}")),
    };
    Ok(Rpm {
        lead,
        name: required(tag::NAME, "name")?,
        epoch: main.numbers(tag::EPOCH).first().copied(),
        version: required(tag::VERSION, "version")?,
        release: required(tag::RELEASE, "release")?,
        architecture: required(tag::ARCH, "arch")?,
        is_source: main.string(tag::SOURCE_RPM).is_none(),
        provides: main.dependencies(tag::PROVIDES),
        requires: main.dependencies(tag::REQUIRES),
        conflicts: main.dependencies(tag::CONFLICTS),
        obsoletes: main.dependencies(tag::OBSOLETES),
        files: main.files(),
        installed_size: main.numbers(tag::SIZE).first().copied(),
        payload_sha256: main.strings(tag::PAYLOAD_DIGEST).into_iter().next().filter(|_| main.is_sha256()),
        payload_offset: header_offset + header.len() as u64,
        signature,
        header,
        header_offset,
    })
}

/// The tags read here, with the numbers that RPM gave them.
pub mod tag {
    /// First in a header: what belongs together in it.
    pub const REGION_SIGNATURES: u32 = 62;
    pub const REGION_IMMUTABLE: u32 = 63;
    pub const FIRST: u32 = 100;
    pub const NAME: u32 = 1000;
    pub const VERSION: u32 = 1001;
    pub const RELEASE: u32 = 1002;
    pub const EPOCH: u32 = 1003;
    pub const SIZE: u32 = 1009;
    pub const ARCH: u32 = 1022;
    pub const SOURCE_RPM: u32 = 1044;
    pub const PAYLOAD_DIGEST: u32 = 5092;
    pub const PAYLOAD_DIGEST_ALGORITHM: u32 = 5093;
    /// Names, flags, versions.
    pub const PROVIDES: [u32; 3] = [1047, 1112, 1113];
    pub const REQUIRES: [u32; 3] = [1049, 1048, 1050];
    pub const CONFLICTS: [u32; 3] = [1054, 1053, 1055];
    pub const OBSOLETES: [u32; 3] = [1090, 1114, 1115];
    /// A file's path is one of the folders, named by its number, and a name.
    pub const FOLDER_NUMBERS: u32 = 1116;
    pub const FILE_NAMES: u32 = 1117;
    pub const FOLDERS: u32 = 1118;
    /// In the signature header: OpenPGP signatures over the main header, and its digests.
    pub const SIGNATURE_DSA: u32 = 267;
    pub const SIGNATURE_RSA: u32 = 268;
    pub const SIGNATURE_SHA1: u32 = 269;
    pub const SIGNATURE_SHA256: u32 = 273;
    pub const SIGNATURE_OPENPGP: u32 = 278;
    /// In the signature header: MD5 over header and payload.
    pub const SIGNATURE_MD5: u32 = 1004;
    /// In the signature header: OpenPGP signatures over header and payload.
    pub const SIGNATURE_PGP: u32 = 1002;
    pub const SIGNATURE_GPG: u32 = 1005;
}

/// The entries of one header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    entries: Vec<(u32, u32, usize, usize)>,
    data: Vec<u8>,
}

fn read_header(reader: &mut dyn Read, what: &str) -> Result<(Header, Vec<u8>), Problem> {
    let mut bytes = read_bounded(reader, 16, 16, what)?;
    let number = |bytes: &[u8], at: usize| {
        u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    if !bytes.starts_with(&HEADER_MAGIC) {
        return malformed(format!("its {what} is damaged"));
    }
    let count = u64::from(number(&bytes, 8));
    let length = u64::from(number(&bytes, 12));
    let entries = read_bounded(reader, count.saturating_mul(16), MOST_ENTRIES * 16, what)?;
    let data = read_bounded(reader, length, LONGEST_DATA, what)?;
    bytes.extend(&entries);
    bytes.extend(&data);
    let entries = entries.as_chunks::<16>().0;
    // The values of the others become a list: empty strings would take many times their bytes.
    let is_long = |entry: &[u8; 16]| number(entry, 4) != BINARY && number(entry, 12) > MOST_VALUES;
    if entries.iter().any(is_long) {
        return malformed(format!("an entry of its {what} has more than {MOST_VALUES} values"));
    }
    let entries = entries
        .iter()
        .map(|entry| {
            (number(entry, 0), number(entry, 4), number(entry, 8) as usize, number(entry, 12) as usize)
        })
        .collect();
    Ok((Header { entries, data }, bytes))
}

impl Header {
    fn find(&self, tag: u32, kinds: &[u32]) -> Option<(&[u8], usize)> {
        let &(_, _, offset, count) =
            self.entries.iter().find(|(found, kind, ..)| *found == tag && kinds.contains(kind))?;
        Some((self.data.get(offset..)?, count))
    }

    pub fn string(&self, tag: u32) -> Option<String> {
        self.strings(tag).into_iter().next()
    }

    /// A string, a list of strings, or a string per language.
    pub fn strings(&self, tag: u32) -> Vec<String> {
        let Some((data, count)) = self.find(tag, &[6, 8, 9]) else { return Vec::new() };
        data.split(|&byte| byte == 0)
            .take(count)
            .map(|text| String::from_utf8_lossy(text).into_owned())
            .collect()
    }

    /// A list of 32-bit numbers.
    pub fn numbers(&self, tag: u32) -> Vec<u32> {
        let Some((data, count)) = self.find(tag, &[4]) else { return Vec::new() };
        data.as_chunks::<4>().0.iter().take(count).map(|bytes| u32::from_be_bytes(*bytes)).collect()
    }

    /// Raw bytes: a signature.
    pub fn bytes(&self, tag: u32) -> Option<&[u8]> {
        let (data, count) = self.find(tag, &[BINARY])?;
        data.get(..count)
    }

    fn is_sha256(&self) -> bool {
        const SHA256: u32 = 8;
        self.numbers(tag::PAYLOAD_DIGEST_ALGORITHM).first().is_none_or(|algorithm| *algorithm == SHA256)
    }

    /// Whether every entry is of a known kind, aligned, and inside of the data; a region comes first and
    /// ends in itself.
    fn flaw(&self, region: u32) -> Option<String> {
        if !self.begins_with(region) {
            return Some("has no region".to_string());
        }
        let mut end = 0;
        for &(tag, kind, offset, count) in &self.entries[1..] {
            let bad = |why: &str| Some(format!("has an entry {tag} {why}"));
            if tag < tag::FIRST || !(1..=9).contains(&kind) {
                return bad("of an unknown kind");
            }
            // Numbers of 16, 32 and 64 bits.
            let width = match kind {
                3 => 2,
                4 => 4,
                5 => 8,
                _ => 1,
            };
            // One after the other, as they are listed.
            if !offset.is_multiple_of(width) || count == 0 || offset < end || (kind == 6 && count != 1) {
                return bad("in an odd place");
            }
            let Some(rest) = self.data.get(offset..) else { return bad("outside of its data") };
            let length = match kind {
                6 | 8 | 9 => {
                    let mut ends = rest.iter().enumerate().filter(|(_, byte)| **byte == 0);
                    ends.nth(count - 1).map(|(at, _)| at + 1)
                }
                _ => count.checked_mul(width).filter(|length| *length <= rest.len()),
            };
            let Some(length) = length else { return bad("outside of its data") };
            end = offset + length;
        }
        None
    }

    /// Its data ends in an entry of its own, which names the region again and counts back over its entries.
    fn begins_with(&self, region: u32) -> bool {
        const LENGTH: usize = 16;
        let Some(&(tag, kind, offset, LENGTH)) = self.entries.first() else { return false };
        let Some(trailer) = self.data.get(offset..offset.saturating_add(LENGTH)) else { return false };
        let words: Vec<u32> =
            trailer.as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes)).collect();
        let entries = words[2].wrapping_neg() as usize;
        (tag, kind) == (region, BINARY)
            && [words[0], words[1], words[3]] == [region, BINARY, LENGTH as u32]
            && entries.is_multiple_of(LENGTH)
            && (1..=self.entries.len()).contains(&(entries / LENGTH))
    }

    fn files(&self) -> Vec<String> {
        let folders = self.strings(tag::FOLDERS);
        let numbers = self.numbers(tag::FOLDER_NUMBERS);
        let names = self.strings(tag::FILE_NAMES);
        let path = |(name, number): (String, u32)| Some(format!("{}{name}", folders.get(number as usize)?));
        names.into_iter().zip(numbers).filter_map(path).collect()
    }

    fn dependencies(&self, [names, flags, versions]: [u32; 3]) -> Vec<Dependency> {
        let (flags, versions) = (self.numbers(flags), self.strings(versions));
        let complete = |(position, name)| Dependency {
            name,
            flags: flags.get(position).copied().unwrap_or(0),
            version: versions.get(position).cloned().unwrap_or_default(),
        };
        self.strings(names).into_iter().enumerate().map(complete).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Entry<'a> = (u32, u32, u32, &'a [u8]);

    fn header(entries: &[Entry<'_>]) -> Vec<u8> {
        let mut index = Vec::new();
        let mut data = Vec::new();
        for (tag, kind, count, content) in entries {
            while *kind == 4 && data.len() % 4 != 0 {
                data.push(0);
            }
            for number in [*tag, *kind, data.len() as u32, *count] {
                index.extend(number.to_be_bytes());
            }
            data.extend(*content);
        }
        let mut bytes = HEADER_MAGIC.to_vec();
        bytes.extend((entries.len() as u32).to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        [bytes, index, data].concat()
    }

    fn package() -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.resize(LEAD as usize, 0);
        bytes.extend(header(&[(tag::SIGNATURE_RSA, 7, 3, b"sig"), (tag::SIGNATURE_SHA256, 6, 1, b"ab\0")]));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(header(&[
            (tag::NAME, 6, 1, b"conntrack\0"),
            (tag::VERSION, 6, 1, b"1.4.5\0"),
            (tag::RELEASE, 6, 1, b"3\0"),
            (tag::EPOCH, 4, 1, &[0, 0, 0, 2]),
            (tag::ARCH, 6, 1, b"aarch64\0"),
            (tag::SOURCE_RPM, 6, 1, b"x.src.rpm\0"),
            (tag::REQUIRES[0], 8, 2, b"libc.so.6\0glibc\0"),
            (tag::REQUIRES[1], 4, 2, &[0, 0, 0, 0, 0, 0, 0, 12]),
            (tag::REQUIRES[2], 8, 2, b"\x002.28-1\0"),
        ]));
        bytes.extend(b"payload");
        bytes
    }

    #[test]
    fn reads_identity_dependencies_and_ranges() {
        let bytes = package();
        let rpm = read(&mut &bytes[..]).unwrap();
        assert_eq!((rpm.name.as_str(), rpm.evr().as_str()), ("conntrack", "2:1.4.5-3"));
        assert_eq!(rpm.architecture, "aarch64");
        assert!(!rpm.is_source);
        let glibc = Dependency { name: "glibc".into(), flags: 12, version: "2.28-1".into() };
        assert_eq!(rpm.requires[1], glibc);
        assert_eq!(rpm.signature.bytes(tag::SIGNATURE_RSA), Some(&b"sig"[..]));
        assert_eq!(&bytes[rpm.payload_offset as usize..], b"payload");
        assert_eq!(&bytes[rpm.header_offset as usize..][..rpm.header.len()], rpm.header);
    }

    #[test]
    fn damage_is_malformed() {
        let whole = package();
        for length in [0, 50, 100, 130, 180, 250] {
            assert!(matches!(read(&mut &whole[..length]), Err(Problem::Malformed(_))), "{length}");
        }
        let mut huge = whole.clone();
        huge[104..112].fill(0xff);
        assert!(read(&mut &huge[..]).unwrap_err().to_string().contains("limit"));
        let mut many = package();
        many.truncate(LEAD as usize);
        many.extend(header(&[(tag::NAME, 8, u32::MAX, &[0; 64])]));
        assert!(read(&mut &many[..]).unwrap_err().to_string().contains("more than 1048576 values"));
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let _ = read(&mut &changed[..]);
        }
    }
}
