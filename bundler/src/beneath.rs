//! Files below a folder, and nothing else: a manifest, and a folder that it names, may come from
//! somebody else, and must not make a build pack this machine's own files.
//!
//! A link is followed as long as it stays below the folder. The kernel's `RESOLVE_BENEATH` would
//! do the same and not say which link is to blame, so this walks by itself: part by part, from
//! one open folder to the next, and never follows a link that it has not read.

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// As the kernel does.
const MOST_LINKS: usize = 40;

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("the link `{}` leads out of `{}`, to `{}`", .link.display(), shown(.folder), .target.display())]
    LeadsOut { link: PathBuf, folder: PathBuf, target: PathBuf },
    #[error("`{}` leads out of `{}`", .path.display(), shown(.folder))]
    PathLeadsOut { path: PathBuf, folder: PathBuf },
    #[error("`{}` is not a file", .0.display())]
    NotAFile(PathBuf),
    #[error(transparent)]
    Io(io::Error),
}

impl Problem {
    pub fn hint(&self) -> Option<String> {
        matches!(self, Problem::LeadsOut { .. }).then(|| {
            "put the file itself in place of the link; if it is meant to come from there, name that path in the manifest"
                .to_string()
        })
    }

    /// The hint of one inside of an I/O error.
    pub fn hint_in(error: &io::Error) -> Option<String> {
        error.get_ref()?.downcast_ref::<Problem>()?.hint()
    }
}

impl From<Problem> for io::Error {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Io(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        }
    }
}

fn shown(folder: &Path) -> std::path::Display<'_> {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }.display()
}

/// An open folder that nothing leads out of.
#[derive(Debug)]
pub struct Beneath {
    path: PathBuf,
    folder: OwnedFd,
}

/// Where a walk ended.
struct Found {
    kind: FileType,
    /// The folder above it, and its name there; `None` for the folder itself.
    name: Option<(OwnedFd, OsString)>,
    /// Without links, relative to the folder.
    path: PathBuf,
    links: usize,
}

impl Beneath {
    pub fn open(path: &Path) -> io::Result<Self> {
        let at = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { path: path.to_path_buf(), folder: openat(CWD, at, flags, Mode::empty())? })
    }

    /// A regular file, open for reading.
    pub fn file(&self, inside: &Path) -> Result<File, Problem> {
        let found = self.walk(inside)?;
        let not_a_file = || Problem::NotAFile(self.path.join(inside));
        let (FileType::RegularFile, Some((folder, name))) = (found.kind, found.name) else {
            return Err(not_a_file());
        };
        // Should it have been replaced in between: neither a link is followed nor a pipe waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&folder, name.as_os_str(), flags, Mode::empty()).map_err(io_problem)?;
        match fstat(&file).map(|stat| FileType::from_raw_mode(stat.st_mode)).map_err(io_problem)? {
            FileType::RegularFile => Ok(File::from(file)),
            _ => Err(not_a_file()),
        }
    }

    fn walk(&self, inside: &Path) -> Result<Found, Problem> {
        let mut above: Vec<(OwnedFd, OsString)> = Vec::new();
        let mut here = rustix::io::fcntl_dupfd_cloexec(&self.folder, 0).map_err(io_problem)?;
        let mut kind = FileType::Directory;
        let mut links = 0;
        // The link that the parts to walk came from.
        let mut blame: Option<(PathBuf, PathBuf)> = None;
        let mut parts: VecDeque<OsString> = split(inside.as_os_str());
        let leads_out = |blame: &Option<(PathBuf, PathBuf)>| match blame.clone() {
            Some((link, target)) => Problem::LeadsOut { link, folder: self.path.clone(), target },
            None => Problem::PathLeadsOut { path: inside.to_path_buf(), folder: self.path.clone() },
        };
        if inside.is_absolute() {
            return Err(leads_out(&None));
        }
        while let Some(part) = parts.pop_front() {
            if kind != FileType::Directory {
                return Err(Problem::Io(Errno::NOTDIR.into()));
            }
            if part == ".." {
                here = above.pop().ok_or_else(|| leads_out(&blame))?.0;
                continue;
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let next = openat(&here, part.as_os_str(), flags, Mode::empty()).map_err(io_problem)?;
            let stat = fstat(&next).map_err(io_problem)?;
            kind = FileType::from_raw_mode(stat.st_mode);
            if kind != FileType::Symlink {
                above.push((std::mem::replace(&mut here, next), part));
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(Problem::Io(Errno::LOOP.into()));
            }
            let target = readlinkat(&next, "", Vec::new()).map_err(io_problem)?.into_bytes();
            let target = PathBuf::from(OsString::from_vec(target));
            let link = self.path.join(joined(&above)).join(&part);
            blame = Some((link, target.clone()));
            if target.is_absolute() {
                return Err(leads_out(&blame));
            }
            kind = FileType::Directory;
            for part in split(target.as_os_str()).into_iter().rev() {
                parts.push_front(part);
            }
        }
        let path = joined(&above);
        Ok(Found { kind, name: above.pop(), path, links })
    }
}

fn io_problem(errno: Errno) -> Problem {
    Problem::Io(errno.into())
}

fn split(path: &OsStr) -> VecDeque<OsString> {
    let parts = path.as_bytes().split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    parts.map(|part| OsStr::from_bytes(part).to_os_string()).collect()
}

fn joined(above: &[(OwnedFd, OsString)]) -> PathBuf {
    above.iter().map(|(_, name)| name).collect()
}

/// A path as a manifest names it, relative to `base`: what it leads to, by a path without links.
///
/// What its author wrote may be anywhere: absolute, or beginning with `..`. But a link on the way
/// must stay below the folder that the path starts from, since its author cannot see where it leads.
/// What is not there is left to whoever opens it.
pub fn resolve(base: &Path, written: &Path) -> Result<PathBuf, Problem> {
    let whole = base.join(written);
    if written.is_absolute() {
        return Ok(whole);
    }
    let is_above = |part: &Component<'_>| matches!(part, Component::ParentDir | Component::CurDir);
    let start: PathBuf = written.components().take_while(is_above).collect();
    let rest: PathBuf = written.components().skip_while(is_above).collect();
    let start = base.join(start);
    match Beneath::open(&start).map_err(Problem::Io).and_then(|folder| folder.walk(&rest)) {
        Ok(found) if found.links > 0 => Ok(start.join(found.path)),
        Ok(_) | Err(Problem::Io(_)) => Ok(whole),
        Err(problem) => Err(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("folder");
        std::fs::create_dir_all(folder.join("a/b")).unwrap();
        std::fs::write(root.path().join("secret"), "secret").unwrap();
        std::fs::write(folder.join("a/b/file"), "file").unwrap();
        for (link, target) in [
            ("up", "../secret"),
            ("a/up", "../../secret"),
            ("absolute", "/etc/passwd"),
            ("a/inside", "./b/../b/file"),
            ("a/whole", "../a/b"),
            ("a/around", "whole/../../../folder/a/b/file"),
            ("loop", "loop"),
        ] {
            symlink(target, folder.join(link)).unwrap();
        }
        (root, folder)
    }

    #[test]
    fn links_are_followed_as_long_as_they_stay_inside() {
        let (_root, folder) = folder();
        let beneath = Beneath::open(&folder).unwrap();
        for inside in ["a/b/file", "./a//b/file", "a/inside", "a/whole/file", "a/b/../b/file"] {
            let mut text = String::new();
            beneath.file(Path::new(inside)).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "file", "{inside}");
        }
        for inside in
            ["up", "a/up", "absolute", "a/around", "a/whole/../../../secret", "../secret", "/etc/passwd"]
        {
            let problem = beneath.file(Path::new(inside)).unwrap_err();
            assert!(problem.to_string().contains("leads out of"), "{inside}: {problem}");
        }
        let problem = beneath.file(Path::new("a/up")).unwrap_err().to_string();
        let expected = format!("the link `{0}/a/up` leads out of `{0}`, to `../../secret`", folder.display());
        assert_eq!(problem, expected);
        assert!(matches!(beneath.file(Path::new("loop")), Err(Problem::Io(_))));
        assert!(matches!(beneath.file(Path::new("a/b/file/x")), Err(Problem::Io(_))));
        assert!(matches!(beneath.file(Path::new("a")), Err(Problem::NotAFile(_))));
        assert!(matches!(beneath.file(Path::new("")), Err(Problem::NotAFile(_))));
        rustix::fs::mkfifoat(CWD, folder.join("fifo"), Mode::RUSR).unwrap();
        assert!(matches!(beneath.file(Path::new("fifo")), Err(Problem::NotAFile(_))));
    }

    #[test]
    fn what_was_written_may_be_anywhere_and_what_a_link_says_may_not() {
        let (root, folder) = folder();
        let of = |written: &str| resolve(&folder, Path::new(written)).map_err(|problem| problem.to_string());
        assert_eq!(of("a/b/file"), Ok(folder.join("a/b/file")));
        assert_eq!(of("a/inside"), Ok(folder.join("a/b/file")));
        assert_eq!(of("a/whole"), Ok(folder.join("a/b")));
        assert_eq!(of("missing/x"), Ok(folder.join("missing/x")));
        assert_eq!(of("/etc/passwd"), Ok(PathBuf::from("/etc/passwd")));
        assert_eq!(of("../secret"), Ok(folder.join("../secret")));
        // Seen from above, the same link stays inside.
        assert_eq!(of("../folder/up"), Ok(folder.join("../secret")));
        assert!(of("up").unwrap_err().contains("to `../secret`"));
        assert!(of("absolute").unwrap_err().contains("to `/etc/passwd`"));
        assert!(of("a/../../secret").is_err());
        symlink(root.path(), folder.join("out")).unwrap();
        assert!(of("out/secret").is_err());
    }
}
