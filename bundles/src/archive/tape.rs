//! Members of a tar.

use super::rules::too_large;
use super::{Fault, Limits, MAX_MEMBERS, MemberKind, Rules, Visit, only_zeros, refuse};
use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;
use tar::EntryType;

/// Headers, long names and pax records before one member: the tar crate reads them completely.
const MAX_BETWEEN: u64 = 1 << 20;
/// What headers and padding may add to the content of all members.
const MAX_AROUND: u64 = MAX_MEMBERS as u64 * 4096;
const BLOCK: u64 = 512;

/// Calls `visit` for every member, in order. What it does not read is skipped.
pub fn walk_tar(reader: impl Read, limits: Limits, visit: &mut Visit<'_>) -> Result<(), Fault> {
    let mut rules = Rules::new(limits);
    let left = Rc::new(Cell::new(MAX_BETWEEN));
    let total = limits.unpacked.saturating_add(MAX_AROUND);
    let mut archive = tar::Archive::new(Metered { reader, total, left: total, until_next: left.clone() });
    for entry in archive.entries()? {
        let mut entry = entry?;
        let raw = text(&entry.path_bytes(), "path")?;
        let link = entry.link_name_bytes().map(|bytes| text(&bytes, "link")).transpose()?;
        let mode = entry.header().mode()?;
        let size = entry.size();
        let kind = match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => MemberKind::File { size },
            EntryType::Directory => MemberKind::Folder,
            EntryType::Symlink => MemberKind::Symlink { target: link.unwrap_or_default() },
            EntryType::Link => MemberKind::HardLink { target: link.unwrap_or_default() },
            EntryType::XGlobalHeader => continue,
            EntryType::Char | EntryType::Block => return refuse(format!("`{raw}` is a device")),
            EntryType::Fifo => return refuse(format!("`{raw}` is a fifo")),
            other => return refuse(format!("`{raw}` is of the unknown kind `{}`", other.as_byte())),
        };
        if !matches!(kind, MemberKind::File { .. }) && size > 0 {
            return refuse(format!("`{raw}` is not a file and has content"));
        }
        if is_sparse(&mut entry)? {
            return refuse(format!("`{raw}` is sparse: other programs would read other content"));
        }
        let member = rules.admit(&raw, mode, kind)?;
        left.set(size.next_multiple_of(BLOCK).saturating_add(MAX_BETWEEN));
        if let Some(member) = member {
            visit(&member, &mut entry).map_err(Fault::Visitor)?;
        }
    }
    left.set(u64::MAX);
    // What follows the end must be padding, and the compression's own checksum is at its end.
    only_zeros(&mut archive.into_inner(), "content after the end of the archive")?;
    Ok(())
}

/// Reads a tar that a package manager will unpack, to its end, and calls `visit` with every path.
/// What its members are is left to that: devices and links to anywhere are part of an OS.
pub fn scan_tar(
    reader: impl Read,
    unpacked: u64,
    visit: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), Fault> {
    let left = Rc::new(Cell::new(MAX_BETWEEN));
    let total = unpacked.saturating_add(MAX_AROUND);
    let mut archive = tar::Archive::new(Metered { reader, total, left: total, until_next: left.clone() });
    for entry in archive.entries()? {
        let entry = entry?;
        visit(&entry.path_bytes()).map_err(Fault::Refused)?;
        left.set(entry.size().saturating_add(BLOCK + MAX_BETWEEN));
    }
    left.set(u64::MAX);
    // The compression's own checksum is at its end.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    Ok(())
}

/// GNU tar's way to leave out zeros, in pax records that the tar crate does not know.
fn is_sparse<R: Read>(entry: &mut tar::Entry<'_, R>) -> io::Result<bool> {
    let Some(records) = entry.pax_extensions()? else { return Ok(false) };
    for record in records {
        if record?.key_bytes().starts_with(b"GNU.sparse.") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Fails when the inner reader gives more than an archive of this size should hold.
struct Metered<R> {
    reader: R,
    total: u64,
    left: u64,
    /// What may come before the next member is reported.
    until_next: Rc<Cell<u64>>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buffer)?;
        let too_much = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let Some(left) = self.left.checked_sub(n as u64) else {
            return Err(too_much(too_large(self.total)));
        };
        let Some(until_next) = self.until_next.get().checked_sub(n as u64) else {
            let limit = MAX_BETWEEN >> 20;
            return Err(too_much(format!("more than {limit} MiB of headers before one member")));
        };
        self.left = left;
        self.until_next.set(until_next);
        Ok(n)
    }
}

fn text(bytes: &[u8], what: &str) -> Result<String, Fault> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_string()),
        Err(_) => {
            refuse(format!("the {what} `{}` is not UTF-8", String::from_utf8_lossy(bytes).escape_debug()))
        }
    }
}
