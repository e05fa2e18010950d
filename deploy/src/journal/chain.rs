//! A journal's lines as a chain: each ends with a digest over the digest before it and its own content, so that a changed,
//! missing or moved line is found before anything is undone by it.
//!
//! ```text
//! {"record":"done","node":"a",…,"digest":"2f0c7d0e9a4b1c55"}
//! ```
//! Journals of format 1 have no digests. The first line that is added to one covers all lines before it.

use eggo_bundles::digest::Hasher;
use std::borrow::Cow;

/// The form that journals are written in.
pub(super) const FORMAT: u32 = 2;

const KEY: &[u8] = b",\"digest\":\"";
const END: &[u8] = b"\"}";
const LENGTH: usize = 16;

#[derive(Debug, Clone, Default)]
pub(super) struct Chain {
    /// The digest of everything so far.
    last: String,
    /// Whether a line had one: all that follow must.
    begun: bool,
}

impl Chain {
    /// The line for a record, which is a JSON object.
    pub(super) fn seal(&mut self, record: &[u8]) -> Vec<u8> {
        self.begun = true;
        self.last = self.next(record);
        let open = record.strip_suffix(b"}").unwrap_or(record);
        [open, KEY, self.last.as_bytes(), END].concat()
    }

    /// The record of the next line, and whether it had a digest; or why the line cannot be the next one.
    pub(super) fn open<'a>(&mut self, line: &'a [u8]) -> Result<(Cow<'a, [u8]>, bool), &'static str> {
        let Some((record, digest)) = split(line) else {
            if self.begun {
                return Err("it has no digest, and a line before it has");
            }
            self.last = self.next(line);
            return Ok((Cow::Borrowed(line), false));
        };
        let next = self.next(&record);
        if next.as_bytes() != digest {
            return Err(match self.begun {
                true => "it was changed, or lines before it are missing: its digest does not match",
                false => "it or a line before it was changed: its digest does not match",
            });
        }
        (self.last, self.begun) = (next, true);
        Ok((Cow::Owned(record), true))
    }

    fn next(&self, record: &[u8]) -> String {
        let mut hasher = Hasher::new();
        hasher.update(self.last.as_bytes());
        hasher.update(b"\n");
        hasher.update(record);
        let mut hex = hasher.finish().hex();
        hex.truncate(LENGTH);
        hex
    }
}

fn split(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let rest = line.strip_suffix(END)?;
    let (rest, digest) = rest.split_at_checked(rest.len().checked_sub(LENGTH)?)?;
    let open = rest.strip_suffix(KEY)?;
    let is_hex = digest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| ([open, b"}"].concat(), digest))
}
