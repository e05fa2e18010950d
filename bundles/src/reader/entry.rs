//! One entry's content, member by member: tar header, CRC-32 and padding are checked on the way.

use super::archive::Scratch;
use super::{Opened, check};
use crate::entries::{BLOCK, MEMBER};
use crate::error::{Error, Refusal};
use crate::tape;
use std::ops::Range;

/// Goes through the content of entry `number`.
pub(super) struct EntryReader {
    number: usize,
    header: Vec<u8>,
    /// The next member, counted from the entry's first.
    next: u64,
    /// The length of the entry's tar stream.
    stream: u64,
    size: u64,
    scratch: Scratch,
    /// Where in the scratch the current piece of content is.
    piece: Range<usize>,
}

impl EntryReader {
    pub(super) fn new(opened: &Opened, number: usize, scratch: Scratch) -> Self {
        let entry = &opened.contents.entries.list[number];
        let header = tape::header(entry);
        let size = entry.size();
        let stream = header.len() as u64 + size.next_multiple_of(BLOCK);
        Self { number, header, next: 0, stream, size, scratch, piece: 0..0 }
    }

    pub(super) fn into_scratch(self) -> Scratch {
        self.scratch
    }

    /// The unread rest of the current piece.
    pub(super) fn piece(&self) -> &[u8] {
        &self.scratch.content[self.piece.clone()]
    }

    pub(super) fn consume(&mut self, length: usize) {
        self.piece.start += length;
    }

    /// Goes to the next piece, which may be empty; false at the end.
    pub(super) fn next(&mut self, opened: &Opened) -> Result<bool, Error> {
        let start = self.next * MEMBER;
        if start >= self.stream {
            return Ok(false);
        }
        let length = (self.stream - start).min(MEMBER);
        let path = &opened.contents.entries.list[self.number].path;
        let member = opened.starts[self.number] + self.next as usize;
        let decoded = opened.archive.decode(member, length as usize, &mut self.scratch, path);
        if start == 0 {
            // A foreign entry in this place is better told by its header than by its length.
            let same = decoded.is_ok() && self.scratch.content.starts_with(&self.header);
            if !same && !matches!(decoded, Err(Error::Io { .. })) {
                check::header(opened, self.number, member, &mut self.scratch)?;
            }
        }
        decoded?;
        self.next += 1;
        let header = self.header.len() as u64;
        let from = header.saturating_sub(start).min(length) as usize;
        let to = (header + self.size).saturating_sub(start).min(length) as usize;
        if self.scratch.content[to..].iter().any(|&byte| byte != 0) {
            return Err(opened.archive.refused(Refusal::Padding(path.clone())));
        }
        self.piece = from..to;
        Ok(true)
    }
}
