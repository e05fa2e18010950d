//! The file's framing: footer, table, members. All that is known before trust.

use super::front::Members;
use crate::entries::{BLOCK, MEMBER};
use crate::error::{Error, Refusal};
use crate::gzip::{Decoder, HEADER, LONGEST};
use crate::parts::{self, ReadAt};
use crate::table::{BadTable, FOOTER_LENGTH, Footer, Member};
use crate::tape;
use libdeflater::crc32;
use std::io;
use std::path::{Path, PathBuf};

/// The members of a file, readable by number from any thread.
pub(super) struct Archive {
    pub path: PathBuf,
    pub source: Box<dyn ReadAt>,
    pub members: Vec<Member>,
    offsets: Vec<u64>,
}

/// What one thread needs to read members. Its buffers are never longer than one member.
pub(super) struct Scratch {
    pub decoder: Decoder,
    pub raw: Vec<u8>,
    pub content: Vec<u8>,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self { decoder: Decoder::new(), raw: Vec::new(), content: Vec::new() }
    }
}

impl Archive {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let source = parts::open(path)?;
        let unreadable = |error| Error::Io { path: path.to_path_buf(), source: error };
        let bad_tail = |why| Error::Tail { path: path.to_path_buf(), why };
        let length = source.length();
        if length == 0 {
            return Err(Error::Empty { path: path.to_path_buf() });
        }
        let mut magic = [0; HEADER.len()];
        if length < magic.len() as u64 {
            return Err(Error::NotABundle { path: path.to_path_buf() });
        }
        source.read_exact_at(&mut magic, 0).map_err(unreadable)?;
        if magic[..4] != HEADER[..4] {
            return Err(Error::NotABundle { path: path.to_path_buf() });
        }
        let mut footer = [0; FOOTER_LENGTH];
        let start = length.checked_sub(FOOTER_LENGTH as u64).ok_or_else(|| bad_tail(BadTable::NoFooter))?;
        source.read_exact_at(&mut footer, start).map_err(unreadable)?;
        let footer = Footer::parse(&footer, length).map_err(|why| match why {
            BadTable::NoFooter if !begins_like_a_bundle(&*source) => {
                Error::NotABundle { path: path.to_path_buf() }
            }
            BadTable::NoFooter if goes_on_behind_its_end(&*source) => {
                Error::Refused { path: path.to_path_buf(), why: Refusal::BehindEnd }
            }
            why => bad_tail(why),
        })?;
        // The footer fits the file's length, so this is no more than the file holds.
        let mut table = vec![0; footer.table_length() as usize];
        source.read_exact_at(&mut table, footer.offset).map_err(unreadable)?;
        let members = footer.members(&table).map_err(bad_tail)?;
        if members.iter().any(|member| member.length > LONGEST) {
            return Err(bad_tail(BadTable::Damaged));
        }
        let offsets = members
            .iter()
            .scan(0, |next, member| {
                let offset = *next;
                *next += member.length;
                Some(offset)
            })
            .collect();
        Ok(Self { path: path.to_path_buf(), source, members, offsets })
    }

    pub(super) fn refused(&self, why: Refusal) -> Error {
        Error::Refused { path: self.path.clone(), why }
    }

    /// Reads member `number` into `scratch.raw` and checks the table's checksum.
    fn load(&self, number: usize, scratch: &mut Scratch, entry: &str) -> Result<(), Error> {
        let Some(member) = self.members.get(number) else {
            return Err(self.refused(Refusal::Missing(entry.to_string())));
        };
        scratch.raw.resize(member.length as usize, 0);
        self.source
            .read_exact_at(&mut scratch.raw, self.offsets[number])
            .map_err(|source| Error::Io { path: self.path.clone(), source })?;
        if crc32(&scratch.raw) != member.crc {
            return Err(self.refused(Refusal::Checksum(entry.to_string())));
        }
        Ok(())
    }

    /// Decodes member `number`, which must hold exactly `length` bytes, into `scratch.content`.
    pub(super) fn decode(
        &self,
        number: usize,
        length: usize,
        scratch: &mut Scratch,
        entry: &str,
    ) -> Result<(), Error> {
        self.load(number, scratch, entry)?;
        scratch.content.resize(length, 0);
        let decoded = scratch.decoder.decode(&scratch.raw, &mut scratch.content);
        decoded.map_err(|why| self.refused(Refusal::Member { path: entry.to_string(), why }))
    }

    /// Decodes member `number` whatever its length; for the front and for finding out what is wrong.
    pub(super) fn decode_any(&self, number: usize, scratch: &mut Scratch, entry: &str) -> Result<(), Error> {
        self.load(number, scratch, entry)?;
        scratch.content.resize(MEMBER as usize, 0);
        let decoded = scratch.decoder.decode_up_to(&scratch.raw, &mut scratch.content);
        let length = decoded.map_err(|why| self.refused(Refusal::Member { path: entry.to_string(), why }))?;
        scratch.content.truncate(length);
        Ok(())
    }

    /// Members one after the other, whatever their length.
    pub(super) fn members_from(&self, number: usize) -> MembersFrom<'_> {
        MembersFrom { archive: self, number, scratch: Scratch::new() }
    }
}

/// See [`Archive::members_from`].
pub(super) struct MembersFrom<'a> {
    archive: &'a Archive,
    /// The next one.
    pub number: usize,
    scratch: Scratch,
}

impl Members for MembersFrom<'_> {
    fn path(&self) -> &Path {
        &self.archive.path
    }

    fn next(&mut self, entry: &str) -> Result<&[u8], Error> {
        self.archive.decode_any(self.number, &mut self.scratch, entry)?;
        self.number += 1;
        Ok(&self.scratch.content)
    }
}

/// Whether a sound footer is a little before the file's end.
fn goes_on_behind_its_end(source: &dyn ReadAt) -> bool {
    let length = source.length();
    let last = length.min(64 << 10);
    let mut raw = vec![0; last as usize];
    let read = source.read_exact_at(&mut raw, length - last);
    read.is_ok() && Footer::end_within(&raw, length).is_some()
}

/// Whether the file's first member is the front of a bundle: then it is a bundle that was truncated.
fn begins_like_a_bundle(source: &dyn ReadAt) -> bool {
    let mut raw = vec![0; source.length().min(64 << 10) as usize];
    let read: io::Result<()> = source.read_exact_at(&mut raw, 0);
    let mut header = [0; BLOCK as usize];
    let mut inflate = flate2::Decompress::new(false);
    let flush = flate2::FlushDecompress::None;
    let inflated = raw.get(HEADER.len()..).map(|deflated| inflate.decompress(deflated, &mut header, flush));
    read.is_ok()
        && inflated.is_some_and(|outcome| outcome.is_ok())
        && tape::find(&header).is_some_and(|found| found.path == crate::entries::INDEX)
}
