//! What of a fetched file, archive or local folder goes into the bundle.

use super::glob::Glob;
use super::{Error, Local};
use crate::archive::{self, Member, MemberKind};
use crate::cache::Cache;
use crate::lock::Content;
use crate::manifest::FileRequest;
use eggo_bundles::content::{Made, elf};
use eggo_bundles::rules::leads_out;
use eggo_bundles::{Arch, Digest, Kind};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const MAX_FILE: u64 = 16 << 30;
/// How many members an error lists.
const MAX_LISTED: usize = 12;

pub(super) struct Taken {
    pub content: Vec<Content>,
    pub local: Local,
    /// Of a local file; a download's is known already, a folder has none.
    pub source_digest: Option<(Digest, u64)>,
}

pub(super) fn take(
    request: &FileRequest,
    arch: Arch,
    source: &Path,
    is_local: bool,
    member: Option<&str>,
    cache: &Cache,
) -> Result<Taken, Error> {
    let metadata = std::fs::metadata(source).map_err(|error| unreadable(source, error))?;
    let is_folder = metadata.is_dir();
    if !is_folder && !metadata.is_file() {
        return Err(Error::Special(source.into()));
    }
    let mut taken = match (request.kind, is_folder, member) {
        (Kind::Dir, true, _) => folder(request, arch, source)?,
        (Kind::Dir, false, _) => unpacked(request, arch, source, member, cache)?,
        (_, true, _) => return Err(Error::IsFolder(source.into())),
        (_, false, Some(pattern)) => one_member(request, arch, source, pattern, cache)?,
        (_, false, None) => whole(request, arch, source, is_local)?,
    };
    if taken.content.is_empty() {
        return Err(Error::Empty);
    }
    if is_local && !is_folder && taken.source_digest.is_none() {
        taken.source_digest = Some(digest_of(source)?);
    }
    taken.content.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(taken)
}

/// The file itself.
fn whole(request: &FileRequest, arch: Arch, source: &Path, is_local: bool) -> Result<Taken, Error> {
    check_program(request, arch, source, &request.name)?;
    let (sha256, size) = digest_of(source)?;
    let mode = request.mode.unwrap_or(if request.kind == Kind::Bin { 0o755 } else { 0o644 });
    let content = vec![Content { path: request.name.clone(), sha256, size, mode, link: None }];
    let local = if is_local { Local::from([(sha256, source.into())]) } else { Local::new() };
    Ok(Taken { content, local, source_digest: Some((sha256, size)) })
}

/// The one member that matches.
fn one_member(
    request: &FileRequest,
    arch: Arch,
    source: &Path,
    pattern: &str,
    cache: &Cache,
) -> Result<Taken, Error> {
    let glob = Glob::new(pattern);
    let mut found: Vec<(String, Digest, u64)> = Vec::new();
    let mut others = Vec::new();
    walk(source, &mut |member, reader| {
        if matches!(member.kind, MemberKind::Folder) {
            return Ok(());
        }
        if !glob.matches(&member.path) {
            if others.len() < MAX_LISTED {
                others.push(member.path.clone());
            }
            return Ok(());
        }
        match &member.kind {
            MemberKind::Symlink { target } | MemberKind::HardLink { target } => {
                let (member, target) = (member.path.clone(), target.clone());
                Err(Error::MemberIsLink { member, target })
            }
            _ => {
                let (sha256, size) = cache.store(reader, MAX_FILE)?;
                found.push((member.path.clone(), sha256, size));
                Ok(())
            }
        }
    })?;
    let pattern = pattern.to_string();
    match found.as_slice() {
        [] => Err(Error::NoMember { pattern, members: others }),
        [(name, sha256, size)] => {
            check_program(request, arch, &cache.path(sha256), name)?;
            let mode = request.mode.unwrap_or(if request.kind == Kind::Bin { 0o755 } else { 0o644 });
            let path = request.name.clone();
            let content = vec![Content { path, sha256: *sha256, size: *size, mode, link: None }];
            Ok(Taken { content, local: Local::new(), source_digest: None })
        }
        many => {
            let members = many.iter().take(MAX_LISTED).map(|(name, ..)| name.clone()).collect();
            Err(Error::ManyMembers { pattern, members })
        }
    }
}

/// All members, or those below the folder or matching the pattern that `member` names.
fn unpacked(
    request: &FileRequest,
    arch: Arch,
    source: &Path,
    member: Option<&str>,
    cache: &Cache,
) -> Result<Taken, Error> {
    let below = member.map(Below::new);
    let mut files: HashMap<String, (Digest, u64, u32)> = HashMap::new();
    let mut content = Vec::new();
    let mut others = Vec::new();
    walk(source, &mut |member, reader| {
        let inside = match &below {
            None => Some(member.path.as_str()),
            Some(below) => below.inside(&member.path),
        };
        let Some(inside) = inside.filter(|_| !matches!(member.kind, MemberKind::Folder)) else {
            if others.len() < MAX_LISTED {
                others.push(member.path.clone());
            }
            return Ok(());
        };
        let path = format!("{}/{inside}", request.name);
        let (sha256, size, mode, link) = match &member.kind {
            MemberKind::Symlink { target } => (Digest::of(b""), 0, 0o777, Some(target.clone())),
            MemberKind::HardLink { target } => {
                let original = files.get(target);
                let (sha256, size, mode) = *original.ok_or_else(|| Error::MemberIsLink {
                    member: member.path.clone(),
                    target: target.clone(),
                })?;
                (sha256, size, mode, None)
            }
            _ => {
                let (sha256, size) = cache.store(reader, MAX_FILE)?;
                check_program(request, arch, &cache.path(&sha256), &member.path)?;
                let mode = request.mode.unwrap_or(if member.mode & 0o111 != 0 { 0o755 } else { 0o644 });
                files.insert(member.path.clone(), (sha256, size, mode));
                (sha256, size, mode, None)
            }
        };
        content.push(Content { path, sha256, size, mode, link });
        Ok(())
    })?;
    if let (true, Some(member)) = (content.is_empty(), member) {
        return Err(Error::NoMember { pattern: member.to_string(), members: others });
    }
    Ok(Taken { content, local: Local::new(), source_digest: None })
}

/// Which members of an archive a folder consists of.
enum Below {
    /// Those below this folder.
    Folder(String),
    /// Those that match, by their last name.
    Pattern(Glob),
}

impl Below {
    fn new(member: &str) -> Self {
        match member.contains(['*', '?']) {
            true => Below::Pattern(Glob::new(member)),
            false => Below::Folder(format!("{}/", member.trim_start_matches("./").trim_end_matches('/'))),
        }
    }

    fn inside<'a>(&self, path: &'a str) -> Option<&'a str> {
        match self {
            Below::Folder(folder) => path.strip_prefix(folder.as_str()),
            Below::Pattern(glob) if glob.matches(path) => path.rsplit('/').next(),
            Below::Pattern(_) => None,
        }
    }
}

/// A local folder, with everything in it.
fn folder(request: &FileRequest, arch: Arch, root: &Path) -> Result<Taken, Error> {
    let mut taken = Taken { content: Vec::new(), local: Local::new(), source_digest: None };
    let mut waiting = vec![root.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|error| unreadable(&folder, error))? {
            let path = entry.map_err(|error| unreadable(&folder, error))?.path();
            let metadata = std::fs::symlink_metadata(&path).map_err(|error| unreadable(&path, error))?;
            if metadata.is_dir() {
                waiting.push(path);
                continue;
            }
            let inside = path.strip_prefix(root).ok().and_then(Path::to_str);
            let inside = inside.ok_or_else(|| Error::BadName(path.clone()))?.to_string();
            let name = format!("{}/{inside}", request.name);
            if metadata.is_symlink() {
                let link = link_inside(&path, &inside)?;
                let sha256 = Digest::of(b"");
                taken.content.push(Content { path: name, sha256, size: 0, mode: 0o777, link: Some(link) });
            } else if metadata.is_file() {
                check_program(request, arch, &path, &inside)?;
                let (sha256, size) = digest_of(&path)?;
                let executable = metadata.permissions().mode() & 0o111 != 0;
                let mode = request.mode.unwrap_or(if executable { 0o755 } else { 0o644 });
                taken.content.push(Content { path: name, sha256, size, mode, link: None });
                taken.local.insert(sha256, path);
            } else {
                return Err(Error::Special(path));
            }
        }
    }
    Ok(taken)
}

fn link_inside(path: &Path, inside: &str) -> Result<String, Error> {
    let target = std::fs::read_link(path).map_err(|error| unreadable(path, error))?;
    let target = target.to_str().ok_or_else(|| Error::BadName(path.into()))?.to_string();
    match leads_out(inside, &target) {
        true => Err(Error::LinkOut { path: path.into(), target }),
        false => Ok(target),
    }
}

/// An ELF program must be one for `arch`, as readers of bundles judge it; scripts and data are for any.
fn check_program(request: &FileRequest, arch: Arch, file: &Path, name: &str) -> Result<(), Error> {
    let head = archive::head(file).map_err(|error| unreadable(file, error))?;
    match elf::parse(&head).map(|elf| elf.made_for(request.kind)) {
        Some(Made::For(found)) if found != arch.as_str() => {
            Err(Error::WrongArch { file: name.to_string(), found, arch })
        }
        None if request.kind == Kind::Bin && archive::sniff(&head).is_some() => {
            Err(Error::ArchiveAsBinary { file: name.to_string() })
        }
        _ => Ok(()),
    }
}

/// [`archive::walk`] with errors of this room.
fn walk(
    source: &Path,
    visit: &mut dyn FnMut(&Member, &mut dyn std::io::Read) -> Result<(), Error>,
) -> Result<(), Error> {
    let result = archive::walk(source, &mut |member, reader| Ok(visit(member, reader)?));
    result.map_err(|error| match error {
        archive::Error::Visitor(inner) => match inner.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => archive::Error::Visitor(other).into(),
        },
        other => other.into(),
    })
}

fn digest_of(path: &Path) -> Result<(Digest, u64), Error> {
    let mut file = File::open(path).map_err(|error| unreadable(path, error))?;
    Digest::of_reader(&mut file).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    Error::Read { path: path.into(), source }
}
