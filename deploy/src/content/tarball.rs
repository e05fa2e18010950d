//! The tarballs of old eggo: one .tar.gz per arch, unsigned, `pkg/ bin/ file/ dir/ image/` or, in
//! the first generation, flat with `addons/` and `images.tar`.
//!
//! A tarball is read once from end to end: strictly, so that no two programs see different things
//! in it. Its files are kept by their digest in a folder of their own until the install is over; no
//! name inside the tarball ever becomes a path on this machine.

use super::gzip::Members;
use eggo_bundles::content::{deb, elf, rpm};
use eggo_bundles::digest::Hasher;
use eggo_bundles::{Arch, Digest, Index, Item, Kind, Source};
use eggo_errors::{Exit, Explain};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, Write as _};
use std::path::{Component, Path, PathBuf};

/// Entries of one tarball; more than any has.
const MOST_ENTRIES: usize = 200_000;

#[derive(Debug, thiserror::Error)]
pub enum TarballError {
    #[error("cannot read `{}`: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` is refused: `{entry}` {why}", path.display())]
    Entry { path: PathBuf, entry: String, why: String },
    #[error("`{}` is refused: {why}", path.display())]
    Archive { path: PathBuf, why: String },
    #[error("cannot keep its content: {0}")]
    Spool(io::Error),
    #[error("deploy.yaml names no tarball")]
    None,
}

impl Explain for TarballError {
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new(match self {
            Self::Read { .. } => "tarball-unreadable",
            Self::Entry { .. } | Self::Archive { .. } => "tarball-refused",
            Self::Spool(_) => "no-temporary-space",
            Self::None => "no-content",
        })
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::None => Some("give a bundle, or name tarballs in `install.package-source.srcpath`".into()),
            Self::Spool(_) => Some("unpacking needs space: point TMPDIR at a larger disk".into()),
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Entry { .. } | Self::Archive { .. } => Exit::Untrusted,
            _ => Exit::User,
        }
    }
}

/// The tarballs of one or both archs, read.
pub struct Tarballs {
    index: Index,
    spool: tempfile::TempDir,
}

impl Tarballs {
    /// What they contain is unpacked into a folder of its own in `temporary`, which goes with the value.
    pub fn open(paths: &BTreeMap<Arch, PathBuf>, temporary: &Path) -> Result<Self, TarballError> {
        if paths.is_empty() {
            return Err(TarballError::None);
        }
        let spool = tempfile::Builder::new().prefix("eggo-content-").tempdir_in(temporary);
        let spool = spool.map_err(TarballError::Spool)?;
        let mut items = Vec::new();
        for (arch, path) in paths {
            items.extend(Reading { path, arch: *arch, spool: spool.path() }.read()?);
        }
        items.sort_by(|a, b| a.path.cmp(&b.path));
        let archs = paths.keys().copied().collect();
        Ok(Self { index: Index::new("package-src", "unsigned", archs).with_items(items), spool })
    }

    pub fn index(&self) -> &Index {
        &self.index
    }

    pub fn read(&self, item: &Item) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(self.spool.path().join(item.sha256.hex()))?))
    }
}

/// One tarball being read.
struct Reading<'a> {
    path: &'a Path,
    arch: Arch,
    spool: &'a Path,
}

impl Reading<'_> {
    fn read(&self) -> Result<Vec<Item>, TarballError> {
        let unreadable = |source| TarballError::Read { path: self.path.to_path_buf(), source };
        let file = File::open(self.path).map_err(unreadable)?;
        let mut archive = tar::Archive::new(Members::new(BufReader::with_capacity(1 << 18, file)));
        let mut items = Vec::new();
        let mut seen = HashSet::new();
        for (number, entry) in archive.entries().map_err(|error| self.broken(error))?.enumerate() {
            if number >= MOST_ENTRIES {
                return Err(self.archive("it has too many entries"));
            }
            let mut entry = entry.map_err(|error| self.broken(error))?;
            let shown = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let name = clean(&shown).map_err(|why| self.entry(&shown, why))?;
            let kind = entry.header().entry_type();
            if kind.is_dir() || matches!(kind, tar::EntryType::XGlobalHeader) {
                continue;
            }
            if !seen.insert(name.clone()) {
                return Err(self.entry(&shown, "is there twice"));
            }
            if kind.is_symlink() {
                items.push(self.link(&mut entry, &name, &shown)?);
            } else if kind.is_file() {
                items.extend(self.file(&mut entry, &name, &shown)?);
            } else {
                return Err(self.entry(&shown, "is neither a file nor a folder"));
            }
        }
        self.end(archive.into_inner())?;
        self.refuse_detours(&items)?;
        Ok(items)
    }

    /// No file lies behind a link, and no link leads over another one: what a name says is where
    /// it is.
    fn refuse_detours(&self, items: &[Item]) -> Result<(), TarballError> {
        let links: HashSet<&str> =
            items.iter().filter(|item| item.link.is_some()).map(|item| item.path.as_str()).collect();
        let over = |path: &str| {
            let cuts = path.match_indices('/').map(|(at, _)| at);
            cuts.map(|at| &path[..at]).find(|above| links.contains(above)).map(str::to_string)
        };
        for item in items {
            let target = item.link.as_ref().map(|target| target_path(&item.path, target));
            if let Some(link) = over(&item.path).or_else(|| target.and_then(|target| over(&target))) {
                return Err(self.entry(&item.path, format!("lies behind the link `{link}`")));
            }
        }
        Ok(())
    }

    /// Behind the tar's end there is nothing but zeros, and the gzip checksums hold.
    fn end(&self, mut rest: impl Read) -> Result<(), TarballError> {
        let mut buffer = [0; 1 << 14];
        loop {
            match rest.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) if buffer[..n].iter().all(|byte| *byte == 0) => {}
                Ok(_) => return Err(self.archive("something stands behind the end of the archive")),
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    fn file(
        &self,
        entry: &mut tar::Entry<'_, impl Read>,
        name: &str,
        shown: &str,
    ) -> Result<Option<Item>, TarballError> {
        let mode = entry.header().mode().map_err(|error| self.broken(error))? & 0o777;
        let size = entry.size();
        let (mut kept, sha256, length) = self.keep(entry)?;
        if length != size {
            return Err(self.entry(shown, "ends early"));
        }
        let rewind = |file: &mut File| file.rewind().map_err(TarballError::Spool);
        rewind(&mut kept)?;
        let Some((kind, item_name)) = self.place(name, mode, &mut kept)? else { return Ok(None) };
        rewind(&mut kept)?;
        let mut item = self.item(kind, name, item_name, mode);
        (item.sha256, item.size) = (sha256, length);
        if kind == Kind::Pkg {
            (item.name, item.version) = self.package(&mut kept, shown)?;
        } else if matches!(kind, Kind::Bin) {
            let program = elf::read(&mut kept).map_err(|error| self.entry(shown, error.to_string()))?;
            if let Some(other) = program.and_then(|elf| elf.arch()).filter(|arch| *arch != self.arch) {
                return Err(self.entry(shown, format!("is a program for {other}, not {}", self.arch)));
            }
        }
        Ok(Some(item))
    }

    /// Writes the content to the spool under its digest.
    fn keep(&self, content: &mut impl Read) -> Result<(File, Digest, u64), TarballError> {
        let mut file = tempfile::NamedTempFile::new_in(self.spool).map_err(TarballError::Spool)?;
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; 1 << 17];
        loop {
            let read = content.read(&mut buffer).map_err(|error| self.broken(error))?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
            file.write_all(&buffer[..read]).map_err(TarballError::Spool)?;
        }
        let (length, digest) = (hasher.length(), hasher.finish());
        let kept =
            file.persist(self.spool.join(digest.hex())).map_err(|error| TarballError::Spool(error.error))?;
        Ok((kept, digest, length))
    }

    /// A link inside of a `dir`, whose target stays inside of it.
    fn link(
        &self,
        entry: &mut tar::Entry<'_, impl Read>,
        name: &str,
        shown: &str,
    ) -> Result<Item, TarballError> {
        let target = entry.link_name_bytes().map(|name| String::from_utf8_lossy(&name).into_owned());
        let target = target.ok_or_else(|| self.entry(shown, "is a link to nothing"))?;
        let inside = name.strip_prefix("dir/").and_then(|rest| rest.split_once('/'));
        let Some((folder, below)) = inside else {
            return Err(self.entry(shown, "is a link outside of a folder that is installed as a whole"));
        };
        let depth = below.split('/').count() - 1;
        if !stays_inside(&target, depth) {
            return Err(self.entry(shown, format!("is a link that leads out: `{target}`")));
        }
        let mut item = self.item(Kind::Dir, name, folder.to_string(), 0o777);
        (item.sha256, item.link) = (Digest::of(b""), Some(target));
        Ok(item)
    }

    /// The room that a file belongs to and the name it is asked for by; `None` for what is not content.
    fn place(&self, name: &str, mode: u32, file: &mut File) -> Result<Option<(Kind, String)>, TarballError> {
        let last = name.rsplit('/').next().unwrap_or(name).to_string();
        let package = last.ends_with(".rpm") || last.ends_with(".deb");
        Ok(Some(match name.split_once('/') {
            Some(("pkg", _)) if package => (Kind::Pkg, last),
            Some(("pkg", _)) => return Ok(None),
            Some(("bin", rest)) if !rest.contains('/') => (Kind::Bin, last),
            Some(("dir", rest)) => match rest.split_once('/') {
                Some((folder, _)) => (Kind::Dir, folder.to_string()),
                None => return Ok(None),
            },
            Some(("image", _)) => (Kind::Image, last),
            Some(("addons", _)) => (Kind::Addon, last),
            Some(("file", _)) => (Kind::File, last),
            // The first generation knew no rooms.
            None if package => (Kind::Pkg, last),
            None if last == "images.tar" => (Kind::Image, last),
            None => {
                let program =
                    mode & 0o111 != 0 || matches!(elf::read(file), Ok(Some(elf)) if elf.is_program());
                (if program { Kind::Bin } else { Kind::File }, last)
            }
            Some(_) => return Ok(None),
        }))
    }

    fn package(&self, file: &mut File, shown: &str) -> Result<(String, String), TarballError> {
        let bad = |error: eggo_bundles::content::Problem| self.entry(shown, error.to_string());
        let mut reader = BufReader::new(file);
        let (name, version, architecture) = if shown.ends_with(".deb") {
            let deb = deb::read(&mut reader).map_err(bad)?;
            (deb.name().to_string(), deb.version().to_string(), deb.architecture().to_string())
        } else {
            let rpm = rpm::read(&mut reader).map_err(bad)?;
            (rpm.name.clone(), rpm.evr(), rpm.architecture)
        };
        let fits = matches!(architecture.as_str(), "all" | "noarch") || architecture.parse() == Ok(self.arch);
        if !fits {
            return Err(self.entry(shown, format!("is a package for {architecture}, not {}", self.arch)));
        }
        Ok((name, version))
    }

    fn item(&self, kind: Kind, name: &str, item_name: String, mode: u32) -> Item {
        // The rooms of a bundle, also for a tarball without.
        let inside = name.strip_prefix(&format!("{}/", kind.room())).unwrap_or(name);
        Item {
            name: item_name,
            mode: Some(if kind == Kind::Bin { mode | 0o555 } else { mode }),
            source: Source { repo: Some(self.path.display().to_string()), ..Source::default() },
            ..Item::new(self.arch, kind, inside, Digest::of(b""), 0)
        }
    }

    fn broken(&self, error: io::Error) -> TarballError {
        self.archive(error.to_string())
    }

    fn archive(&self, why: impl Into<String>) -> TarballError {
        TarballError::Archive { path: self.path.to_path_buf(), why: why.into() }
    }

    fn entry(&self, entry: &str, why: impl Into<String>) -> TarballError {
        let entry = entry.escape_debug().to_string();
        TarballError::Entry { path: self.path.to_path_buf(), entry, why: why.into() }
    }
}

/// The name without `./`; absolute ones, `..` and control characters are refused.
fn clean(name: &str) -> Result<String, &'static str> {
    if name.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER) {
        return Err("has a control character in its name");
    }
    let mut parts = Vec::new();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_string_lossy()),
            Component::CurDir => {}
            Component::ParentDir => return Err("leads out of the archive"),
            Component::RootDir | Component::Prefix(_) => return Err("is an absolute path"),
        }
    }
    Ok(parts.join("/"))
}

/// Whether a link `depth` folders below its root stays below it. `..` may only stand at the
/// beginning: further on, it would depend on what the folders before it are.
fn stays_inside(target: &str, depth: usize) -> bool {
    let parts: Vec<Component<'_>> = Path::new(target).components().collect();
    let ups = parts.iter().take_while(|part| **part == Component::ParentDir).count();
    let down = parts[ups..].iter().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    !parts.is_empty() && down && ups <= depth
}

/// Where a link that stays inside leads.
fn target_path(link: &str, target: &str) -> String {
    let mut parts: Vec<&str> = link.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests;
