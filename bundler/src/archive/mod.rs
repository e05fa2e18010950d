//! Foreign archives, read without trust: tar (plain, gz, xz, zst, bz2) and zip.
//!
//! [`walk`] hands out members in order and writes nothing. It refuses the whole archive for
//! one bad entry, taken or not: absolute or `..` paths, devices, links that lead out, the
//! same path twice, files below files or links, trailing garbage, bombs.

mod inflate;
mod tape;
mod zipped;

use crate::cache;
use eggo_terminal::{Explain, Size};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const MAX_MEMBERS: usize = 200_000;
const MAX_PATH: usize = 1024;
/// The most that an archive may unpack to, whatever its own size.
const MAX_UNPACKED: u64 = 16 << 30;
/// Below this an archive may unpack to any multiple of its size; above, to `MAX_RATIO` times.
const FREE_UNPACKED: u64 = 512 << 20;
const MAX_RATIO: u64 = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Tar,
    TarGz,
    TarXz,
    TarZst,
    TarBz2,
    Zip,
}

/// A member as it may be believed: its path is relative, normal and new.
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

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{}`", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("`{}` is not an archive (tar, tar.gz, tar.xz, tar.zst, tar.bz2, zip)", .0.display())]
    NotAnArchive(PathBuf),
    #[error("archive `{}` is refused: {reason}", .file.display())]
    Refused { file: PathBuf, reason: String },
    #[error(transparent)]
    Visitor(Box<dyn std::error::Error + Send + Sync>),
}

impl Explain for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Error::Refused { .. } => {
                Some("take the file from its author again, or report it to them".to_string())
            }
            // Members are mostly put into the cache.
            Error::Visitor(error) => error.downcast_ref::<cache::Error>().and_then(Explain::hint),
            _ => None,
        }
    }
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

/// Calls `visit` for every member, in order. What it does not read is skipped.
pub fn walk(path: &Path, visit: &mut Visit<'_>) -> Result<(), Error> {
    let unreadable = |source| Error::Read { file: path.into(), source };
    let head = head(path).map_err(unreadable)?;
    let format = sniff(&head).ok_or_else(|| Error::NotAnArchive(path.into()))?;
    let file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let budget = MAX_UNPACKED.min(FREE_UNPACKED.max(size.saturating_mul(MAX_RATIO)));
    let result = match format {
        Format::Zip => zipped::walk(file, budget, visit),
        other => inflate::open(file, other)
            .map_err(Fault::from)
            .and_then(|reader| tape::walk(reader, budget, visit)),
    };
    result.map_err(|fault| match fault {
        Fault::Refused(reason) => Error::Refused { file: path.into(), reason },
        Fault::Io(source) => Error::Refused { file: path.into(), reason: source.to_string() },
        Fault::Visitor(source) => Error::Visitor(source),
    })
}

/// Errors before the file's name is known.
enum Fault {
    Refused(String),
    Io(io::Error),
    Visitor(Box<dyn std::error::Error + Send + Sync>),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Io(error)
    }
}

fn refuse<T>(reason: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Refused(reason.into()))
}

/// What has been seen of an archive so far: the rules that span members.
struct Census {
    seen: std::collections::HashMap<String, Seen>,
    unpacked: u64,
    budget: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    File,
    Folder,
    Link,
}

impl Census {
    fn new(budget: u64) -> Self {
        Self { seen: std::collections::HashMap::new(), unpacked: 0, budget }
    }

    /// Accepts a member, or says why the archive is refused.
    fn admit(&mut self, raw: &str, mode: u32, kind: MemberKind) -> Result<Option<Member>, Fault> {
        let Some(path) = normal(raw)? else { return Ok(None) };
        if self.seen.len() >= MAX_MEMBERS {
            return refuse(format!("more than {MAX_MEMBERS} members"));
        }
        let mut parent = path.as_str();
        while let Some((above, _)) = parent.rsplit_once('/') {
            match self.seen.get(above) {
                Some(Seen::Folder) | None => {}
                Some(Seen::File) => return refuse(format!("`{path}` lies below the file `{above}`")),
                Some(Seen::Link) => return refuse(format!("`{path}` lies below the link `{above}`")),
            }
            parent = above;
        }
        let kind = match kind {
            MemberKind::File { size } => {
                self.unpacked = self.unpacked.saturating_add(size);
                if self.unpacked > self.budget {
                    return refuse(format!("it unpacks to more than {}", Size(self.budget)));
                }
                if mode & 0o7000 & !0o1000 != 0 {
                    return refuse(format!("`{path}` is setuid or setgid"));
                }
                MemberKind::File { size }
            }
            MemberKind::Folder => MemberKind::Folder,
            MemberKind::Symlink { target } => {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                self.check_link(&path, folder, &target)?;
                MemberKind::Symlink { target }
            }
            MemberKind::HardLink { target } => {
                let to = normal(&target)?.unwrap_or_default();
                if self.seen.get(&to) != Some(&Seen::File) {
                    return refuse(format!(
                        "`{path}` is a hard link to `{target}`, which is no file before it"
                    ));
                }
                MemberKind::HardLink { target: to }
            }
        };
        let seen = match kind {
            MemberKind::File { .. } | MemberKind::HardLink { .. } => Seen::File,
            MemberKind::Folder => Seen::Folder,
            MemberKind::Symlink { .. } => Seen::Link,
        };
        match self.seen.insert(path.clone(), seen) {
            Some(Seen::Folder) if seen == Seen::Folder => {}
            Some(_) => return refuse(format!("`{path}` is in it twice")),
            None => {}
        }
        // A folder that its members imply may not become something else later.
        let mut parent = path.as_str();
        while let Some((above, _)) = parent.rsplit_once('/') {
            self.seen.entry(above.to_string()).or_insert(Seen::Folder);
            parent = above;
        }
        Ok(Some(Member { path, mode: mode & 0o777, kind }))
    }

    /// A link may point anywhere inside, but not through another link: where that leads
    /// depends on the order of unpacking.
    fn check_link(&self, path: &str, folder: &str, target: &str) -> Result<(), Fault> {
        let out = || refuse(format!("the link `{path}` leads out, to `{target}`"));
        if target.is_empty() || target.starts_with('/') || target.contains('\0') {
            return out();
        }
        let mut at: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
        for part in target.split('/') {
            match part {
                "" | "." => {}
                ".." if at.pop().is_none() => return out(),
                ".." => {}
                part => {
                    at.push(part);
                }
            }
            if at.len() < 100 && self.seen.get(&at.join("/")) == Some(&Seen::Link) && !target.ends_with(part)
            {
                return refuse(format!("the link `{path}` leads through another link, to `{target}`"));
            }
        }
        Ok(())
    }
}

/// `./a//b/` as `a/b`; `None` for the root itself.
fn normal(raw: &str) -> Result<Option<String>, Fault> {
    if raw.len() > MAX_PATH {
        return refuse(format!("a path of {} bytes", raw.len()));
    }
    if raw.starts_with('/') {
        return refuse(format!("the path `{raw}` is absolute"));
    }
    if raw.chars().any(char::is_control) {
        return refuse(format!("the path `{}` has a control character", raw.escape_debug()));
    }
    let parts: Vec<&str> = raw.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return refuse(format!("the path `{raw}` contains `..`"));
    }
    Ok(Some(parts.join("/")).filter(|path| !path.is_empty()))
}

#[cfg(test)]
mod tests;
