//! Compressed metadata as bytes, never more of them than it may have.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Opens a metadata file by its magic; gives at most `limit` bytes.
pub(super) fn inflate(path: &Path, limit: u64) -> io::Result<Box<dyn BufRead + Send>> {
    let mut source = BufReader::with_capacity(1 << 17, File::open(path)?);
    let head = source.fill_buf()?;
    let reader: Box<dyn Read + Send> = match head {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::stream::read::Decoder::with_buffer(source)?),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(source))
        }
        [b'B', b'Z', b'h', ..] => Box::new(bzip2::bufread::MultiBzDecoder::new(source)),
        _ => Box::new(source),
    };
    let otherwise = "it inflates to more than the repository says";
    Ok(Box::new(BufReader::with_capacity(1 << 17, Bounded { reader, left: limit, otherwise })))
}

pub(super) fn whole_text(reader: impl Read, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let otherwise = "it is larger than any that is known";
    Bounded { reader, left: most, otherwise }.read_to_string(&mut text)?;
    Ok(text)
}

/// Fails when the inner reader gives more than it should, instead of cutting it off.
struct Bounded<R> {
    reader: R,
    left: u64,
    otherwise: &'static str,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buffer)?;
        let too_much = || io::Error::new(io::ErrorKind::InvalidData, self.otherwise);
        self.left = self.left.checked_sub(n as u64).ok_or_else(too_much)?;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_whole_or_refused() {
        assert_eq!(whole_text(&b"modules"[..], 7).unwrap(), "modules");
        let error = whole_text(io::repeat(b'x'), 1 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
