//! Members of a zip.

use super::{MemberKind, Visit};
use eggo_bundles::archive::{Fault, Limits, MAX_MEMBERS, MAX_PATH, Rules, refuse};
use std::fs::File;
use std::io::{self, BufReader, Read};

const FILE_TYPE: u32 = 0o170_000;
const SYMLINK: u32 = 0o120_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;

pub(super) fn walk(file: File, limits: Limits, visit: &mut Visit<'_>) -> Result<(), Fault> {
    let mut archive =
        zip::ZipArchive::new(BufReader::new(file)).or_else(|error| refuse(error.to_string()))?;
    if archive.has_duplicate_names() {
        return refuse("a path is in it twice");
    }
    if archive.len() > MAX_MEMBERS {
        return refuse(format!("more than {MAX_MEMBERS} members"));
    }
    let mut rules = Rules::new(limits);
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).or_else(|error| refuse(error.to_string()))?;
        let raw = entry.name().or_else(|error| refuse(error.to_string()))?.into_owned();
        if raw.contains('\\') {
            return refuse(format!("the path `{raw}` has a backslash"));
        }
        let unix = entry.unix_mode();
        let mode = unix.unwrap_or(0o644);
        let size = entry.size();
        let kind = match mode & FILE_TYPE {
            _ if entry.is_dir() => MemberKind::Folder,
            SYMLINK => {
                let mut target = String::new();
                (&mut entry).take(MAX_PATH as u64).read_to_string(&mut target)?;
                MemberKind::Symlink { target }
            }
            FOLDER => MemberKind::Folder,
            0 | REGULAR => MemberKind::File { size },
            _ => return refuse(format!("`{raw}` is neither file, folder nor link")),
        };
        if let Some(member) = rules.admit(&raw, mode, kind)? {
            visit(&member, &mut Declared { content: entry, left: size }).map_err(Fault::Visitor)?;
        }
    }
    Ok(())
}

/// As many bytes as a member declares. The read behind the last of them is passed on too: that is
/// where its checksum is compared.
struct Declared<R> {
    content: R,
    left: u64,
}

impl<R: Read> Read for Declared<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wrong = |reason| Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            return match self.content.read(&mut [0])? {
                0 => Ok(0),
                _ => wrong("a member is longer than it declares"),
            };
        }
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.content.read(&mut buffer[..most])?;
        if read == 0 {
            return wrong("a member is shorter than it declares");
        }
        self.left -= read as u64;
        Ok(read)
    }
}
