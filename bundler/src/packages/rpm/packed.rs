//! The metadata of one repository as the cache keeps it, under the digest of the file that it was read from: in this
//! form it loads in milliseconds, where the XML takes the better part of a second.
//!
//! All numbers are 32 bits, little endian: the counts of words, bytes of text, packages, capabilities and files; where
//! each word ends; six words, the size (two numbers) and seven lengths of each package, whose lists are behind one another; capabilities
//! as name, version and relation; files. The text of all words is the end.

use super::super::version::Relation;
use super::metadata::{Capability, Metadata, Package};
use super::words::{Word, Words};
use std::ops::Range;

/// Part of the cache key: change it when the layout changes.
pub(super) const LAYOUT: &str = "1";

const RELATIONS: [Option<Relation>; 6] = [
    None,
    Some(Relation::Less),
    Some(Relation::LessOrEqual),
    Some(Relation::Equal),
    Some(Relation::GreaterOrEqual),
    Some(Relation::Greater),
];

pub(super) fn pack(metadata: &Metadata) -> Vec<u8> {
    let (text, ends) = metadata.words.parts();
    let counts =
        [ends.len(), text.len(), metadata.packages.len(), metadata.capabilities.len(), metadata.files.len()];
    let mut out =
        Vec::with_capacity(4 * (ends.len() + 15 * counts[2] + 3 * counts[3] + counts[4]) + text.len());
    let mut put = |number: u32| out.extend(number.to_le_bytes());
    counts.into_iter().for_each(|count| put(count as u32));
    ends.iter().for_each(|end| put(*end));
    for package in &metadata.packages {
        let Package { name, arch, evr, checksum_type, checksum, location, size, .. } = package;
        [name, arch, evr, checksum_type, checksum, location].into_iter().for_each(|word| put(word.0));
        put(*size as u32);
        put((size >> 32) as u32);
        lists(package).into_iter().for_each(|list| put(list.end - list.start));
    }
    for Capability { name, evr, relation } in &metadata.capabilities {
        put(name.0);
        put(evr.0);
        put(RELATIONS.iter().position(|known| known == relation).unwrap_or_default() as u32);
    }
    metadata.files.iter().for_each(|file| put(file.0));
    out.extend(text.as_bytes());
    out
}

fn lists(package: &Package) -> [&Range<u32>; 7] {
    let Package { provides, requires, conflicts, obsoletes, recommends, suggests, files, .. } = package;
    [provides, requires, conflicts, obsoletes, recommends, suggests, files]
}

/// `None` if this is not what [`pack`] made.
pub(super) fn unpack(bytes: &[u8]) -> Option<Metadata> {
    let mut numbers = Numbers { rest: bytes, words: u32::MAX };
    let [words, text, packages, capabilities, files] = numbers.array()?;
    let ends = numbers.take(words)?.collect();
    numbers.words = words;
    let (mut next_capability, mut next_file) = (0, 0);
    let range = |next: &mut u32, length: u32| {
        let start = *next;
        *next = start.checked_add(length)?;
        Some(start..*next)
    };
    let mut read_package = || {
        let [name, arch, evr, checksum_type, checksum, location] = numbers.words()?;
        let [low, high, lengths @ ..] = numbers.array::<9>()?;
        let mut list = |position: usize| range(&mut next_capability, lengths[position]);
        Some(Package {
            repo: 0,
            name,
            arch,
            evr,
            checksum_type,
            checksum,
            location,
            size: u64::from(high) << 32 | u64::from(low),
            provides: list(0)?,
            requires: list(1)?,
            conflicts: list(2)?,
            obsoletes: list(3)?,
            recommends: list(4)?,
            suggests: list(5)?,
            files: range(&mut next_file, lengths[6])?,
        })
    };
    let packages: Vec<Package> = (0..packages).map(|_| read_package()).collect::<Option<_>>()?;
    if (next_capability, next_file) != (capabilities, files) {
        return None;
    }
    let mut read_capability = || {
        let [name, evr] = numbers.words()?;
        let [relation] = numbers.array()?;
        Some(Capability { name, evr, relation: *RELATIONS.get(relation as usize)? })
    };
    let capabilities: Vec<Capability> =
        (0..capabilities).map(|_| read_capability()).collect::<Option<_>>()?;
    let files: Vec<Word> = numbers.take(files)?.map(Word).collect();
    let known = |word: &Word| word.0 < words;
    if !files.iter().all(known) || numbers.rest.len() != text as usize {
        return None;
    }
    let text = String::from_utf8(numbers.rest.to_vec()).ok()?;
    Some(Metadata { words: Words::from_parts(text, ends)?, packages, capabilities, files })
}

/// Reads numbers from the front.
struct Numbers<'a> {
    rest: &'a [u8],
    /// How many words there are.
    words: u32,
}

impl<'a> Numbers<'a> {
    fn take(&mut self, count: u32) -> Option<impl Iterator<Item = u32> + use<'a>> {
        let (taken, rest) = self.rest.split_at_checked((count as usize).checked_mul(4)?)?;
        self.rest = rest;
        Some(taken.as_chunks().0.iter().copied().map(u32::from_le_bytes))
    }

    fn array<const N: usize>(&mut self) -> Option<[u32; N]> {
        let mut numbers = self.take(N as u32)?;
        Some(std::array::from_fn(|_| numbers.next().unwrap_or_default()))
    }

    fn words<const N: usize>(&mut self) -> Option<[Word; N]> {
        let numbers = self.array::<N>()?;
        numbers.iter().all(|number| *number < self.words).then(|| numbers.map(Word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Metadata {
        Metadata::parse(super::super::metadata::tests::PRIMARY.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_packed_comes_back() {
        let metadata = sample();
        let again = unpack(&pack(&metadata)).unwrap();
        assert_eq!(format!("{:?}", again.packages), format!("{:?}", metadata.packages));
        assert_eq!((&again.capabilities, &again.files), (&metadata.capabilities, &metadata.files));
        assert_eq!(again.words.parts(), metadata.words.parts());
    }

    #[test]
    fn no_other_bytes_are_taken() {
        let bytes = pack(&sample());
        for length in 0..bytes.len() {
            assert!(unpack(&bytes[..length]).is_none(), "{length}");
        }
        for position in 0..bytes.len() {
            // It may still be readable; it must not panic, nor take anything that is not there.
            let mut broken = bytes.clone();
            broken[position] ^= 0x80;
            if let Some(metadata) = unpack(&broken) {
                let mut all = Metadata::default();
                all.adopt(0, metadata, |_, _, _| true);
            }
        }
    }
}
