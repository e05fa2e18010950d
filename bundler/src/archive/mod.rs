//! Foreign archives, read without trust: tar (plain, gz, xz, zst, bz2) and zip.
//!
//! [`walk`] hands out members in order and writes nothing. The rules that an archive must obey are
//! those of [`eggo_bundles::archive`].

mod zipped;

pub use eggo_bundles::archive::{Format, Member, MemberKind, Visit, head, sniff};

use crate::cache;
use eggo_bundles::archive::{Fault, Limits, inflate, walk_tar};
use eggo_terminal::Explain;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

const BUFFER: usize = 1 << 17;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{}`", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("`{}` is not an archive (tar, tar.gz, tar.xz, tar.zst, tar.bz2, zip)", .0.display())]
    NotAnArchive(PathBuf),
    #[error("archive `{}` is refused: {reason}", .file.display())]
    Refused { file: PathBuf, reason: String },
    #[error(transparent)]
    Visitor(Box<dyn std::error::Error + Send + Sync>),
}

impl Explain for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Error::Refused { .. } => {
                Some("take the file from its author again, or report it to them".to_string())
            }
            // Members are mostly put into the cache.
            Error::Visitor(error) => error.downcast_ref::<cache::Error>().and_then(Explain::hint),
            _ => None,
        }
    }
}

/// Calls `visit` for every member, in order. What it does not read is skipped.
pub fn walk(path: &Path, visit: &mut Visit<'_>) -> Result<(), Error> {
    let unreadable = |source| Error::Read { file: path.into(), source };
    let head = head(path).map_err(unreadable)?;
    let format = sniff(&head).ok_or_else(|| Error::NotAnArchive(path.into()))?;
    let file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let limits = Limits::of_size(size);
    let result = match format {
        Format::Zip => zipped::walk(file, limits, visit),
        other => open(file, other).map_err(Fault::from).and_then(|reader| walk_tar(reader, limits, visit)),
    };
    result.map_err(|fault| match fault {
        Fault::Refused(reason) => Error::Refused { file: path.into(), reason },
        Fault::Io(source) => Error::Refused { file: path.into(), reason: source.to_string() },
        Fault::Visitor(source) => Error::Visitor(source),
    })
}

/// The tar inside.
fn open(file: File, format: Format) -> io::Result<Box<dyn Read>> {
    let source = BufReader::with_capacity(BUFFER, file);
    match format {
        Format::TarBz2 => Ok(Box::new(bzip2::bufread::MultiBzDecoder::new(source))),
        other => inflate(source, other),
    }
}

#[cfg(test)]
mod tests;
