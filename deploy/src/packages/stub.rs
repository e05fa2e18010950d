//! A package without what it would install: some kilobytes that tell a package manager all that it
//! decides by. An rpm is one up to the end of its header; a deb gets a data archive with nothing in it.

use std::io::{self, Read};

/// A reader that keeps what was read.
pub struct Seen<R> {
    inner: R,
    pub bytes: Vec<u8>,
}

impl<R: Read> Seen<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, bytes: Vec::new() }
    }
}

impl<R: Read> Read for Seen<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.bytes.extend_from_slice(&buffer[..length]);
        Ok(length)
    }
}

/// Two blocks of zeros are a tar that ends at once.
const EMPTY_TAR: [u8; 1024] = [0; 1024];

/// `head` ends with the control archive.
pub fn deb(mut head: Vec<u8>) -> Vec<u8> {
    // Members of an ar archive start at even bytes.
    if head.len() % 2 == 1 {
        head.push(b'\n');
    }
    let member =
        format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "data.tar", 0, 0, 0, 100644, EMPTY_TAR.len());
    head.extend_from_slice(member.as_bytes());
    head.extend_from_slice(&EMPTY_TAR);
    head
}
