//! Reading a bundle from a pipe: once, in order, without the table at its end, which is
//! only compared when it arrives.

use super::extract::{Chosen, Extracted, Root, Selection};
use super::front::{self, Members};
use super::verify::{Hashed, Unfit, Users, drain};
use super::{Contents, OwnedFront, check};
use crate::Digest;
use crate::digest::Hasher;
use crate::entries::{BLOCK, FULL_SIGNATURE, INDEX, MEMBER, SIGNATURE};
use crate::error::{Error, Refusal};
use crate::gzip::{BadMember, HEADER, LONGEST, TRAILER, check_trailer};
use crate::index::Index;
use crate::keys::{PublicKey, TrustedKeys};
use crate::progress::Progress;
use crate::rules::{LONGEST_INDEX, LONGEST_SIGNATURE};
use crate::table::{self, BadTable, Member};
use crate::tape;
use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::Crc;
use std::io::{self, BufRead, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

const BUFFER: usize = 256 << 10;

/// A bundle that comes through a pipe; nothing of it is trusted yet.
pub struct Pipe {
    stream: Stream,
    front: OwnedFront,
}

/// One whose index may be read. Its content is still to come.
pub struct OpenPipe {
    stream: Stream,
    contents: Contents,
}

impl Pipe {
    /// `name` is what errors call it.
    pub fn open(input: impl Read + Send + 'static, name: &Path) -> Result<Self, Error> {
        let mut stream = Stream::new(Box::new(input), name);
        if !stream.fill()? {
            return Err(Error::Empty { path: name.to_path_buf() });
        }
        let index = front::read(&mut stream, INDEX, LONGEST_INDEX).map_err(front::not_a_bundle)?;
        let signature = front::read(&mut stream, SIGNATURE, LONGEST_SIGNATURE)?;
        let signature = String::from_utf8_lossy(&signature).into_owned();
        Ok(Self { stream, front: OwnedFront { index, signature, full_signature: None } })
    }

    /// The trusted key that signed the index; nothing is read for that.
    pub fn signer(&self, trusted: &TrustedKeys) -> Result<PublicKey, Error> {
        self.front.trust(&self.stream.name, trusted)
    }

    /// Checks the signature, and only then reads the index.
    pub fn verify(self, trusted: &TrustedKeys) -> Result<OpenPipe, Error> {
        self.signer(trusted)?;
        self.read_index(Some(trusted))
    }

    /// Reads the index although nobody vouches for it.
    pub fn without_trust(self) -> Result<OpenPipe, Error> {
        self.read_index(None)
    }

    fn read_index(self, trusted: Option<&TrustedKeys>) -> Result<OpenPipe, Error> {
        let Self { mut stream, front } = self;
        let name = stream.name.clone();
        let read_full = || front::read(&mut stream, FULL_SIGNATURE, LONGEST_SIGNATURE);
        let contents = Contents::new(&name, front, trusted, read_full)?;
        Ok(OpenPipe { stream, contents })
    }
}

impl OpenPipe {
    pub fn index(&self) -> &Index {
        &self.contents.index
    }

    /// The digest by which deltas know this bundle: that of its full index.
    pub fn identity(&self) -> Digest {
        self.contents.identity()
    }

    /// Reads to the end and checks every byte; gives their number.
    pub fn verify_all(mut self, progress: &dyn Progress) -> Result<u64, Error> {
        let users = Users::new(&self.contents);
        self.each("verifying", progress, |contents, number, content| {
            Ok(contents.check_content(number, &users, content))
        })
    }

    /// Extracts what is selected into `folder`, and checks the digests of all the rest on the way.
    pub fn extract(
        mut self,
        folder: &Path,
        selection: &Selection,
        progress: &dyn Progress,
    ) -> Result<Extracted, Error> {
        let chosen = Chosen::new(&self.contents, selection)?;
        if let (Some(&position), Selection::Paths(_)) = (chosen.elsewhere.first(), selection) {
            let entry = self.contents.index.items[position].path.clone();
            let parent = self.contents.index.parent.unwrap_or_else(|| Digest::of(b""));
            return Err(Error::NeedsBase { path: self.stream.name, entry, parent });
        }
        let root = Root::open(folder)?;
        let mut extracted = Extracted::default();
        let front = self.contents.front.clone();
        for (name, bytes) in front.files() {
            let number = self.contents.entries.list.iter().position(|entry| entry.path == name);
            if let Some(job) = number.and_then(|number| chosen.jobs.get(&number)) {
                let mut content = Remembered { bytes, hasher: Hasher::new() };
                let _ = root.place(job, &mut content, &|_| Ok(()))?;
                extracted.count(job.places(), bytes.len() as u64);
            }
        }
        self.each("extracting", progress, |contents, number, content| {
            let check = |digest| contents.check_digest(number, digest);
            match chosen.jobs.get(&number) {
                Some(job) => {
                    extracted.count(job.places(), contents.entries.list[number].size());
                    root.place(job, content, &check)
                }
                None => Ok(drain(content).map_err(Unfit::Io).and_then(|()| check(content.digest()))),
            }
        })?;
        chosen.links.iter().try_for_each(|(path, target)| root.link(path, target))?;
        extracted.count(chosen.links.len(), 0);
        Ok(extracted)
    }

    /// Goes through the entries that are still to come, then the end and the table; gives the
    /// length of the whole stream.
    fn each(
        &mut self,
        label: &str,
        progress: &dyn Progress,
        mut visit: impl FnMut(&Contents, usize, &mut Streamed<'_>) -> Result<Result<(), Unfit>, Error>,
    ) -> Result<u64, Error> {
        let Self { stream, contents, .. } = self;
        let list = &contents.entries.list;
        let task = progress.start(label, Some(list.iter().map(|entry| entry.size()).sum()));
        let name = stream.name.clone();
        let refused = |why| Error::Refused { path: name.clone(), why };
        for (number, entry) in list.iter().enumerate().skip(contents.front.files().count()) {
            let mut content = Streamed::new(stream, contents, number);
            let visited = visit(contents, number, &mut content);
            if let Some(error) = content.failed {
                return Err(error);
            }
            match visited? {
                Ok(()) => progress.advance(task, entry.size()),
                Err(Unfit::Refused(why)) => return Err(refused(why)),
                Err(Unfit::Io(source)) => return Err(Error::Io { path: name.clone(), source }),
            }
        }
        progress.finish(task);
        let end = stream.next("end of archive")?;
        if let Some(why) = contents.at_end(end) {
            return Err(refused(why));
        }
        stream.check_tail()
    }
}

/// A front file that has gone by already.
struct Remembered<'a> {
    bytes: &'a [u8],
    hasher: Hasher,
}

impl Read for Remembered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(buffer)
    }
}

impl BufRead for Remembered<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(self.bytes)
    }

    fn consume(&mut self, length: usize) {
        self.hasher.update(&self.bytes[..length]);
        self.bytes = &self.bytes[length..];
    }
}

impl Hashed for Remembered<'_> {
    fn digest(&self) -> Digest {
        self.hasher.clone().finish()
    }
}

/// Cuts a stream into members, and remembers what the table must say of them.
struct Stream {
    name: PathBuf,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// What of the buffer is not used yet.
    rest: Range<usize>,
    inflate: Decompress,
    content: Vec<u8>,
    members: Vec<Member>,
    /// Over the bytes of the current member.
    crc: Crc,
    length: u64,
}

impl Stream {
    fn new(input: Box<dyn Read + Send>, name: &Path) -> Self {
        Self {
            name: name.to_path_buf(),
            input,
            buffer: vec![0; BUFFER],
            rest: 0..0,
            inflate: Decompress::new(false),
            content: Vec::new(),
            members: Vec::new(),
            crc: Crc::new(),
            length: 0,
        }
    }

    /// Makes sure that the buffer has unused bytes; false at the end of the input.
    fn fill(&mut self) -> Result<bool, Error> {
        while self.rest.is_empty() {
            match self.input.read(&mut self.buffer) {
                Ok(0) => return Ok(false),
                Ok(length) => self.rest = 0..length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Io { path: self.name.clone(), source }),
            }
        }
        Ok(true)
    }

    fn used(&mut self, length: usize) {
        let start = self.rest.start;
        self.crc.update(&self.buffer[start..start + length]);
        self.length += length as u64;
        self.rest.start += length;
    }

    fn exactly<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Error> {
        let mut bytes = [0; N];
        let mut filled = 0;
        while filled < N {
            if !self.fill()? {
                return Ok(None);
            }
            let length = self.rest.len().min(N - filled);
            bytes[filled..filled + length]
                .copy_from_slice(&self.buffer[self.rest.start..self.rest.start + length]);
            self.used(length);
            filled += length;
        }
        Ok(Some(bytes))
    }

    fn decode(&mut self) -> Result<Result<(), BadMember>, Error> {
        self.crc = Crc::new();
        self.length = 0;
        match self.exactly::<{ HEADER.len() }>()? {
            None => return Ok(Err(BadMember::Short)),
            Some(header) if header != HEADER => return Ok(Err(BadMember::Header)),
            Some(_) => {}
        }
        self.inflate.reset(false);
        // One byte more than allowed, so that more is noticed.
        self.content.resize(MEMBER as usize + 1, 0);
        loop {
            if !self.fill()? {
                return Ok(Err(BadMember::Short));
            }
            let (before_in, before_out) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(
                &self.buffer[self.rest.clone()],
                &mut self.content[before_out as usize..],
                FlushDecompress::None,
            );
            self.used((self.inflate.total_in() - before_in) as usize);
            let produced = self.inflate.total_out();
            match status {
                Err(_) => return Ok(Err(BadMember::Deflate)),
                _ if produced > MEMBER || self.length > LONGEST => return Ok(Err(BadMember::Length)),
                Ok(Status::StreamEnd) => break,
                Ok(_) if produced == before_out && self.inflate.total_in() == before_in => {
                    return Ok(Err(BadMember::Deflate));
                }
                Ok(_) => {}
            }
        }
        self.content.truncate(self.inflate.total_out() as usize);
        let Some(trailer) = self.exactly::<TRAILER>()? else { return Ok(Err(BadMember::Short)) };
        if self.length > LONGEST {
            return Ok(Err(BadMember::Length));
        }
        if let Err(bad) = check_trailer(&trailer, &self.content) {
            return Ok(Err(bad));
        }
        self.members.push(Member { length: self.length, crc: self.crc.sum() });
        Ok(Ok(()))
    }

    /// What comes behind the archive's end is the table of exactly the members seen, and nothing
    /// more. Gives the length of the whole stream.
    fn check_tail(&mut self) -> Result<u64, Error> {
        let tail = table::tail(&self.members);
        let mut rest = &tail[..];
        let bad = |why| Error::Tail { path: self.name.clone(), why };
        let (short, differs) = (bad(BadTable::NoFooter), bad(BadTable::Damaged));
        while self.fill()? {
            let found = &self.buffer[self.rest.clone()];
            let length = found.len();
            match rest.split_at_checked(length) {
                Some((expected, after)) if expected == found => rest = after,
                _ => return Err(differs),
            }
            self.rest = 0..0;
        }
        if !rest.is_empty() {
            return Err(short);
        }
        Ok(self.members.iter().map(|member| member.length).sum::<u64>() + tail.len() as u64)
    }
}

impl Members for Stream {
    fn path(&self) -> &Path {
        &self.name
    }

    fn next(&mut self, entry: &str) -> Result<&[u8], Error> {
        match self.decode()? {
            Ok(()) => Ok(&self.content),
            Err(why) => {
                let why = Refusal::Member { path: entry.to_string(), why };
                Err(Error::Refused { path: self.name.clone(), why })
            }
        }
    }
}

/// The content of the stream's next entry.
struct Streamed<'a> {
    stream: &'a mut Stream,
    contents: &'a Contents,
    number: usize,
    header: usize,
    size: u64,
    /// How much of the entry's tar stream has been decoded.
    decoded: u64,
    piece: Range<usize>,
    hasher: Hasher,
    failed: Option<Error>,
}

impl<'a> Streamed<'a> {
    fn new(stream: &'a mut Stream, contents: &'a Contents, number: usize) -> Self {
        let entry = &contents.entries.list[number];
        let header = tape::header_length(entry) as usize;
        Self {
            stream,
            contents,
            number,
            header,
            size: entry.size(),
            decoded: 0,
            piece: 0..0,
            hasher: Hasher::new(),
            failed: None,
        }
    }

    fn total(&self) -> u64 {
        self.header as u64 + self.size.next_multiple_of(BLOCK)
    }

    fn next(&mut self) -> Result<(), Error> {
        let path = &self.contents.entries.list[self.number].path;
        let refused = |name: &Path, why| Error::Refused { path: name.to_path_buf(), why };
        let expected = (self.total() - self.decoded).min(MEMBER);
        let length = self.stream.next(path)?.len() as u64;
        let content = &self.stream.content;
        if self.decoded == 0
            && let Some(why) = check::compare(self.contents, self.number, content)
        {
            return Err(refused(&self.stream.name, why));
        }
        if length != expected {
            let why = Refusal::Member { path: path.clone(), why: BadMember::Length };
            return Err(refused(&self.stream.name, why));
        }
        let header = self.header as u64;
        let from = header.saturating_sub(self.decoded).min(length) as usize;
        let to = (header + self.size).saturating_sub(self.decoded).min(length) as usize;
        if content[to..].iter().any(|&byte| byte != 0) {
            return Err(refused(&self.stream.name, Refusal::Padding(path.clone())));
        }
        self.piece = from..to;
        self.decoded += length;
        self.hasher.update(&content[from..to]);
        Ok(())
    }
}

impl BufRead for Streamed<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.failed.is_none() && self.piece.is_empty() && self.decoded < self.total() {
            if let Err(error) = self.next() {
                self.failed = Some(error);
            }
        }
        match self.failed {
            Some(_) => Err(io::ErrorKind::InvalidData.into()),
            None => Ok(&self.stream.content[self.piece.clone()]),
        }
    }

    fn consume(&mut self, length: usize) {
        self.piece.start += length;
    }
}

impl Read for Streamed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

impl Hashed for Streamed<'_> {
    fn digest(&self) -> Digest {
        self.hasher.clone().finish()
    }
}
