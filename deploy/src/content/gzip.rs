//! A gzip file of foreign make, read strictly: several members are one stream, zeros may pad the
//! end, anything else behind a member is refused.

use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};

pub struct Members<R> {
    state: Option<State<R>>,
}

enum State<R> {
    Inside(Box<GzDecoder<R>>),
    Between(R),
}

impl<R: BufRead> Members<R> {
    pub fn new(reader: R) -> Self {
        Self { state: Some(State::Inside(Box::new(GzDecoder::new(reader)))) }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.state.take() {
                None => return Ok(0),
                Some(State::Inside(mut decoder)) => {
                    let read = decoder.read(buffer)?;
                    if read > 0 || buffer.is_empty() {
                        self.state = Some(State::Inside(decoder));
                        return Ok(read);
                    }
                    self.state = Some(State::Between(decoder.into_inner()));
                }
                Some(State::Between(mut reader)) => match reader.fill_buf()?.first() {
                    None => return Ok(0),
                    Some(0) => return only_zeros(&mut reader).map(|()| 0),
                    Some(_) => self.state = Some(State::Inside(Box::new(GzDecoder::new(reader)))),
                },
            }
        }
    }
}

fn only_zeros(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.iter().any(|byte| *byte != 0) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "bytes stand behind the end of the file"));
        }
        let length = bytes.len();
        reader.consume(length);
    }
}
