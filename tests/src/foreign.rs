//! What stands in for a fuzzer where there is no time for one: the corpus, and changes to it that
//! are the same every time.

use crate::lab::project;
use eggo_bundles::foreign::Parser;
use std::path::PathBuf;

/// All parsers of foreign bytes, of every crate.
pub fn parsers() -> Vec<Parser> {
    [&eggo_bundles::foreign::PARSERS[..], &eggo_bundle::foreign::PARSERS, &eggo_deploy::foreign::PARSERS]
        .concat()
}

/// What a parser's fuzzing begins with, by file.
pub fn corpus(parser: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = project().join("fuzz/corpus").join(parser);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(&path).expect("a readable file"))).collect()
}

/// Numbers that look random, the same for the same seed.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Numbers at which parsers go wrong.
const ODD: [u8; 8] = [0, 1, 0x20, 0x2f, 0x7f, 0x80, 0xfe, 0xff];

/// Changes one to four places: bytes, bits, numbers, and pieces that go, come twice, or come from another file.
pub fn change(bytes: &mut Vec<u8>, other: &[u8], numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        let length = bytes.len();
        if length == 0 {
            bytes.extend_from_slice(other);
            continue;
        }
        let at = numbers.below(length);
        let piece = at..(at + 1 + numbers.below(64)).min(length);
        match numbers.below(8) {
            0 => bytes[at] ^= 1 << numbers.below(8),
            1 => bytes[at] = ODD[numbers.below(ODD.len())],
            2 => bytes[piece].fill(ODD[numbers.below(ODD.len())]),
            3 => drop(bytes.drain(piece)),
            4 => {
                let copy = bytes[piece].to_vec();
                let to = numbers.below(length);
                bytes.splice(to..to, copy);
            }
            5 => bytes.truncate(at),
            6 if !other.is_empty() => {
                let from = numbers.below(other.len());
                let end = (from + 1 + numbers.below(256)).min(other.len());
                bytes.splice(at..at, other[from..end].iter().copied());
            }
            _ => {
                // What is written in digits.
                let digits = bytes.iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit());
                let digits: Vec<usize> = digits.map(|(at, _)| at).collect();
                if !digits.is_empty() {
                    bytes[digits[numbers.below(digits.len())]] = b'0' + numbers.below(10) as u8;
                }
            }
        }
    }
}
