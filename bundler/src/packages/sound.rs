//! Whether a package is complete and in order, so that nothing is signed into a bundle that dpkg-deb or
//! rpm refuses on a node: metadata that vouches for a file says nothing about what is in it.
//!
//! A .deb:
//! 1. its members are the right ones in the right order, and the control archive is in order
//! 2. the data archive can be unpacked to its end, and nothing in it leads out
//! 3. nothing that counts follows
//!
//! An .rpm:
//! 1. lead and headers are in order
//! 2. the header has the digest that the signature header names
//! 3. so has the payload

use crate::cache::{self, Cache, Remembered};
use eggo_bundles::Digest;
use eggo_bundles::archive::{Fault, Format, Limits, inflate, scan_tar};
use eggo_bundles::content::rpm::{self, tag};
use eggo_bundles::content::{Problem, deb};
use eggo_bundles::digest::Hasher;
use md5::Digest as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

const BUFFER: usize = 1 << 17;
/// What an lzma stream may make us allocate.
const MAX_MEMORY: u64 = 128 << 20;

/// Reads the file that `path` holds as what its `name` says.
pub fn check(name: &str, path: &Path) -> Result<(), Problem> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(BUFFER, file);
    if name.ends_with(".rpm") { check_rpm(&mut reader) } else { check_deb(&mut reader, size) }
}

/// The same for content of the cache, once: what was found in order is remembered.
pub fn check_once(name: &str, sha256: &Digest, cache: &Cache) -> Result<(), Unsound> {
    let key = format!("sound package 1 {sha256}");
    if cache.recall(&key)?.is_some() {
        return Ok(());
    }
    let path = cache.path(sha256);
    check(name, &path)?;
    let size = std::fs::metadata(&path).map_err(Problem::Io)?.len();
    let found = Remembered { url: key.clone(), etag: None, last_modified: None, sha256: *sha256, size };
    Ok(cache.remember(&key, &found)?)
}

#[derive(Debug, thiserror::Error)]
pub enum Unsound {
    #[error(transparent)]
    Problem(#[from] Problem),
    #[error(transparent)]
    Cache(#[from] cache::Error),
}

fn malformed<T>(why: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Malformed(why.into()))
}

pub fn check_deb(reader: &mut dyn Read, size: u64) -> Result<(), Problem> {
    let mut members = deb::Members::open(reader)?;
    members.control()?;
    let (name, data) = members.data()?;
    let mut data = BufReader::with_capacity(BUFFER, data);
    let bad = |why: String| Problem::Malformed(format!("its data archive is damaged: {why}"));
    let mut unpacked = unpacked(&name, &mut data)?;
    scan_tar(&mut unpacked, Limits::of_size(size).unpacked, &mut |path| {
        let leads_out = path.split(|byte| *byte == b'/').any(|part| part == b"..");
        match leads_out || path.contains(&b'\n') {
            true => Err(format!("`{}` is not a plain path", String::from_utf8_lossy(path).escape_debug())),
            false => Ok(()),
        }
    })
    .map_err(|fault| match fault {
        Fault::Refused(why) => bad(why),
        Fault::Io(error) => bad(error.to_string()),
        Fault::Visitor(error) => bad(error.to_string()),
    })?;
    drop(unpacked);
    // Behind the end of the compression, as far as its reader did not look.
    io::copy(&mut data, &mut io::sink()).map_err(|error| bad(error.to_string()))?;
    drop(data);
    members.end()
}

fn unpacked<'a>(name: &str, data: &'a mut dyn BufRead) -> Result<Box<dyn Read + 'a>, Problem> {
    let format = match name {
        "data.tar" => Format::Tar,
        "data.tar.gz" => Format::TarGz,
        "data.tar.xz" => Format::TarXz,
        "data.tar.zst" => Format::TarZst,
        "data.tar.bz2" => return Ok(Box::new(bzip2::bufread::MultiBzDecoder::new(data))),
        "data.tar.lzma" => {
            let stream = liblzma::stream::Stream::new_lzma_decoder(MAX_MEMORY).map_err(io::Error::from)?;
            return Ok(Box::new(liblzma::bufread::XzDecoder::new_stream(data, stream)));
        }
        other => return malformed(format!("its `{}` has an unknown compression", other.escape_debug())),
    };
    Ok(inflate(data, format)?)
}

pub fn check_rpm(reader: &mut dyn Read) -> Result<(), Problem> {
    let package = rpm::read(reader)?;
    if let Some(flaw) = package.flaw() {
        return malformed(flaw);
    }
    let (sha1, sha256) =
        (package.signature.string(tag::SIGNATURE_SHA1), package.signature.string(tag::SIGNATURE_SHA256));
    if sha1.is_none() && sha256.is_none() {
        return malformed("it has no digest of its header");
    }
    let of_header = [
        sha1.map(|expected| (expected, hex::encode(sha1::Sha1::digest(&package.header)))),
        sha256.map(|expected| (expected, Digest::of(&package.header).hex().to_string())),
    ];
    if of_header.iter().flatten().any(|(expected, found)| expected != found) {
        return malformed("its header does not have the digest that it should have");
    }
    let mut md5 = md5::Md5::new_with_prefix(&package.header);
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = reader.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        md5.update(&buffer[..length]);
        hasher.update(&buffer[..length]);
    }
    let md5_of_all =
        package.signature.bytes(tag::SIGNATURE_MD5).map(|expected| expected == &md5.finalize()[..]);
    let sha256_of_payload = package.payload_sha256.map(|expected| expected == hasher.finish().hex());
    match [md5_of_all, sha256_of_payload] {
        [None, None] => malformed("it has no digest of its payload"),
        both if both.contains(&Some(false)) => {
            malformed("its payload does not have the digest that it should have")
        }
        _ => Ok(()),
    }
}
