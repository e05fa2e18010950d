//! Members of a tar.

use super::{Census, Fault, MemberKind, Visit, inflate, refuse};
use std::io::Read;
use tar::EntryType;

pub fn walk(reader: Box<dyn Read>, budget: u64, visit: &mut Visit<'_>) -> Result<(), Fault> {
    let mut census = Census::new(budget);
    let mut archive = tar::Archive::new(reader);
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
        if let Some(member) = census.admit(&raw, mode, kind)? {
            visit(&member, &mut entry).map_err(Fault::Visitor)?;
        }
    }
    // What follows the end must be padding, and the compression's own checksum is at its end.
    inflate::only_zeros(&mut archive.into_inner(), "content after the end of the archive")?;
    Ok(())
}

fn text(bytes: &[u8], what: &str) -> Result<String, Fault> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_string()),
        Err(_) => {
            refuse(format!("the {what} `{}` is not UTF-8", String::from_utf8_lossy(bytes).escape_debug()))
        }
    }
}
