//! The small entries at the front, read before anything is trusted: by their framing alone.

use crate::entries::{BLOCK, Entry, MEMBER};
use crate::error::{Error, Refusal};
use crate::gzip::BadMember;
use crate::rules::printable;
use crate::tape;
use std::path::Path;

/// Decoded members, one after the other.
pub(super) trait Members {
    fn path(&self) -> &Path;
    /// The content of the next one; `entry` is what it belongs to, for errors.
    fn next(&mut self, entry: &str) -> Result<&[u8], Error>;
}

/// Reads the entry `name`, which must be the next one and at most `limit` long.
pub(super) fn read(members: &mut dyn Members, name: &str, limit: u64) -> Result<Vec<u8>, Error> {
    let path = members.path().to_path_buf();
    let refused = |why| Error::Refused { path: path.clone(), why };
    let mut bytes = members.next(name)?.to_vec();
    let found = tape::find(&bytes).ok_or_else(|| refused(Refusal::Header(name.to_string())))?;
    if found.path != name || found.kind != tape::FILE {
        return Err(refused(Refusal::Unlisted(printable(&found.path))));
    }
    if found.size > limit {
        return Err(refused(Refusal::Size { path: name.to_string(), found: found.size, expected: limit }));
    }
    let differs = || refused(Refusal::Differs(name.to_string()));
    let header = tape::header(&Entry::root(name, found.size));
    if !bytes.starts_with(&header) {
        return Err(differs());
    }
    let stream = header.len() as u64 + found.size.next_multiple_of(BLOCK);
    for _ in 1..stream.div_ceil(MEMBER) {
        // Members of one entry are full, all but the last.
        if !(bytes.len() as u64).is_multiple_of(MEMBER) {
            return Err(differs());
        }
        bytes.extend(members.next(name)?);
    }
    if bytes.len() as u64 != stream {
        return Err(differs());
    }
    let end = header.len() + found.size as usize;
    if bytes[end..].iter().any(|&byte| byte != 0) {
        return Err(refused(Refusal::Padding(name.to_string())));
    }
    bytes.truncate(end);
    Ok(bytes.split_off(header.len()))
}

/// What does not begin like a bundle is no bundle, rather than a damaged one.
pub(super) fn not_a_bundle(error: Error) -> Error {
    match error {
        Error::Refused {
            path,
            why: Refusal::Unlisted(_) | Refusal::Header(_) | Refusal::Member { why: BadMember::Header, .. },
        } => Error::NotABundle { path },
        other => other,
    }
}
