//! Foreign archives, read without trust: what a member may be, how much of them there may be,
//! and members of a tar in any of three compressions.
//!
//! [`walk_tar`] hands out members in order and writes nothing. It refuses the archive for one
//! bad entry, taken or not: absolute or `..` paths, devices, links that lead out, the same path
//! twice, files below files or links, trailing garbage, bombs. What it holds in memory does not
//! depend on what the archive claims.

mod inflate;
mod rules;
mod tape;

pub use inflate::{inflate, only_zeros};
pub use rules::{Limits, MAX_MEMBERS, MAX_PATH, Rules};
pub use tape::{scan_tar, walk_tar};

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Tar,
    TarGz,
    TarXz,
    TarZst,
    TarBz2,
    Zip,
}

/// A member as it may be trusted: its path is relative, normal and new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub path: String,
    /// Permissions, without setuid and the like.
    pub mode: u32,
    pub kind: MemberKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberKind {
    File {
        size: u64,
    },
    Folder,
    /// Leads to somewhere inside of the archive.
    Symlink {
        target: String,
    },
    /// Another name of a file that came before.
    HardLink {
        target: String,
    },
}

/// Why reading ended. Errors from before the file's name is known.
#[derive(Debug)]
pub enum Fault {
    Refused(String),
    Io(io::Error),
    Visitor(Box<dyn std::error::Error + Send + Sync>),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Io(error)
    }
}

pub fn refuse<T>(reason: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Refused(reason.into()))
}

/// What the visitor of an archive may fail with.
pub type Visit<'a> =
    dyn FnMut(&Member, &mut dyn Read) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'a;

/// What the first bytes of a file say. 512 of them suffice.
pub fn sniff(head: &[u8]) -> Option<Format> {
    let starts: [(&[u8], Format); 5] = [
        (b"\x1f\x8b\x08", Format::TarGz),
        (b"\xfd7zXZ\0", Format::TarXz),
        (b"\x28\xb5\x2f\xfd", Format::TarZst),
        (b"BZh", Format::TarBz2),
        (b"PK\x03\x04", Format::Zip),
    ];
    let by_start = starts.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, format)| *format);
    by_start.or_else(|| head.get(257..262).is_some_and(|magic| magic == b"ustar").then_some(Format::Tar))
}

/// The first bytes of a file, for [`sniff`] and its like.
pub fn head(file: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(file)?.take(512).read_to_end(&mut head)?;
    Ok(head)
}

#[cfg(test)]
mod tests;
