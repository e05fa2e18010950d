//! The table of members at the end of a bundle, and the footer that finds it.
//!
//! Both are empty gzip members with an extra field, so the bundle stays a plain `.tar.gz`.
//! The table is no proof of anything: what it leads to is checked against the index. But
//! it holds a CRC-32 of each member's bytes, so a flipped bit is found even where a
//! decompressor does not look.

use crate::digest::Hasher;
use crate::gzip::{HEADER, extra_data, extra_member, extra_member_length};

const TABLE: [u8; 2] = *b"ET";
const FOOTER: [u8; 2] = *b"EF";
const MAGIC: [u8; 8] = *b"EGGO\x01\0\0\0";
const RECORD: usize = 12;
/// Records in one table member: busybox takes no extra field over 16 KiB.
const RECORDS: usize = 1024;
const FOOTER_DATA: usize = 8 + 8 + 8 + 32;
/// The number of bytes at the end of a bundle that find all others.
pub(crate) const FOOTER_LENGTH: usize = extra_member_length(FOOTER_DATA);
/// Four TiB in members of one MiB.
const MOST_MEMBERS: u64 = 4 << 20;

/// One gzip member of the bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub length: u64,
    /// CRC-32 of the member's own bytes, header and trailer included.
    pub crc: u32,
}

/// Where the table stands, according to the footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Footer {
    pub offset: u64,
    pub members: u64,
    checksum: [u8; 32],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadTable {
    #[error("is truncated: its footer is missing")]
    NoFooter,
    #[error("is damaged at its end: its footer is not sound")]
    BadFooter,
    #[error("is damaged: its footer names another length")]
    Misplaced,
    #[error("is damaged at its end: the table of members is not sound")]
    Damaged,
}

/// Everything behind the last entry: table members, then the footer.
pub(crate) fn tail(members: &[Member]) -> Vec<u8> {
    let offset: u64 = members.iter().map(|member| member.length).sum();
    let mut bytes = Vec::new();
    for records in members.chunks(RECORDS) {
        let data: Vec<u8> = records
            .iter()
            .flat_map(|member| [&member.length.to_le_bytes()[..], &member.crc.to_le_bytes()].concat())
            .collect();
        bytes.extend(extra_member(TABLE, &data));
    }
    let checksum = checksum(&bytes, offset, members.len() as u64);
    let mut data = front(offset, members.len() as u64).to_vec();
    data.extend(checksum);
    bytes.extend(extra_member(FOOTER, &data));
    bytes
}

impl Footer {
    /// Reads the last [`FOOTER_LENGTH`] bytes of a bundle that is `length` long.
    pub(crate) fn parse(bytes: &[u8], length: u64) -> Result<Self, BadTable> {
        let data = extra_data(FOOTER, bytes).filter(|data| data.len() == FOOTER_DATA);
        let missing = || if resembles_footer(bytes) { BadTable::BadFooter } else { BadTable::NoFooter };
        let data = data.and_then(|data| data.strip_prefix(&MAGIC)).ok_or_else(missing)?;
        let number = |at: usize| data[at..at + 8].try_into().map(u64::from_le_bytes);
        let (Ok(offset), Ok(members)) = (number(0), number(8)) else { return Err(BadTable::NoFooter) };
        let footer =
            Self { offset, members, checksum: data[16..].try_into().map_err(|_| BadTable::NoFooter)? };
        let fits = members <= MOST_MEMBERS
            && offset.checked_add(footer.table_length() + FOOTER_LENGTH as u64) == Some(length);
        if fits { Ok(footer) } else { Err(BadTable::Misplaced) }
    }

    /// Where in `bytes`, the last ones of a file of `length`, a footer ends that fits what is before it.
    pub(crate) fn end_within(bytes: &[u8], length: u64) -> Option<u64> {
        let before = length.checked_sub(bytes.len() as u64)?;
        let places = bytes.windows(FOOTER_LENGTH).zip(before + FOOTER_LENGTH as u64..);
        let mut members = places.filter(|(bytes, _)| bytes.starts_with(&HEADER[..3]));
        members.find(|(footer, end)| Self::parse(footer, *end).is_ok()).map(|(_, end)| end)
    }

    pub(crate) fn table_length(&self) -> u64 {
        let whole = self.members / RECORDS as u64 * extra_member_length(RECORDS * RECORD) as u64;
        match (self.members % RECORDS as u64) as usize {
            0 => whole,
            rest => whole + extra_member_length(rest * RECORD) as u64,
        }
    }

    /// Reads the table that this footer speaks of.
    pub(crate) fn members(&self, table: &[u8]) -> Result<Vec<Member>, BadTable> {
        if checksum(table, self.offset, self.members) != self.checksum {
            return Err(BadTable::Damaged);
        }
        let mut members = Vec::new();
        for piece in table.chunks(extra_member_length(RECORDS * RECORD)) {
            let data = extra_data(TABLE, piece).ok_or(BadTable::Damaged)?;
            let (records, rest) = data.as_chunks::<RECORD>();
            if !rest.is_empty() {
                return Err(BadTable::Damaged);
            }
            members.extend(records.iter().map(|record| {
                let [a, b, c, d, e, f, g, h, i, j, k, l] = *record;
                Member {
                    length: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
                    crc: u32::from_le_bytes([i, j, k, l]),
                }
            }));
        }
        let sum = members.iter().try_fold(0_u64, |sum, member| sum.checked_add(member.length));
        if members.len() as u64 == self.members && sum == Some(self.offset) {
            Ok(members)
        } else {
            Err(BadTable::Damaged)
        }
    }
}

/// Whether most of the bytes that are the same in every footer are there: it is one that was damaged. Zeros
/// do not count, for many copies that were truncated end in them.
fn resembles_footer(bytes: &[u8]) -> bool {
    let mut data = MAGIC.to_vec();
    data.resize(FOOTER_DATA, 0);
    let fixed = extra_member(FOOTER, &data);
    let counted = || fixed.iter().zip(bytes).filter(|(expected, _)| **expected != 0);
    counted().filter(|(expected, found)| expected == found).count() * 2 > counted().count()
}

fn front(offset: u64, members: u64) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&offset.to_le_bytes());
    bytes[16..].copy_from_slice(&members.to_le_bytes());
    bytes
}

fn checksum(table: &[u8], offset: u64, members: u64) -> [u8; 32] {
    let mut hasher = Hasher::new();
    hasher.update(table);
    hasher.update(&front(offset, members));
    *hasher.finish().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_any_length_is_found_from_the_end() {
        for count in [0, 1, 1023, 1024, 1025, 5000] {
            let members: Vec<Member> =
                (0..count).map(|n| Member { length: 20 + n, crc: (n as u32).wrapping_mul(77) }).collect();
            let offset: u64 = members.iter().map(|member| member.length).sum();
            let tail = tail(&members);
            let (table, footer) = tail.split_at(tail.len() - FOOTER_LENGTH);
            let footer = Footer::parse(footer, offset + tail.len() as u64).unwrap();
            assert_eq!(footer.table_length(), table.len() as u64);
            assert_eq!(footer.members(table).unwrap(), members);
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let tail = tail(&[Member { length: 30, crc: 1 }, Member { length: 40, crc: 2 }]);
        let length = 70 + tail.len() as u64;
        for bit in 0..tail.len() * 8 {
            let mut changed = tail.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let (table, footer) = changed.split_at(changed.len() - FOOTER_LENGTH);
            let outcome = Footer::parse(footer, length).and_then(|footer| {
                if footer.table_length() != table.len() as u64 {
                    return Err(BadTable::Misplaced);
                }
                footer.members(table)
            });
            assert!(matches!(outcome, Err(why) if why != BadTable::NoFooter), "bit {bit}: {outcome:?}");
        }
    }

    #[test]
    fn what_was_cut_off_is_not_taken_for_damage() {
        let tail = [vec![0; 200], tail(&[Member { length: 200, crc: 1 }])].concat();
        for length in FOOTER_LENGTH..tail.len() {
            let rest = &tail[length - FOOTER_LENGTH..length];
            assert_eq!(Footer::parse(rest, length as u64), Err(BadTable::NoFooter), "{length}");
        }
        let longer = [&tail[..], &[7; 300]].concat();
        assert_eq!(Footer::end_within(&longer[100..], longer.len() as u64), Some(tail.len() as u64));
        assert_eq!(Footer::end_within(&longer[tail.len()..], longer.len() as u64), None);
    }
}
