//! A bundle in numbered parts, for sticks that take no file over 4 GiB.
//!
//! `X.tar.gz.001`, `.002`, … are the bundle's bytes cut into pieces of one size, so `cat`
//! joins them too. Each has a sidecar `X.tar.gz.001.sha256` that `sha256sum -c` takes.
//! All but the last have the same length; that the last one is there, the bundle's footer shows.

use crate::Digest;
use crate::digest::Hasher;
use crate::error::Error;
use crate::output::{Output, write_whole};
pub use crate::part::BadPart;
use crate::part::{MOST_PARTS, base_of, numbered, suffixed};
use crate::progress::Progress;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The largest file on FAT32: one byte less than 4 GiB.
pub const FAT32: u64 = (4 << 30) - 1;
const BUFFER: usize = 1 << 20;

/// Bytes that several threads read at once.
pub trait ReadAt: Send + Sync {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    fn length(&self) -> u64;
}

/// Opens a whole file, or all parts by the name of the first one or of the whole.
pub fn open(path: &Path) -> Result<Box<dyn ReadAt>, Error> {
    match find(path)? {
        None => Ok(Box::new(Whole::open(path)?)),
        Some(parts) => Ok(Box::new(Parts::open(&parts)?)),
    }
}

/// The parts that `path` names; none if it is a file of its own.
pub fn find(path: &Path) -> Result<Option<Vec<PathBuf>>, Error> {
    let base = match base_of(path) {
        Some((base, 1)) => base,
        // A bundle may be called `x.100` for all we know: only if part one is beside it.
        Some((base, _)) if numbered(&base, 1).exists() => {
            return Err(BadPart::NotFirst(path.to_path_buf()).into());
        }
        _ if !path.exists() && numbered(path, 1).exists() => path.to_path_buf(),
        _ => return Ok(None),
    };
    // A sidecar says that there is a part, too.
    let last = numbers_of(&base)?.into_iter().max().unwrap_or(1);
    let parts: Vec<PathBuf> = (1..=last).map(|number| numbered(&base, number)).collect();
    match parts.iter().find(|part| !part.exists()) {
        Some(part) => Err(BadPart::Missing(part.clone()).into()),
        None => Ok(Some(parts)),
    }
}

/// Cuts `path` into parts of `size` bytes in `folder`, each with its sidecar; gives the parts.
/// A size of exactly 4 GiB is taken as the largest that FAT32 holds.
pub fn split(path: &Path, size: u64, folder: &Path, progress: &dyn Progress) -> Result<Vec<PathBuf>, Error> {
    let size = if size == FAT32 + 1 { FAT32 } else { size.max(1) };
    let source = open(path)?;
    let length = source.length();
    let count = length.div_ceil(size);
    if count > MOST_PARTS as u64 {
        return Err(BadPart::TooMany { size }.into());
    }
    std::fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.to_path_buf(), source })?;
    let base = folder.join(path.file_name().unwrap_or_default());
    let task = progress.start("splitting", Some(length));
    let mut parts = Vec::new();
    for number in 0..count {
        let part = numbered(&base, number as usize + 1);
        let failed = |source| Error::Write { path: part.clone(), source };
        let mut output = Output::create(&part).map_err(failed)?;
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; BUFFER];
        let end = ((number + 1) * size).min(length);
        let mut offset = number * size;
        while offset < end {
            let piece = &mut buffer[..((end - offset) as usize).min(BUFFER)];
            source
                .read_exact_at(piece, offset)
                .map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
            hasher.update(piece);
            output.file().write_all(piece).map_err(failed)?;
            offset += piece.len() as u64;
            progress.advance(task, piece.len() as u64);
        }
        output.finish().map_err(failed)?;
        let name = part.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sidecar = sidecar(&part);
        write_whole(&sidecar, format!("{}  {name}\n", hasher.finish()).as_bytes())
            .map_err(|source| Error::Write { path: sidecar, source })?;
        parts.push(part);
    }
    progress.finish(task);
    remove_from(&base, parts.len() + 1)?;
    Ok(parts)
}

/// Parts of an earlier split into more would seem to belong to this one.
fn remove_from(base: &Path, number: usize) -> Result<(), Error> {
    for number in number..=MOST_PARTS {
        let part = numbered(base, number);
        if !part.is_file() {
            break;
        }
        for path in [sidecar(&part), part] {
            match std::fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::Write { path, source });
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Puts the parts together again into `out`, checking each that has a sidecar.
pub fn join(first: &Path, out: &Path, progress: &dyn Progress) -> Result<u64, Error> {
    let parts = find(first)?.ok_or_else(|| BadPart::NotFirst(first.to_path_buf()))?;
    let source = Parts::open(&parts)?;
    let failed = |source| Error::Write { path: out.to_path_buf(), source };
    let mut output = Output::create(out).map_err(failed)?;
    let task = progress.start("joining", Some(source.length()));
    for part in &parts {
        let mut written = |piece: &[u8]| {
            progress.advance(task, piece.len() as u64);
            output.file().write_all(piece).map_err(failed)
        };
        check_part(part, &mut written)?;
    }
    output.finish().map_err(failed)?;
    progress.finish(task);
    Ok(source.length())
}

/// Checks one part against its sidecar, without the others.
pub fn verify_part(part: &Path) -> Result<Digest, Error> {
    if expected(part)?.is_none() {
        return Err(BadPart::Missing(sidecar(part)).into());
    }
    check_part(part, &mut |_| Ok(()))
}

fn check_part(part: &Path, each: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<Digest, Error> {
    let unreadable = |source| Error::Io { path: part.to_path_buf(), source };
    let mut file = File::open(part).map_err(unreadable)?;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                hasher.update(&buffer[..length]);
                each(&buffer[..length])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(error)),
        }
    }
    let found = hasher.finish();
    match expected(part)? {
        Some(expected) if expected != found => {
            Err(BadPart::Changed { path: part.to_path_buf(), found, expected }.into())
        }
        _ => Ok(found),
    }
}

/// What the sidecar says; none if there is none.
fn expected(part: &Path) -> Result<Option<Digest>, Error> {
    let sidecar = sidecar(part);
    let mut text = String::new();
    match File::open(&sidecar).and_then(|file| file.take(4096).read_to_string(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Io { path: sidecar, source }),
    }
    let name = part.file_name().unwrap_or_default().to_string_lossy();
    let line = text.strip_suffix('\n').and_then(|line| line.split_once("  "));
    match line.map(|(digest, named)| (digest.parse(), named == name)) {
        Some((Ok(digest), true)) => Ok(Some(digest)),
        _ => Err(BadPart::Sidecar(sidecar).into()),
    }
}

fn sidecar(part: &Path) -> PathBuf {
    suffixed(part, ".sha256")
}

/// What the parts of a split bundle make up, by the name of one of them or of the whole.
pub fn whole_of(path: &Path) -> PathBuf {
    base_of(path).map_or_else(|| path.to_path_buf(), |(whole, _)| whole)
}

/// The numbers of the parts and of their sidecars.
fn numbers_of(base: &Path) -> Result<Vec<usize>, Error> {
    let folder = match base.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let unreadable = |source| Error::Io { path: folder.to_path_buf(), source };
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let mut name = PathBuf::from(entry.map_err(unreadable)?.file_name());
        if name.extension().is_some_and(|extension| extension == "sha256") {
            name.set_extension("");
        }
        if let Some((found, number)) = base_of(&name)
            && Some(found.as_os_str()) == base.file_name()
        {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

struct Whole {
    file: File,
    length: u64,
}

impl Whole {
    fn open(path: &Path) -> Result<Self, Error> {
        let opened = File::open(path).and_then(|file| {
            let meta = file.metadata()?;
            match meta.is_file() {
                true => Ok(Self { length: meta.len(), file }),
                false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file")),
            }
        });
        opened.map_err(|source| Error::Io { path: path.to_path_buf(), source })
    }
}

impl ReadAt for Whole {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn length(&self) -> u64 {
        self.length
    }
}

struct Parts {
    files: Vec<Whole>,
    /// The length of all but the last.
    size: u64,
}

impl Parts {
    fn open(paths: &[PathBuf]) -> Result<Self, Error> {
        let files: Vec<Whole> = paths.iter().map(|path| Whole::open(path)).collect::<Result<_, _>>()?;
        let size = files.first().map_or(0, |file| file.length);
        for (position, file) in files.iter().enumerate() {
            let is_last = position + 1 == files.len();
            if file.length == 0 {
                return Err(Error::Empty { path: paths[position].clone() });
            }
            if file.length > size || (file.length < size && !is_last) {
                let path = paths[position].clone();
                return Err(BadPart::Length { path, found: file.length, expected: size }.into());
            }
        }
        Ok(Self { files, size })
    }
}

impl ReadAt for Parts {
    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let file = self.files.get((offset / self.size) as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
            let within = offset % self.size;
            let length = (file.length.saturating_sub(within)).min(buffer.len() as u64) as usize;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (piece, rest) = buffer.split_at_mut(length);
            file.read_exact_at(piece, within)?;
            buffer = rest;
            offset += length as u64;
        }
        Ok(())
    }

    fn length(&self) -> u64 {
        self.files.iter().map(|file| file.length).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    #[test]
    fn parts_read_as_one_and_join_to_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("b.tar.gz");
        let bytes: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(&whole, &bytes).unwrap();
        let parts = split(&whole, 7_000, folder.path(), &Silent).unwrap();
        assert_eq!(parts.len(), 6);
        let source = open(&parts[0]).unwrap();
        assert_eq!(source.length(), 40_000);
        let mut piece = vec![0; 15_000];
        source.read_exact_at(&mut piece, 6_500).unwrap();
        assert!(piece == bytes[6_500..21_500]);
        assert!(source.read_exact_at(&mut piece, 39_000).is_err());
        for part in &parts {
            verify_part(part).unwrap();
        }
        let joined = folder.path().join("joined");
        assert_eq!(join(&parts[0], &joined, &Silent).unwrap(), 40_000);
        assert!(std::fs::read(&joined).unwrap() == bytes);

        // Fewer parts than before: none of the old ones is left to spoil them.
        let parts = split(&whole, 30_000, folder.path(), &Silent).unwrap();
        assert_eq!(find(&parts[0]).unwrap().unwrap(), parts);
        assert_eq!(join(&parts[0], &joined, &Silent).unwrap(), 40_000);
    }

    #[test]
    fn missing_short_and_changed_parts_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("b.tar.gz");
        std::fs::write(&whole, [7; 100]).unwrap();
        let parts = split(&whole, 30, folder.path(), &Silent).unwrap();
        std::fs::remove_file(&whole).unwrap();
        assert_eq!(open(&whole).unwrap().length(), 100);
        let message = |outcome: Result<Box<dyn ReadAt>, Error>| outcome.err().unwrap().to_string();
        assert!(message(open(&parts[1])).contains("not the first part"));

        std::fs::write(&parts[2], [8; 30]).unwrap();
        assert!(verify_part(&parts[2]).unwrap_err().to_string().contains("b.tar.gz.003"));
        assert!(join(&parts[0], &whole, &Silent).unwrap_err().to_string().contains("b.tar.gz.003"));
        assert!(!whole.exists());
        std::fs::write(&parts[2], [8; 29]).unwrap();
        assert!(message(open(&parts[0])).contains("29 bytes long"));
        std::fs::remove_file(&parts[2]).unwrap();
        assert!(message(open(&parts[0])).ends_with("b.tar.gz.003` is missing"));
        std::fs::write(&parts[2], [7; 30]).unwrap();
        std::fs::remove_file(&parts[3]).unwrap();
        assert!(message(open(&parts[0])).ends_with("b.tar.gz.004` is missing"));
    }
}
