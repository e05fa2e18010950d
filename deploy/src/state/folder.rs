//! State in a folder: folders have mode 0700, files 0600.

use super::{BACKUPS, Name, PKI, State};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The folder of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self, name: &Name) -> PathBuf {
        self.0.join(name.path())
    }

    pub fn has(&self, name: &Name) -> bool {
        self.path(name).exists()
    }

    /// The folder of certificates and keys.
    pub fn pki(&self) -> PathBuf {
        self.0.join(PKI)
    }

    /// The folder of etcd's snapshots.
    pub fn backups(&self) -> PathBuf {
        self.0.join(BACKUPS)
    }

    /// Removes the cluster from the list of clusters, but keeps everything: the folder gets a dated name, which is
    /// returned. One rename, so that nothing is ever half moved.
    pub fn move_aside(&self) -> io::Result<PathBuf> {
        let name = self.0.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy();
        let date = jiff::Timestamp::now().strftime(DATE).to_string();
        let mut aside = self.0.with_file_name(format!("{name}{REMOVED}{date}"));
        for more in 2.. {
            if aside.symlink_metadata().is_err() {
                break;
            }
            aside = self.0.with_file_name(format!("{name}{REMOVED}{date}-{more}"));
        }
        fs::rename(&self.0, &aside)?;
        sync(aside.parent().unwrap_or(Path::new(".")))?;
        Ok(aside)
    }

    /// Removes the cluster's files, keys included. Backups of etcd stay, and whatever is not ours; the folder with
    /// them is returned.
    pub fn purge(&self) -> io::Result<Option<PathBuf>> {
        let aside = self.move_aside()?;
        remove_ours(&aside, &aside)?;
        sync(aside.parent().unwrap_or(Path::new(".")))?;
        Ok(aside.exists().then_some(aside))
    }
}

/// Between a cluster's name and the date.
const REMOVED: &str = ".removed-";
const DATE: &str = "%Y-%m-%dT%H%M%SZ";

/// Whether [`Folder::move_aside`] made this folder.
pub(super) fn was_moved_aside(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some((_, date)) = name.rsplit_once(REMOVED) else { return false };
    let shape: String = date.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape.starts_with("0000-00-00T000000Z")
}

/// Every file below `folder` that is ours and no backup, and every folder that is empty then.
fn remove_ours(root: &Path, folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_dir() {
            remove_ours(root, &path)?;
            continue;
        }
        let name = path.strip_prefix(root).ok().and_then(Name::of);
        let unfinished = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(BESIDE));
        if unfinished || name.is_some_and(|name| !matches!(name, Name::Backup(_))) {
            fs::remove_file(&path)?;
        }
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => Err(error),
        _ => Ok(()),
    }
}

/// How the name of a file begins that is not complete yet.
const BESIDE: &str = ".new-";

impl State for Folder {
    fn get(&self, name: &Name) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn put(&self, name: &Name, bytes: &[u8]) -> io::Result<()> {
        write(&self.path(name), bytes)
    }

    fn list(&self) -> io::Result<Vec<Name>> {
        let mut found = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                } else if let Ok(path) = entry.path().strip_prefix(&self.0) {
                    found.extend(Name::of(path));
                }
            }
        }
        found.sort();
        Ok(found)
    }

    fn remove(&self, name: &Name) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Writes beside and renames, so that a file is complete or as it was; mode 0600 from its first byte on.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    make(folder)?;
    let mut file = tempfile::Builder::new()
        .prefix(BESIDE)
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync(folder)
}

/// A folder, and those above it that are missing, for nobody else to read.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|above| !above.exists()).collect();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Or a power failure takes the folder, and all that was synced in it.
    let above = missing.iter().filter_map(|made| made.parent());
    above.map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above }).try_for_each(sync)
}

/// What was renamed in a folder survives a power failure only after this.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
