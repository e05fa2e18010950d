//! A file that appears whole or not at all.

use crate::temporary::Temporary;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A file in the making. Where the file system can, it has no name until it is finished, so
/// that not even a killed process leaves anything behind; else it has a temporary one.
pub struct Output {
    file: File,
    target: PathBuf,
    named: Option<(tempfile::TempPath, Temporary)>,
}

impl Output {
    /// A link is followed; what is there and no regular file stays as it is.
    pub fn create(target: &Path) -> io::Result<Self> {
        let target = &fs::canonicalize(target).unwrap_or_else(|_| target.to_path_buf());
        if fs::metadata(target).is_ok_and(|there| !there.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it exists, and is not a regular file"));
        }
        let folder = folder_of(target);
        let nameless = OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o644)
            .custom_flags(rustix::fs::OFlags::TMPFILE.bits() as i32)
            .open(folder);
        let target = target.to_path_buf();
        match nameless {
            // Without /proc a nameless file can never get a name.
            Ok(file) if proc_path(&file).exists() => return Ok(Self { file, target, named: None }),
            // It would be no better with a name.
            Err(error) if is_in_the_way(&error) => return Err(error),
            _ => {}
        }
        let (file, known) = Temporary::make(|| temporary(&target), tempfile::NamedTempFile::path)?;
        let (file, path) = file.into_parts();
        Ok(Self { file, target, named: Some((path, known)) })
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts the file under its name, with all its bytes on the disk.
    pub fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        match self.named {
            Some((path, _known)) => path.persist(&self.target).map_err(|error| error.error)?,
            None => give_name(&self.file, &self.target)?,
        }
        // The name as well; a file system that cannot do it (FAT) has done what it can.
        let _ = File::open(folder_of(&self.target)).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

/// Writes a small file in the same way.
pub fn write_whole(target: &Path, bytes: &[u8]) -> io::Result<()> {
    use io::Write as _;
    let mut output = Output::create(target)?;
    output.file().write_all(bytes)?;
    output.finish()
}

/// Writes a small file where none may be yet; what fails in between leaves nothing in the way of
/// the next attempt.
pub fn write_new(target: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    use io::Write as _;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(target)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(target)))
}

/// Fails where no file could be written, before there is one: what it takes to make its content
/// may have taken an hour.
pub fn check_place(target: &Path) -> io::Result<()> {
    Output::create(target).map(drop)
}

/// What to do about a place that does not take a file.
pub fn hint(target: &Path, error: &io::Error) -> Option<String> {
    let folder = folder_of(target);
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("free some space or write to another disk".into())
        }
        io::ErrorKind::FileTooLarge => Some(
            "this disk takes no file of that size; write it elsewhere and use `eggo-bundle split`".into(),
        ),
        io::ErrorKind::NotFound if !folder.exists() => {
            Some(format!("make the folder `{}` first, or name another place", folder.display()))
        }
        _ if is_in_the_way(error) => Some("name a place that you can write to".into()),
        _ => None,
    }
}

/// Whether the place itself is wrong, for files with and without a name.
fn is_in_the_way(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied | ReadOnlyFilesystem)
}

fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn temporary(target: &Path) -> io::Result<tempfile::NamedTempFile> {
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".tmp")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder_of(target))
        // Its own words tell of a name that nobody has typed.
        .map_err(|error| error.kind().into())
}

fn proc_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A link cannot replace a file, a rename can: link to a temporary name first.
fn give_name(file: &File, target: &Path) -> io::Result<()> {
    let placeholder = temporary(target)?.into_temp_path();
    fs::remove_file(&placeholder)?;
    let here = rustix::fs::CWD;
    rustix::fs::linkat(here, proc_path(file), here, &*placeholder, rustix::fs::AtFlags::SYMLINK_FOLLOW)?;
    placeholder.persist(target).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn nothing_is_seen_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("bundle.tar.gz");
        fs::write(&target, "old").unwrap();
        let mut output = Output::create(&target).unwrap();
        output.file().write_all(b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"old");
        drop(output);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        let mut output = Output::create(&target).unwrap();
        output.file().write_all(b"new").unwrap();
        output.finish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_are_followed_and_nothing_but_files_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(link.is_symlink());
        for other in [folder.path(), Path::new("/dev/null")] {
            assert!(
                Output::create(other).is_err_and(|error| error.to_string().contains("not a regular file"))
            );
        }
    }

    #[test]
    fn a_place_that_takes_no_file_is_reported_without_temporary_names() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let missing = folder.path().join("no/such");
        let hint_for = |target: &Path| {
            let error = check_place(target).unwrap_err();
            assert!(!error.to_string().contains(".tmp"), "{error}");
            hint(target, &error).unwrap()
        };
        let expected = format!("make the folder `{}` first, or name another place", missing.display());
        assert_eq!(hint_for(&missing.join("bundle.tar.gz")), expected);
        assert_eq!(hint_for(&file.join("bundle.tar.gz")), "name a place that you can write to");
        assert_eq!(hint_for(Path::new("/proc/bundle.tar.gz")), "name a place that you can write to");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
