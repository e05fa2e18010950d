//! The tarballs of old eggo: one .tar.gz per arch, unsigned, `pkg/ bin/ file/ dir/ image/` or, in
//! the first generation, flat with `addons/` and `images.tar`.
//!
//! A tarball is read once from end to end: strictly, so that no two programs see different things
//! in it (`eggo_bundles::archive` has the rules). Its files are kept by their digest in a folder of
//! their own until the install is over; no name inside the tarball ever becomes a path on this machine.

use eggo_bundles::archive::{self, Fault, Format, Limits, Member, MemberKind};
use eggo_bundles::content::{deb, elf, rpm};
use eggo_bundles::digest::Hasher;
use eggo_bundles::rules::leads_out;
use eggo_bundles::{Arch, Digest, Index, Item, Kind, Source};
use eggo_errors::{Exit, Explain};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, Write as _};
use std::path::{Path, PathBuf};

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
        let limits = Limits { setuid: true, ..Limits::of_size(file.metadata().map_err(unreadable)?.len()) };
        let mut items = Vec::new();
        let source = BufReader::with_capacity(1 << 18, file);
        let tar = archive::inflate(source, Format::TarGz).map_err(|error| self.broken(error))?;
        let result = archive::walk_tar(tar, limits, &mut |member, content| {
            match &member.kind {
                MemberKind::Folder => {}
                MemberKind::File { size } => items.extend(self.file(member, *size, content)?),
                MemberKind::Symlink { target } => items.push(self.link(&member.path, target)?),
                MemberKind::HardLink { .. } => {
                    return Err(self.entry(&member.path, "is neither a file nor a folder").into());
                }
            }
            Ok(())
        });
        result.map_err(|fault| match fault {
            Fault::Refused(why) => self.archive(why),
            Fault::Io(error) => self.broken(error),
            Fault::Visitor(error) => match error.downcast::<TarballError>() {
                Ok(own) => *own,
                Err(other) => self.archive(other.to_string()),
            },
        })?;
        Ok(items)
    }

    fn file(&self, member: &Member, size: u64, content: &mut dyn Read) -> Result<Option<Item>, TarballError> {
        let (name, mode) = (member.path.as_str(), member.mode);
        let (mut kept, sha256, length) = self.keep(content)?;
        if length != size {
            return Err(self.entry(name, "ends early"));
        }
        let rewind = |file: &mut File| file.rewind().map_err(TarballError::Spool);
        rewind(&mut kept)?;
        let Some((kind, item_name)) = self.place(name, mode, &mut kept)? else { return Ok(None) };
        rewind(&mut kept)?;
        let mut item = self.item(kind, name, item_name, mode);
        (item.sha256, item.size) = (sha256, length);
        if kind == Kind::Pkg {
            (item.name, item.version) = self.package(&mut kept, name)?;
        } else if matches!(kind, Kind::Bin) {
            let program = elf::read(&mut kept).map_err(|error| self.entry(name, error.to_string()))?;
            if let Some(other) = program.and_then(|elf| elf.arch()).filter(|arch| *arch != self.arch) {
                return Err(self.entry(name, format!("is a program for {other}, not {}", self.arch)));
            }
        }
        Ok(Some(item))
    }

    /// Writes the content to the spool under its digest.
    fn keep(&self, content: &mut dyn Read) -> Result<(File, Digest, u64), TarballError> {
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
    fn link(&self, name: &str, target: &str) -> Result<Item, TarballError> {
        let inside = name.strip_prefix("dir/").and_then(|rest| rest.split_once('/'));
        let Some((folder, below)) = inside else {
            return Err(self.entry(name, "is a link outside of a folder that is installed as a whole"));
        };
        if leads_out(below, target) {
            return Err(self.entry(name, format!("is a link that leads out: `{target}`")));
        }
        let mut item = self.item(Kind::Dir, name, folder.to_string(), 0o777);
        (item.sha256, item.link) = (Digest::of(b""), Some(target.to_string()));
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

#[cfg(test)]
mod tests;
