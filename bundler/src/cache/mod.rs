//! What was fetched once: content by its sha256, small files by their url, and the
//! beginnings of downloads that were cut.
//!
//! ```text
//! blobs/sha256/HEX      content; never trusted without its digest
//! urls/HEX.json         what a url gave last time: etag, digest
//! partial/KEY           a download in the making, KEY.validator its etag, KEY.lock its lock
//! tmp/                  files that get their name when they are whole
//! ```
//!
//! Several builds may use one cache at a time: files appear by rename, and a partial
//! download has one writer. Nothing here knows the network.

mod partial;

pub use partial::Partial;

use eggo_bundles::Digest;
use eggo_bundles::digest::Hasher;
use eggo_terminal::Explain;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LONGEST_RUN: Duration = Duration::from_secs(2 * 24 * 3600);

#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// What a url gave last time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// After redirects.
    pub url: String,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    pub sha256: Digest,
    pub size: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot write to the cache `{}`", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read the cache `{}`", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the content is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("cannot read what is to be stored")]
    Content { source: io::Error },
    #[error("no folder for the cache: neither `XDG_CACHE_HOME` nor `HOME` is set")]
    NoHome,
}

impl Explain for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Error::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => Some(
                "the disk is full: free some space or name another folder with `--cache-dir`; \
                 what was fetched so far is kept"
                    .to_string(),
            ),
            Error::Write { .. } | Error::NoHome => {
                Some("name a folder you can write to with `--cache-dir`".to_string())
            }
            _ => None,
        }
    }
}

/// `$XDG_CACHE_HOME/eggo` or `~/.cache/eggo`.
pub fn default_folder() -> Result<PathBuf, Error> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    base.map(|base| base.join("eggo")).ok_or(Error::NoHome)
}

impl Cache {
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, Error> {
        let root = root.into();
        for room in ["blobs/sha256", "urls", "partial", "tmp"] {
            let path = root.join(room);
            std::fs::create_dir_all(&path).map_err(|source| Error::Write { path, source })?;
        }
        let cache = Self { root };
        cache.sweep();
        Ok(cache)
    }

    /// Removes what killed runs left behind: a temporary file lives for minutes, not for days.
    fn sweep(&self) {
        let is_old = |entry: &std::fs::DirEntry| {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > LONGEST_RUN))
        };
        let entries = std::fs::read_dir(self.root.join("tmp")).into_iter().flatten().flatten();
        for entry in entries.filter(is_old) {
            // Another run may be sweeping, too.
            let _ = std::fs::remove_file(entry.path());
        }
    }

    /// Where content of this digest is, or would be.
    pub fn path(&self, sha256: &Digest) -> PathBuf {
        self.root.join("blobs/sha256").join(sha256.hex())
    }

    /// There, with the right size, but not hashed: only for content that is hashed when it is used.
    pub fn contains(&self, sha256: &Digest, size: u64) -> bool {
        std::fs::metadata(self.path(sha256)).is_ok_and(|metadata| metadata.len() == size)
    }

    /// There and intact. A file that is not intact is dropped, so that it is fetched again.
    pub fn verified(&self, sha256: &Digest) -> Result<Option<(PathBuf, u64)>, Error> {
        let path = self.path(sha256);
        let Some(mut file) = open(&path)? else { return Ok(None) };
        let (found, size) =
            Digest::of_reader(&mut file).map_err(|source| Error::Read { path: path.clone(), source })?;
        if found != *sha256 {
            self.discard(sha256)?;
            return Ok(None);
        }
        Ok(Some((path, size)))
    }

    /// The bytes of a small file, verified; `None` if it is not there intact.
    pub fn read(&self, sha256: &Digest, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(sha256);
        let Some(file) = open(&path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|source| Error::Read { path, source })?;
        if bytes.len() as u64 > limit {
            return Err(Error::TooLarge { limit });
        }
        if Digest::of(&bytes) != *sha256 {
            self.discard(sha256)?;
            return Ok(None);
        }
        Ok(Some(bytes))
    }

    /// What was made of other content earlier, under a key that names that content by its digest.
    pub fn derived(&self, key: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let Some(entry) = self.recall(key)? else { return Ok(None) };
        let Some(packed) = self.read(&entry.sha256, limit)? else { return Ok(None) };
        let length = zstd::zstd_safe::get_frame_content_size(&packed).ok().flatten();
        let length = length.filter(|length| *length <= limit).and_then(|length| length.try_into().ok());
        Ok(length.and_then(|length| zstd::bulk::decompress(&packed, length).ok()))
    }

    /// Keeps it for [`Cache::derived`].
    pub fn keep_derived(&self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        let packed = zstd::bulk::compress(bytes, 1).map_err(|source| Error::Content { source })?;
        let (sha256, size) = (self.store_bytes(&packed)?, packed.len() as u64);
        let remembered = Remembered { url: key.to_string(), etag: None, last_modified: None, sha256, size };
        self.remember(key, &remembered)
    }

    /// Forgets content, because it turned out to be corrupted.
    pub fn discard(&self, sha256: &Digest) -> Result<(), Error> {
        let path = self.path(sha256);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::Write { path, source }),
            _ => Ok(()),
        }
    }

    /// As [`Cache::discard`], by the path that [`Cache::path`] gave; false if it is not one of ours.
    pub fn discard_file(&self, path: &Path) -> Result<bool, Error> {
        let name = path.file_name().and_then(|name| name.to_str());
        match name.and_then(|name| name.parse::<Digest>().ok()) {
            Some(sha256) if self.path(&sha256) == path => self.discard(&sha256).map(|()| true),
            _ => Ok(false),
        }
    }

    pub fn store_bytes(&self, bytes: &[u8]) -> Result<Digest, Error> {
        let sha256 = Digest::of(bytes);
        if !self.contains(&sha256, bytes.len() as u64) || self.verified(&sha256)?.is_none() {
            self.write_whole(&self.path(&sha256), bytes)?;
        }
        Ok(sha256)
    }

    /// Stores what `reader` gives, at most `limit` bytes.
    pub fn store(&self, reader: &mut dyn Read, limit: u64) -> Result<(Digest, u64), Error> {
        let mut temporary = self.temporary()?;
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; 1 << 17];
        loop {
            let n = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(Error::Content { source }),
            };
            if hasher.length() + n as u64 > limit {
                return Err(Error::TooLarge { limit });
            }
            hasher.update(&buffer[..n]);
            temporary.write_all(&buffer[..n]).map_err(|source| self.unwritable(source))?;
        }
        let size = hasher.length();
        let sha256 = hasher.finish();
        self.persist(temporary, &self.path(&sha256))?;
        Ok((sha256, size))
    }

    /// The beginning of a download, under a lock that other builds wait for.
    pub async fn partial(&self, key: &str) -> Result<Partial, Error> {
        let base = self.root.join("partial").join(key);
        let opened = tokio::task::spawn_blocking(move || Partial::open(base)).await;
        opened.expect("opening a partial download does not panic")
    }

    /// A finished download becomes content.
    pub fn adopt(&self, partial: Partial, sha256: &Digest) -> Result<PathBuf, Error> {
        let path = self.path(sha256);
        partial.become_file(&path)?;
        Ok(path)
    }

    pub fn recall(&self, url: &str) -> Result<Option<Remembered>, Error> {
        let path = self.url_path(url);
        match std::fs::read(&path) {
            // A record that does not parse is as good as none.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    pub fn remember(&self, url: &str, entry: &Remembered) -> Result<(), Error> {
        let bytes = serde_json::to_vec_pretty(entry).expect("a record has only JSON types");
        self.write_whole(&self.url_path(url), &bytes)
    }

    fn url_path(&self, url: &str) -> PathBuf {
        self.root.join("urls").join(format!("{}.json", Digest::of(url.as_bytes())))
    }

    fn temporary(&self) -> Result<tempfile::NamedTempFile, Error> {
        // Its own words tell of a name that nobody has typed.
        tempfile::NamedTempFile::new_in(self.root.join("tmp"))
            .map_err(|error| self.unwritable(error.kind().into()))
    }

    fn write_whole(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let mut temporary = self.temporary()?;
        temporary.write_all(bytes).map_err(|source| self.unwritable(source))?;
        self.persist(temporary, path)
    }

    fn persist(&self, temporary: tempfile::NamedTempFile, path: &Path) -> Result<(), Error> {
        temporary.persist(path).map_err(|error| Error::Write { path: path.into(), source: error.error })?;
        Ok(())
    }

    fn unwritable(&self, source: io::Error) -> Error {
        Error::Write { path: self.root.clone(), source }
    }
}

fn open(path: &Path) -> Result<Option<File>, Error> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Read { path: path.into(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        (folder, cache)
    }

    #[test]
    fn content_is_found_by_digest_until_it_is_corrupted() {
        let (_folder, cache) = cache();
        let sha256 = cache.store_bytes(b"hello").unwrap();
        assert_eq!(cache.store(&mut &b"hello"[..], 5).unwrap(), (sha256, 5));
        assert!(cache.contains(&sha256, 5));
        assert_eq!(cache.read(&sha256, 100).unwrap().as_deref(), Some(&b"hello"[..]));
        std::fs::write(cache.path(&sha256), b"hexxo").unwrap();
        assert_eq!(cache.verified(&sha256).unwrap(), None);
        assert!(!cache.path(&sha256).exists(), "a corrupted file is dropped");
        assert!(matches!(cache.store(&mut &b"hello"[..], 4), Err(Error::TooLarge { limit: 4 })));
        assert_eq!(std::fs::read_dir(cache.root.join("tmp")).unwrap().count(), 0);
    }

    #[test]
    fn storing_again_mends_a_corrupted_file() {
        let (_folder, cache) = cache();
        let sha256 = cache.store_bytes(b"hello").unwrap();
        std::fs::write(cache.path(&sha256), b"hexxo").unwrap();
        cache.store_bytes(b"hello").unwrap();
        assert!(cache.verified(&sha256).unwrap().is_some());
    }

    #[test]
    fn urls_are_remembered() {
        let (_folder, cache) = cache();
        assert_eq!(cache.recall("http://a/").unwrap(), None);
        let sha256 = Digest::of(b"x");
        let entry = Remembered {
            url: "http://b/".into(),
            etag: Some("\"1\"".into()),
            last_modified: None,
            sha256,
            size: 1,
        };
        cache.remember("http://a/", &entry).unwrap();
        assert_eq!(cache.recall("http://a/").unwrap(), Some(entry));
    }

    #[tokio::test]
    async fn a_partial_download_goes_on_and_has_one_writer() {
        let (_folder, cache) = cache();
        let mut partial = cache.partial("k").await.unwrap();
        partial.append(b"hel").unwrap();
        partial.remember_validator(Some("\"etag\"".into())).unwrap();
        let other = cache.clone();
        let waiting = tokio::spawn(async move { other.partial("k").await.unwrap() });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(partial);
        let mut partial = waiting.await.unwrap();
        assert_eq!((partial.length(), partial.validator()), (3, Some("\"etag\"")));
        partial.append(b"lo").unwrap();
        let sha256 = partial.digest();
        assert_eq!(sha256, Digest::of(b"hello"));
        let path = cache.adopt(partial, &sha256).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"hello");
        assert_eq!(cache.partial("k").await.unwrap().length(), 0);
    }
}
