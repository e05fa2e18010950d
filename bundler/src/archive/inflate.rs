//! The compression around a tar: opened by its magic, checked to its very end.

use super::Format;
use flate2::bufread::GzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

const BUFFER: usize = 1 << 17;
/// What an xz or zstd stream may make us allocate.
const MAX_WINDOW_LOG: u32 = 27;
const MAX_XZ_MEMORY: u64 = 128 << 20;

pub fn open(file: File, format: Format) -> io::Result<Box<dyn Read>> {
    let source = BufReader::with_capacity(BUFFER, file);
    Ok(match format {
        Format::TarGz => Box::new(Gunzip { state: Some(GzDecoder::new(source)) }),
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
        Format::TarBz2 => Box::new(bzip2::bufread::MultiBzDecoder::new(source)),
        Format::Tar | Format::Zip => Box::new(source),
    })
}

/// Gzip members one after another. Zeros may follow the last one, as tape drives pad; anything
/// else is refused, for another reader might take it for content.
struct Gunzip<R: BufRead> {
    state: Option<GzDecoder<R>>,
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
                self.state = Some(GzDecoder::new(source));
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
