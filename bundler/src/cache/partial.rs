//! A download in the making: its bytes so far, their digest, and a lock.

use super::Error;
use eggo_bundles::Digest;
use eggo_bundles::digest::Hasher;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub struct Partial {
    path: PathBuf,
    file: File,
    hasher: Hasher,
    validator: Option<String>,
    unreported: u64,
    /// Held until the download is dropped or done.
    _lock: File,
}

impl Partial {
    /// Waits for the lock, then hashes what is there.
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let unwritable = |source| Error::Write { path: path.clone(), source };
        let lock = lock(&path.with_extension("lock")).map_err(unwritable)?;
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(unwritable)?;
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; 1 << 17];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => hasher.update(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Read { path, source }),
            }
        }
        let validator = std::fs::read_to_string(path.with_extension("validator")).ok();
        let unreported = hasher.length();
        Ok(Self { path, file, hasher, validator, unreported, _lock: lock })
    }

    pub fn length(&self) -> u64 {
        self.hasher.length()
    }

    pub fn digest(&self) -> Digest {
        self.hasher.clone().finish()
    }

    /// What the server called the version that these bytes belong to.
    pub fn validator(&self) -> Option<&str> {
        self.validator.as_deref()
    }

    pub fn remember_validator(&mut self, validator: Option<String>) -> Result<(), Error> {
        if validator == self.validator {
            return Ok(());
        }
        let path = self.path.with_extension("validator");
        let result = match &validator {
            Some(text) => std::fs::write(&path, text),
            None => std::fs::remove_file(&path),
        };
        result.map_err(|source| Error::Write { path, source })?;
        self.validator = validator;
        Ok(())
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Err(source) = self.file.write_all(bytes) {
            // Some of it may have been written: cut back to what was hashed.
            let _ = self.file.set_len(self.length());
            return Err(Error::Write { path: self.path.clone(), source });
        }
        self.hasher.update(bytes);
        self.unreported += bytes.len() as u64;
        Ok(())
    }

    /// Starts over.
    pub fn restart(&mut self) -> Result<(), Error> {
        let unwritable = |source| Error::Write { path: self.path.clone(), source };
        self.file.set_len(0).map_err(unwritable)?;
        self.file.rewind().map_err(unwritable)?;
        self.hasher = Hasher::new();
        self.unreported = 0;
        self.remember_validator(None)
    }

    /// The bytes that progress has not been told of yet.
    pub(crate) fn take_unreported(&mut self) -> u64 {
        std::mem::take(&mut self.unreported)
    }

    pub(crate) fn discard(self) {
        self.clean_up();
        let _ = std::fs::remove_file(&self.path);
    }

    pub(super) fn become_file(self, path: &Path) -> Result<(), Error> {
        std::fs::rename(&self.path, path).map_err(|source| Error::Write { path: path.into(), source })?;
        self.clean_up();
        Ok(())
    }

    fn clean_up(&self) {
        for extension in ["validator", "lock"] {
            // What is left behind is found and used by the next download of the same key.
            let _ = std::fs::remove_file(self.path.with_extension(extension));
        }
    }
}

/// Holds the lock file at `path`. Its last holder may have removed it while we waited:
/// then others lock a new file of that name, and so do we.
fn lock(path: &Path) -> io::Result<File> {
    loop {
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
        let held = file.metadata()?;
        match std::fs::metadata(path) {
            Ok(named) if (named.dev(), named.ino()) == (held.dev(), held.ino()) => return Ok(file),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
}
