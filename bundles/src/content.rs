//! What a file says of itself: the arch of an executable, a package's name and version,
//! an image's platform. Foreign bytes: every size is bounded before anything is allocated.

pub mod deb;
pub mod elf;
pub mod image;
pub mod rpm;

use crate::index::{Item, Kind};
use std::io::{self, Read};

/// Why a file does not say it.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0}")]
    Malformed(String),
}

fn malformed<T>(why: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Malformed(why.into()))
}

/// Reads exactly `length` bytes, which must be at most `limit`; what ends early is malformed, not an I/O error.
fn read_bounded(reader: &mut dyn Read, length: u64, limit: u64, what: &str) -> Result<Vec<u8>, Problem> {
    if length > limit {
        return malformed(format!("its {what} claims {length} bytes; the limit is {limit}"));
    }
    let mut bytes = Vec::new();
    reader.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length { Ok(bytes) } else { malformed(format!("it ends inside its {what}")) }
}

/// The arch that the content of an item is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// Fits every arch, or does not say.
    Anywhere,
    /// For this arch, in the words of the content.
    For(String),
}

/// Reads from `content` as much as it takes to know which arch it is for. `is_config` marks
/// the configuration of an image.
pub fn made_for(item: &Item, is_config: bool, content: &mut dyn Read) -> Result<Made, Problem> {
    let anywhere_or =
        |architecture: String, anywhere: &[&str]| match anywhere.contains(&architecture.as_str()) {
            true => Made::Anywhere,
            false => Made::For(architecture),
        };
    match item.kind {
        Kind::Bin | Kind::Dir => {
            Ok(elf::read(content)?.map_or(Made::Anywhere, |elf| elf.made_for(item.kind)))
        }
        Kind::Pkg => {
            let mut magic = [0; 8];
            let length = read_up_to(content, &mut magic)?;
            let mut whole = io::Read::chain(&magic[..length], content);
            if magic == *deb::MAGIC {
                Ok(anywhere_or(deb::read(&mut whole)?.architecture().to_string(), &["all"]))
            } else if magic.starts_with(&rpm::MAGIC) {
                Ok(anywhere_or(rpm::read(&mut whole)?.architecture, &["noarch"]))
            } else {
                malformed("it is neither a .deb nor an .rpm")
            }
        }
        Kind::Image if is_config => Ok(Made::For(image::read_config(content)?.architecture)),
        Kind::Image | Kind::File | Kind::Addon => Ok(Made::Anywhere),
    }
}

/// Fills as much of `buffer` as there is.
fn read_up_to(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
