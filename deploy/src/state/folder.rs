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

    /// Whether anything in it gives access to a cluster.
    pub fn has_keys(&self) -> bool {
        self.pki().exists() || self.has(&Name::Admin)
    }
}

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
        .prefix(".new-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync(folder)
}

/// A folder, and those above it that are missing, for nobody else to read.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// What was renamed in a folder survives a power failure only after this.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
