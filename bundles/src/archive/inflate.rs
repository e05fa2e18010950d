//! The compression around a tar: opened by its format, checked to its very end.

use super::Format;
use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};

const BUFFER: usize = 1 << 17;
/// What an xz or zstd stream may make us allocate.
const MAX_WINDOW_LOG: u32 = 27;
const MAX_XZ_MEMORY: u64 = 128 << 20;

/// The bytes inside. bzip2 and zip are not read here: only a build meets them.
pub fn inflate<'a>(source: impl BufRead + 'a, format: Format) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match format {
        Format::TarGz => Box::new(Gunzip { state: Some(Box::new(GzDecoder::new(source))) }),
        Format::TarXz => {
            let stream =
                liblzma::stream::Stream::new_stream_decoder(MAX_XZ_MEMORY, liblzma::stream::CONCATENATED)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(source, stream))
        }
        Format::TarZst => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
            decoder.window_log_max(MAX_WINDOW_LOG)?;
            Box::new(decoder)
        }
        Format::Tar => Box::new(source),
        Format::TarBz2 | Format::Zip => {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "bzip2 and zip are not read here"));
        }
    })
}

/// Gzip members one after another. Zeros may follow the last one, as tape drives pad; anything
/// else is refused, for another reader might take it for content.
struct Gunzip<R: BufRead> {
    state: Option<Box<GzDecoder<R>>>,
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let Some(decoder) = &mut self.state else { return Ok(0) };
            let n = decoder.read(buffer)?;
            if n > 0 {
                return Ok(n);
            }
            let Some(decoder) = self.state.take() else { return Ok(0) };
            let mut source = decoder.into_inner();
            if source.fill_buf()?.first() == Some(&0x1f) {
                self.state = Some(Box::new(GzDecoder::new(source)));
            } else {
                only_zeros(&mut source, "garbage after the end of the gzip data")?;
            }
        }
    }
}

pub fn only_zeros(source: &mut impl Read, otherwise: &str) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = source.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        if buffer[..n].iter().any(|byte| *byte != 0) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, otherwise));
        }
    }
}
