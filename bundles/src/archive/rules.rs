//! The rules that span members, and how much of everything there may be.

use super::{Fault, Member, MemberKind, refuse};
use crate::rules::leads_out;
use std::collections::HashMap;

pub const MAX_MEMBERS: usize = 200_000;
pub const MAX_PATH: usize = 1024;
/// Paths and links of all members together: they are held in memory.
const MAX_NAMES: usize = 32 << 20;
/// The most that an archive may unpack to, whatever its own size.
const MAX_UNPACKED: u64 = 16 << 30;
/// Below this an archive may unpack to any multiple of its size; above, to `MAX_RATIO` times.
const FREE_UNPACKED: u64 = 512 << 20;
const MAX_RATIO: u64 = 200;

/// What an archive may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that the files in it have together.
    pub unpacked: u64,
    /// Whether files may be setuid or setgid; a member's mode comes without these bits.
    pub setuid: bool,
}

impl Limits {
    /// For an archive of this many bytes.
    pub fn of_size(packed: u64) -> Self {
        let unpacked = MAX_UNPACKED.min(FREE_UNPACKED.max(packed.saturating_mul(MAX_RATIO)));
        Self { unpacked, setuid: false }
    }
}

/// What has been seen of an archive so far.
pub struct Rules {
    seen: HashMap<String, Seen>,
    limits: Limits,
    unpacked: u64,
    names: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    File,
    Folder,
    Link,
}

impl Rules {
    pub fn new(limits: Limits) -> Self {
        Self { seen: HashMap::new(), limits, unpacked: 0, names: 0 }
    }

    /// Accepts a member, or says why the archive is refused; `None` is the root itself.
    pub fn admit(&mut self, raw: &str, mode: u32, kind: MemberKind) -> Result<Option<Member>, Fault> {
        let path = match (normal(raw)?, &kind) {
            (Some(path), _) => path,
            (None, MemberKind::Folder) => return Ok(None),
            (None, _) => return refuse(format!("`{raw}` is the root, and not a folder")),
        };
        if self.seen.len() >= MAX_MEMBERS {
            return refuse(format!("more than {MAX_MEMBERS} members"));
        }
        for above in parents(&path) {
            match self.seen.get(above) {
                Some(Seen::Folder) | None => {}
                Some(Seen::File) => return refuse(format!("`{path}` is below the file `{above}`")),
                Some(Seen::Link) => return refuse(format!("`{path}` is below the link `{above}`")),
            }
        }
        let (seen, kind) = match kind {
            MemberKind::File { size } => {
                self.unpacked = self.unpacked.saturating_add(size);
                if self.unpacked > self.limits.unpacked {
                    return refuse(too_large(self.limits.unpacked));
                }
                if mode & 0o6000 != 0 && !self.limits.setuid {
                    return refuse(format!("`{path}` is setuid or setgid"));
                }
                (Seen::File, kind)
            }
            MemberKind::Folder => (Seen::Folder, kind),
            MemberKind::Symlink { ref target } => {
                stays_inside(&path, target)?;
                self.count_name(target)?;
                (Seen::Link, kind)
            }
            MemberKind::HardLink { target } => {
                let to = normal(&target)?.unwrap_or_default();
                if self.seen.get(&to) != Some(&Seen::File) {
                    return refuse(format!(
                        "`{path}` is a hard link to `{to}`, which is not a file before it"
                    ));
                }
                self.count_name(&to)?;
                (Seen::File, MemberKind::HardLink { target: to })
            }
        };
        match self.seen.get(&path) {
            Some(Seen::Folder) if seen == Seen::Folder => {}
            Some(_) => return refuse(format!("`{path}` is in it twice")),
            None => self.remember(&path, seen)?,
        }
        // A folder that its members imply may not become something else later.
        for above in parents(&path) {
            if self.seen.contains_key(above) {
                break;
            }
            self.remember(above, Seen::Folder)?;
        }
        Ok(Some(Member { path, mode: mode & 0o777, kind }))
    }

    fn remember(&mut self, path: &str, seen: Seen) -> Result<(), Fault> {
        self.count_name(path)?;
        self.seen.insert(path.to_string(), seen);
        Ok(())
    }

    fn count_name(&mut self, name: &str) -> Result<(), Fault> {
        self.names += name.len();
        match self.names > MAX_NAMES {
            true => refuse(format!("the paths in it are longer than {} MiB together", MAX_NAMES >> 20)),
            false => Ok(()),
        }
    }
}

pub(super) fn too_large(limit: u64) -> String {
    format!("it unpacks to more than {} MiB", limit >> 20)
}

/// The folders above a normal path, the nearest first.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(path.rsplit_once('/').map(|(above, _)| above), |path| {
        path.rsplit_once('/').map(|(above, _)| above)
    })
}

fn stays_inside(path: &str, target: &str) -> Result<(), Fault> {
    if target.len() > MAX_PATH || target.chars().any(char::is_control) {
        return refuse(format!("the target of the link `{path}` is not a plain path"));
    }
    if leads_out(path, target) {
        return refuse(format!("the link `{path}` leads out, to `{target}`"));
    }
    Ok(())
}

/// `./a//b/` as `a/b`; `None` for the root itself.
fn normal(raw: &str) -> Result<Option<String>, Fault> {
    if raw.len() > MAX_PATH {
        return refuse(format!("a path of {} bytes", raw.len()));
    }
    if raw.chars().any(char::is_control) {
        return refuse(format!("the path `{}` has a control character", raw.escape_debug()));
    }
    if raw.starts_with('/') {
        return refuse(format!("the path `{raw}` is absolute"));
    }
    let parts: Vec<&str> = raw.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return refuse(format!("the path `{raw}` contains `..`"));
    }
    Ok(Some(parts.join("/")).filter(|path| !path.is_empty()))
}
