//! Takes bundles apart and puts them together again, with whatever an attacker likes to change.
//!
//! Framing, table and footer are written from `docs/format.md`, on other crates than the real writer's: that the real
//! reader accepts them shows that the page and the code say the same.

use eggo_bundles::Index;
use flate2::{Compression, Crc, write::GzEncoder};
use sha2::{Digest as _, Sha256};
use std::io::{Read as _, Write as _};
use std::path::Path;

const MEMBER: usize = 1 << 20;

/// One entry: its header blocks, its content, and the zeros behind.
#[derive(Clone)]
pub struct Raw {
    pub path: String,
    pub header: Vec<u8>,
    pub content: Vec<u8>,
    pub padding: Vec<u8>,
}

/// Changes the bytes of a member.
pub type Tamper = fn(&mut Vec<u8>);

/// A bundle in pieces.
#[derive(Clone)]
pub struct Forge {
    pub entries: Vec<Raw>,
    /// Changes the finished members before the table is made.
    pub tamper: Vec<(usize, Tamper)>,
    /// Stands between the end of the archive and the table, as members of their own.
    pub behind: Vec<Vec<u8>>,
}

impl Forge {
    pub fn open(path: &Path) -> Self {
        let mut stream = Vec::new();
        let file = std::fs::File::open(path).unwrap();
        flate2::read::MultiGzDecoder::new(file).read_to_end(&mut stream).unwrap();
        let mut entries = Vec::new();
        let mut rest = &stream[..];
        while rest[..512] != [0; 512] {
            let mut header = Vec::new();
            let mut long = None;
            loop {
                let block = &rest[..512];
                let size = usize::from_str_radix(std::str::from_utf8(&block[124..135]).unwrap(), 8).unwrap();
                let padded = size.next_multiple_of(512);
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
                header.extend(block);
                if matches!(block[156], b'K' | b'L') {
                    if block[156] == b'L' {
                        long = Some(text(&rest[512..512 + size]));
                    }
                    header.extend(&rest[512..512 + padded]);
                    rest = &rest[512 + padded..];
                    continue;
                }
                let content = rest[512..512 + size].to_vec();
                let padding = rest[512 + size..512 + padded].to_vec();
                entries.push(Raw {
                    path: long.unwrap_or_else(|| text(&block[..100])),
                    header,
                    content,
                    padding,
                });
                rest = &rest[512 + padded..];
                break;
            }
        }
        assert_eq!(rest, [0; 1024]);
        Self { entries, tamper: Vec::new(), behind: Vec::new() }
    }

    pub fn position(&self, path: &str) -> usize {
        self.entries.iter().position(|entry| entry.path == path).unwrap()
    }

    pub fn entry(&mut self, path: &str) -> &mut Raw {
        let position = self.position(path);
        &mut self.entries[position]
    }

    pub fn insert(&mut self, position: usize, path: &str, content: &[u8]) {
        self.entries.insert(position, Raw::new(path, 0o644, b'0', "", content));
    }

    pub fn index(&self) -> Index {
        serde_json::from_slice(&self.entries[0].content).unwrap()
    }

    /// Puts another index in place, signed by the key of this file; `SHA256SUMS` follows it.
    pub fn sign(&mut self, index: &[u8], key: &str) {
        self.entries[0] = Raw::new("eggo-bundle.json", 0o644, b'0', "", index);
        self.replace_signature(sign(index, key).as_bytes());
    }

    /// Puts another signature in place; `SHA256SUMS` follows it.
    pub fn replace_signature(&mut self, signature: &[u8]) {
        let index = self.entries[0].content.clone();
        self.entries[1] = Raw::new("eggo-bundle.json.minisig", 0o644, b'0', "", signature);
        let sums = String::from_utf8(self.entry("SHA256SUMS").content.clone()).unwrap();
        let sums: String = sums
            .lines()
            .map(|line| match line.split_once("  ").unwrap().1 {
                path @ "eggo-bundle.json" => format!("{}  {path}\n", hex::encode(Sha256::digest(&index))),
                path @ "eggo-bundle.json.minisig" => {
                    format!("{}  {path}\n", hex::encode(Sha256::digest(signature)))
                }
                _ => format!("{line}\n"),
            })
            .collect();
        *self.entry("SHA256SUMS") = Raw::new("SHA256SUMS", 0o644, b'0', "", sums.as_bytes());
    }

    /// The bytes of the whole bundle.
    pub fn bytes(&self) -> Vec<u8> {
        let mut members: Vec<Vec<u8>> = Vec::new();
        for entry in &self.entries {
            let stream = [&entry.header[..], &entry.content, &entry.padding].concat();
            members.extend(stream.chunks(MEMBER).map(member));
        }
        members.push(member(&[0; 1024]));
        for (position, change) in &self.tamper {
            change(&mut members[*position]);
        }
        members.extend(self.behind.iter().cloned());
        let mut bytes = members.concat();
        bytes.extend(tail(&members));
        bytes
    }
}

impl Raw {
    pub fn new(path: &str, mode: u32, kind: u8, link: &str, content: &[u8]) -> Self {
        let header = header(path, mode, kind, link, content.len());
        let padding = vec![0; content.len().next_multiple_of(512) - content.len()];
        Self { path: path.to_string(), header, content: content.to_vec(), padding }
    }
}

/// A header in GNU's format.
pub fn header(path: &str, mode: u32, kind: u8, link: &str, size: usize) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..path.len()].copy_from_slice(path.as_bytes());
    block[100..107].copy_from_slice(format!("{mode:07o}").as_bytes());
    block[108..115].copy_from_slice(b"0000000");
    block[116..123].copy_from_slice(b"0000000");
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[136..147].copy_from_slice(b"00000000000");
    block[148..156].copy_from_slice(b"        ");
    block[156] = kind;
    block[157..157 + link.len()].copy_from_slice(link.as_bytes());
    block[257..265].copy_from_slice(b"ustar  \0");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// A gzip member with the fixed header.
pub fn member(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    let mut bytes = encoder.finish().unwrap();
    bytes[..10].copy_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
    bytes
}

/// The table of these members and the footer.
pub fn tail(members: &[Vec<u8>]) -> Vec<u8> {
    let mut table = Vec::new();
    for records in members.chunks(1024) {
        let data: Vec<u8> = records
            .iter()
            .flat_map(|member| {
                let mut crc = Crc::new();
                crc.update(member);
                [&(member.len() as u64).to_le_bytes()[..], &crc.sum().to_le_bytes()].concat()
            })
            .collect();
        table.extend(extra(b"ET", &data));
    }
    let length: u64 = members.iter().map(|member| member.len() as u64).sum();
    let mut data = b"EGGO\x01\0\0\0".to_vec();
    data.extend(length.to_le_bytes());
    data.extend((members.len() as u64).to_le_bytes());
    let sum = Sha256::digest([&table[..], &data].concat());
    data.extend(sum);
    table.extend(extra(b"EF", &data));
    table
}

fn extra(id: &[u8; 2], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff];
    bytes.extend((data.len() as u16 + 4).to_le_bytes());
    bytes.extend(id);
    bytes.extend((data.len() as u16).to_le_bytes());
    bytes.extend(data);
    bytes.extend([3, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

/// Signs as the `minisign` crate does, from the key's file.
fn sign(message: &[u8], key: &str) -> String {
    let key = minisign::SecretKeyBox::from(key.to_string()).into_unencrypted_secret_key().unwrap();
    minisign::sign(None, &key, message, Some("forged"), None).unwrap().to_string()
}
