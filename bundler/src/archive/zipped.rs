//! Members of a zip.

use super::{Census, Fault, MAX_MEMBERS, MAX_PATH, MemberKind, Visit, refuse};
use std::fs::File;
use std::io::{BufReader, Read};

const FILE_TYPE: u32 = 0o170_000;
const SYMLINK: u32 = 0o120_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;

pub fn walk(file: File, budget: u64, visit: &mut Visit<'_>) -> Result<(), Fault> {
    let mut archive =
        zip::ZipArchive::new(BufReader::new(file)).or_else(|error| refuse(error.to_string()))?;
    if archive.has_duplicate_names() {
        return refuse("a path is in it twice");
    }
    if archive.len() > MAX_MEMBERS {
        return refuse(format!("more than {MAX_MEMBERS} members"));
    }
    let mut census = Census::new(budget);
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
        if let Some(member) = census.admit(&raw, mode, kind)? {
            visit(&member, &mut entry.take(size)).map_err(Fault::Visitor)?;
        }
    }
    Ok(())
}
