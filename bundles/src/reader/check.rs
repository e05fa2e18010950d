//! What is wrong with an entry that is not the expected one, said by its name.

use super::archive::Scratch;
use super::{Contents, Opened};
use crate::entries::Body;
use crate::error::{Error, Refusal};
use crate::rules::{check_path, printable};
use crate::tape::{self, END, Found};

/// Refuses unless `member` begins with the header of entry `number`.
pub(super) fn header(
    opened: &Opened,
    number: usize,
    member: usize,
    scratch: &mut Scratch,
) -> Result<(), Error> {
    let path = &opened.contents.entries.list[number].path;
    opened.archive.decode_any(member, scratch, path)?;
    match compare(&opened.contents, number, &scratch.content) {
        Some(why) => Err(opened.archive.refused(why)),
        None => Ok(()),
    }
}

/// How the header at the front of `bytes` differs from that of entry `number`; none: not at all.
pub(super) fn compare(contents: &Contents, number: usize, bytes: &[u8]) -> Option<Refusal> {
    let entries = &contents.entries.list;
    let expected = &entries[number];
    if bytes.starts_with(&tape::header(expected)) {
        return None;
    }
    if bytes.starts_with(&END[..512]) {
        return Some(Refusal::Missing(expected.path.clone()));
    }
    let Some(found) = tape::find(bytes) else { return Some(Refusal::Header(expected.path.clone())) };
    if let Some(why) = forbidden(&found) {
        return Some(why);
    }
    let path = found.path.clone();
    if path != expected.path {
        return Some(match entries.iter().position(|entry| entry.path == path) {
            None => Refusal::Unlisted(printable(&path)),
            Some(position) if position < number => Refusal::Duplicate(path),
            Some(_) => Refusal::Missing(expected.path.clone()),
        });
    }
    let same_link = match &expected.body {
        Body::Content { .. } => found.kind == tape::FILE,
        Body::HardLink { target } => found.kind == tape::HARD_LINK && found.link == *target,
        Body::SymLink { target } => found.kind == tape::SYM_LINK && found.link == *target,
    };
    Some(if !same_link && found.kind != tape::FILE {
        Refusal::Link { path, target: printable(&found.link) }
    } else if !same_link {
        Refusal::Differs(path)
    } else if found.size != expected.size() {
        Refusal::Size { path, found: found.size, expected: expected.size() }
    } else if found.mode != u64::from(expected.mode) {
        Refusal::Mode { path, mode: found.mode, expected: expected.mode }
    } else {
        Refusal::Differs(path)
    })
}

/// What no bundle may contain, whatever its index says.
pub(super) fn forbidden(found: &Found) -> Option<Refusal> {
    let path = printable(&found.path);
    if let Err(why) = check_path(&found.path) {
        return Some(Refusal::Path { path, why });
    }
    let what = match found.kind {
        tape::FILE | tape::HARD_LINK | tape::SYM_LINK if found.mode & !0o777 != 0 => {
            "setuid, setgid or sticky"
        }
        tape::FILE | tape::HARD_LINK | tape::SYM_LINK => return None,
        b'3' | b'4' => "a device",
        b'5' => "a folder",
        b'6' => "a fifo",
        _ => "neither a file nor a link",
    };
    Some(Refusal::Special { path, what })
}

impl Opened {
    /// Why the members do not fit the index: goes through all headers in order.
    pub(super) fn diagnose(&self) -> Error {
        let mut scratch = Scratch::new();
        let entries = &self.contents.entries.list;
        for (number, entry) in entries.iter().enumerate() {
            if let Err(error) = self.archive.decode_any(self.starts[number], &mut scratch, &entry.path) {
                return error;
            }
            if let Some(why) = compare(&self.contents, number, &scratch.content) {
                return self.archive.refused(why);
            }
        }
        match self.check_end(&mut scratch) {
            Err(error) => error,
            Ok(()) => self.archive.refused(Refusal::BehindEnd),
        }
    }

    /// The archive ends with two zero blocks in a member of their own.
    pub(super) fn check_end(&self, scratch: &mut Scratch) -> Result<(), Error> {
        let end = self.starts[self.starts.len() - 1];
        self.archive.decode_any(end, scratch, "end of archive")?;
        match self.contents.at_end(&scratch.content) {
            Some(why) => Err(self.archive.refused(why)),
            None => Ok(()),
        }
    }
}

impl Contents {
    /// What is where the archive should end; none if it does.
    pub(super) fn at_end(&self, bytes: &[u8]) -> Option<Refusal> {
        if bytes == END {
            return None;
        }
        let Some(found) = tape::find(bytes) else { return Some(Refusal::BehindEnd) };
        if let Some(why) = forbidden(&found) {
            return Some(why);
        }
        Some(match self.entries.list.iter().any(|entry| entry.path == found.path) {
            true => Refusal::Duplicate(found.path),
            false => Refusal::Unlisted(printable(&found.path)),
        })
    }
}
