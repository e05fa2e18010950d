//! Members of a tar.

use super::{Census, Fault, MAX_MEMBERS, MemberKind, Visit, inflate, refuse};
use eggo_terminal::Size;
use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;
use tar::EntryType;

/// Headers, long names and pax records before one member: the tar crate reads them whole.
const MAX_BETWEEN: u64 = 1 << 20;
/// What headers and padding may add to the content of all members.
const MAX_AROUND: u64 = MAX_MEMBERS as u64 * 4096;
const BLOCK: u64 = 512;

pub fn walk(reader: Box<dyn Read>, budget: u64, visit: &mut Visit<'_>) -> Result<(), Fault> {
    let mut census = Census::new(budget);
    let left = Rc::new(Cell::new(MAX_BETWEEN));
    let total = budget.saturating_add(MAX_AROUND);
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
            return refuse(format!("`{raw}` is no file and has content"));
        }
        let member = census.admit(&raw, mode, kind)?;
        left.set(size.next_multiple_of(BLOCK) + MAX_BETWEEN);
        if let Some(member) = member {
            visit(&member, &mut entry).map_err(Fault::Visitor)?;
        }
    }
    left.set(u64::MAX);
    // What follows the end must be padding, and the compression's own checksum is at its end.
    inflate::only_zeros(&mut archive.into_inner(), "content after the end of the archive")?;
    Ok(())
}

/// Fails when the inner reader gives more than an archive of this size should hold.
struct Metered {
    reader: Box<dyn Read>,
    total: u64,
    left: u64,
    /// What may come before the next member is told of.
    until_next: Rc<Cell<u64>>,
}

impl Read for Metered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buffer)?;
        let too_much = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let Some(left) = self.left.checked_sub(n as u64) else {
            return Err(too_much(format!("it unpacks to more than {}", Size(self.total))));
        };
        let Some(until_next) = self.until_next.get().checked_sub(n as u64) else {
            return Err(too_much(format!("more than {} of headers before one member", Size(MAX_BETWEEN))));
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
