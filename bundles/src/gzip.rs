//! One gzip member: a fixed ten-byte header, raw deflate, CRC-32 and length.
//!
//! A member is decoded as a whole and must end exactly where it is said to end, so that
//! no other reader of the same bytes sees more or less than this one.

use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, Compressor, crc32};

/// No name, no time, no flags, operating system unknown.
pub(crate) const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
pub(crate) const TRAILER: usize = 8;
/// The longest member that a reader takes, however badly its writer deflated.
pub(crate) const LONGEST: u64 = 2 << 20;
/// An empty final block, as every gzip writes it.
const EMPTY_DEFLATE: [u8; 2] = [3, 0];

/// The largest content of a stored block.
const STORED: usize = 0xffff;
/// Level 1 of libdeflate gives all but the last two per cent of level 6 on binaries, in half of the time.
const LEVEL: i32 = 1;
/// Of each member this much is tried before the rest is deflated.
const SAMPLE: usize = 8 << 10;

/// Makes members. One per thread: it keeps the compressor's tables.
pub(crate) struct Encoder {
    compressor: Compressor,
    sample: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        let level = CompressionLvl::new(LEVEL).expect("libdeflate has this level");
        Self { compressor: Compressor::new(level), sample: vec![0; 2 * SAMPLE] }
    }

    /// Replaces `out` by the member of `content`. Equal content gives equal bytes.
    pub(crate) fn encode(&mut self, content: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend(HEADER);
        if self.shrinks(content) {
            let bound = self.compressor.deflate_compress_bound(content.len());
            out.resize(HEADER.len() + bound, 0);
            let length = self
                .compressor
                .deflate_compress(content, &mut out[HEADER.len()..])
                .expect("the bound leaves enough space");
            out.truncate(HEADER.len() + length);
            if length > stored_length(content.len()) {
                out.truncate(HEADER.len());
                store(content, out);
            }
        } else {
            store(content, out);
        }
        out.extend(crc32(content).to_le_bytes());
        out.extend((content.len() as u32).to_le_bytes());
    }

    /// Whether a piece from the middle of `content` deflates by at least a sixteenth.
    fn shrinks(&mut self, content: &[u8]) -> bool {
        if content.len() <= 4 * SAMPLE {
            return true;
        }
        let pieces = [content.len() / 4, content.len() * 3 / 4];
        pieces.into_iter().any(|start| {
            let piece = &content[start..start + SAMPLE];
            let length = self.compressor.deflate_compress(piece, &mut self.sample);
            length.is_ok_and(|length| length < SAMPLE - SAMPLE / 16)
        })
    }
}

fn stored_length(length: usize) -> usize {
    length + 5 * length.div_ceil(STORED).max(1)
}

fn store(content: &[u8], out: &mut Vec<u8>) {
    out.reserve(stored_length(content.len()) + TRAILER);
    let mut rest = content;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(STORED));
        let length = piece.len() as u16;
        out.push(u8::from(after.is_empty()));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(piece);
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
}

/// What is wrong with a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadMember {
    #[error("its gzip header is not as it must be")]
    Header,
    #[error("its deflate stream is damaged")]
    Deflate,
    #[error("it has another length than it must have")]
    Length,
    #[error("its CRC-32 does not hold")]
    Crc,
    #[error("it is truncated")]
    Short,
}

/// Reads members. One per thread: it keeps the inflater's window.
pub(crate) struct Decoder {
    inflate: Decompress,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self { inflate: Decompress::new(false) }
    }

    /// Fills `content` with what `member` holds: neither more nor less.
    pub(crate) fn decode(&mut self, member: &[u8], content: &mut [u8]) -> Result<(), BadMember> {
        let length = content.len();
        let found = self.decode_up_to(member, content)?;
        if found == length { Ok(()) } else { Err(BadMember::Length) }
    }

    /// Puts what `member` holds to the front of `content`, which must have room for it.
    pub(crate) fn decode_up_to(&mut self, member: &[u8], content: &mut [u8]) -> Result<usize, BadMember> {
        let rest = member.strip_prefix(&HEADER).ok_or(BadMember::Header)?;
        let (deflated, trailer) = rest.split_last_chunk::<TRAILER>().ok_or(BadMember::Short)?;
        self.inflate.reset(false);
        let status = self.inflate.decompress(deflated, content, FlushDecompress::Finish);
        match status.map_err(|_| BadMember::Deflate)? {
            Status::StreamEnd => {}
            Status::Ok | Status::BufError => return Err(BadMember::Length),
        }
        if self.inflate.total_in() != deflated.len() as u64 {
            return Err(BadMember::Length);
        }
        let found = self.inflate.total_out() as usize;
        check_trailer(trailer, &content[..found])?;
        Ok(found)
    }
}

/// The CRC-32 and length that are behind `content`.
pub(crate) fn check_trailer(trailer: &[u8; TRAILER], content: &[u8]) -> Result<(), BadMember> {
    let (crc, length) = trailer.split_at(4);
    if length != (content.len() as u32).to_le_bytes() {
        return Err(BadMember::Length);
    }
    if crc != crc32(content).to_le_bytes() {
        return Err(BadMember::Crc);
    }
    Ok(())
}

/// An empty member that carries `data` in a header field which every gzip skips.
pub(crate) fn extra_member(id: [u8; 2], data: &[u8]) -> Vec<u8> {
    let mut bytes = extra_header(id, data.len());
    bytes.extend(data);
    bytes.extend(EMPTY_DEFLATE);
    bytes.extend([0; TRAILER]);
    bytes
}

/// The length of [`extra_member`] with `length` bytes of data.
pub(crate) const fn extra_member_length(length: usize) -> usize {
    HEADER.len() + 6 + length + EMPTY_DEFLATE.len() + TRAILER
}

/// The data in an [`extra_member`] that is all of `bytes`.
pub(crate) fn extra_data(id: [u8; 2], bytes: &[u8]) -> Option<&[u8]> {
    let length = bytes.len().checked_sub(extra_member_length(0))?;
    let rest = bytes.strip_prefix(extra_header(id, length).as_slice())?;
    let data = &rest[..length];
    (rest[length..] == *[&EMPTY_DEFLATE[..], &[0; TRAILER]].concat()).then_some(data)
}

fn extra_header(id: [u8; 2], length: usize) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    bytes[3] = 4;
    let length = u16::try_from(length + 4).expect("extra fields are cut to fit");
    bytes.extend(length.to_le_bytes());
    bytes.extend(id);
    bytes.extend((length - 4).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn members_decode_here_and_elsewhere() {
        let mut encoder = Encoder::new();
        let mut decoder = Decoder::new();
        let mut member = Vec::new();
        for content in [vec![], b"x".to_vec(), vec![7; 1 << 20], noise(1 << 20), noise(65535), noise(70000)] {
            encoder.encode(&content, &mut member);
            let mut back = vec![0; content.len()];
            decoder.decode(&member, &mut back).unwrap();
            assert!(back == content);
            let mut there = Vec::new();
            flate2::read::GzDecoder::new(&member[..]).read_to_end(&mut there).unwrap();
            assert!(there == content);
        }
    }

    #[test]
    fn noise_is_stored() {
        let content = noise(1 << 20);
        let mut member = Vec::new();
        Encoder::new().encode(&content, &mut member);
        assert_eq!(member.len(), HEADER.len() + stored_length(content.len()) + TRAILER);
    }

    #[test]
    fn bytes_behind_the_stream_are_refused() {
        let mut member = Vec::new();
        Encoder::new().encode(b"content", &mut member);
        let trailer = member.split_off(member.len() - TRAILER);
        member.extend(b"hidden");
        member.extend(trailer);
        assert_eq!(Decoder::new().decode(&member, &mut [0; 7]), Err(BadMember::Length));
    }

    #[test]
    fn extra_data_is_found_only_if_every_byte_fits() {
        let member = extra_member(*b"ET", b"table");
        assert_eq!(member.len(), extra_member_length(5));
        assert_eq!(extra_data(*b"ET", &member), Some(&b"table"[..]));
        for position in (0..member.len()).filter(|&p| !(16..21).contains(&p)) {
            let mut changed = member.clone();
            changed[position] ^= 1;
            assert_eq!(extra_data(*b"ET", &changed), None, "byte {position}");
        }
        let mut content = Vec::new();
        flate2::read::GzDecoder::new(&member[..]).read_to_end(&mut content).unwrap();
        assert!(content.is_empty());
    }
}
