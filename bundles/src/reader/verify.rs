//! Checking a whole bundle: every entry, on several threads.

use super::archive::Scratch;
use super::entry::EntryReader;
use super::{Bundle, Contents, Opened, Readable};
use crate::Digest;
use crate::content::{self, Made, Problem};
use crate::digest::Hasher;
use crate::entries::{Body, FULL_SIGNATURE, INDEX, SBOM, SIGNATURE, SUMS};
use crate::error::{Error, Refusal};
use crate::index::{Item, Kind};
use crate::progress::Progress;
use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, Read};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// More threads than this only wait for the disk, and each holds memory.
const MOST_WORKERS: usize = 16;

impl<T: Readable> Bundle<T> {
    /// Checks every byte of the file: framing, headers, padding, content, and the arch that
    /// content is made for. A delta with a base also checks what it takes from there.
    pub fn verify_all(&self, progress: &dyn Progress) -> Result<(), Error> {
        self.opened().verify_all(progress)
    }
}

impl Opened {
    fn verify_all(&self, progress: &dyn Progress) -> Result<(), Error> {
        let entries = &self.contents.entries.list;
        let users = Users::new(&self.contents);
        let task = progress.start("verifying", Some(entries.iter().map(|entry| entry.size()).sum()));
        let outcome = for_each_entry(self, &(0..entries.len()).collect::<Vec<_>>(), |number, scratch| {
            let advance = |bytes| progress.advance(task, bytes);
            let mut content = EntryContent::new(self, number, scratch, &advance);
            let checked = self.contents.check_content(number, &users, &mut content);
            content.finish(checked)
        });
        progress.finish(task);
        outcome?;
        self.check_end(&mut Scratch::new())?;
        self.base.as_ref().map_or(Ok(()), |base| base.verify_all(progress))
    }

    pub(super) fn read_sbom(&self) -> Result<Vec<u8>, Error> {
        let entries = &self.contents.entries.list;
        let Some(number) = entries.iter().position(|entry| entry.item.is_none() && entry.path == SBOM) else {
            return Ok(Vec::new());
        };
        let mut content = EntryContent::new(self, number, Scratch::new(), &|_| ());
        let mut bytes = Vec::new();
        let read = content.read_to_end(&mut bytes).map_err(Unfit::Io);
        let checked = read.and_then(|_| self.contents.check_digest(number, content.digest()));
        content.finish(checked).map(|_| bytes)
    }
}

/// Works on entries on several threads, the largest first so that no thread is left alone with one.
pub(super) fn for_each_entry(
    opened: &Opened,
    numbers: &[usize],
    work: impl Fn(usize, Scratch) -> Result<Scratch, Error> + Sync,
) -> Result<(), Error> {
    let mut order = numbers.to_vec();
    order.sort_by_key(|&number| std::cmp::Reverse(opened.contents.entries.list[number].size()));
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    let run = || {
        let mut scratch = Scratch::new();
        while let Some(&number) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            match work(number, scratch) {
                Ok(back) => scratch = back,
                Err(error) => {
                    next.store(order.len(), Ordering::Relaxed);
                    let mut failed = failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    // Of several failures the one that stands first in the bundle is told.
                    if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                        *failed = Some((number, error));
                    }
                    return;
                }
            }
        }
    };
    let workers = thread::available_parallelism().map_or(2, usize::from).min(MOST_WORKERS);
    thread::scope(|scope| {
        for _ in 1..workers.min(order.len()) {
            scope.spawn(run);
        }
        run();
    });
    match failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// Content could not be read, or is not what it must be.
pub(super) enum Unfit {
    Io(io::Error),
    Refused(Refusal),
}

/// Who uses which content, beyond the entry that carries it.
pub(super) struct Users {
    sharers: HashMap<Digest, Vec<usize>>,
    configs: HashSet<Digest>,
}

impl Users {
    pub(super) fn new(contents: &Contents) -> Self {
        let mut sharers: HashMap<Digest, Vec<usize>> = HashMap::new();
        for entry in &contents.entries.list {
            if let (Body::HardLink { .. }, Some(position)) = (&entry.body, entry.item) {
                sharers.entry(contents.index.items[position].sha256).or_default().push(position);
            }
        }
        Self { sharers, configs: contents.index.images.iter().map(|image| image.config).collect() }
    }
}

impl Contents {
    /// Reads the content of entry `number` to its end and compares it with the index.
    pub(super) fn check_content(
        &self,
        number: usize,
        users: &Users,
        content: &mut dyn Hashed,
    ) -> Result<(), Unfit> {
        let entry = &self.entries.list[number];
        let carried = entry.item.filter(|_| matches!(entry.body, Body::Content { .. }));
        let made = carried.map(|position| self.check_arch(position, users, content));
        drain(content).map_err(Unfit::Io)?;
        self.check_digest(number, content.digest())?;
        made.unwrap_or(Ok(()))
    }

    pub(super) fn check_digest(&self, number: usize, found: Digest) -> Result<(), Unfit> {
        let entry = &self.entries.list[number];
        let expected = match (&entry.body, entry.item) {
            (Body::Content { .. }, Some(position)) => Some(self.index.items[position].sha256),
            (Body::Content { .. }, None) => self.root_digest(&entry.path),
            _ => None,
        };
        match expected.filter(|&expected| expected != found) {
            Some(expected) => {
                Err(Unfit::Refused(Refusal::Changed { path: entry.path.clone(), found, expected }))
            }
            None => Ok(()),
        }
    }

    /// Every item that has this content must be in the folder of an arch that it is made for.
    fn check_arch(&self, position: usize, users: &Users, content: &mut dyn Hashed) -> Result<(), Unfit> {
        let carrier = &self.index.items[position];
        let sharers =
            users.sharers.get(&carrier.sha256).into_iter().flatten().map(|&other| &self.index.items[other]);
        let is_config = users.configs.contains(&carrier.sha256);
        let tells = |item: &&Item| match item.kind {
            Kind::Pkg | Kind::Bin | Kind::Dir => true,
            Kind::Image => is_config,
            Kind::File | Kind::Addon => false,
        };
        let telling: Vec<&Item> = std::iter::once(carrier).chain(sharers).filter(tells).collect();
        // A package tells more than a program, a program more than a folder.
        let Some(first) = telling.iter().min_by_key(|item| item.kind) else { return Ok(()) };
        match content::made_for(first, is_config, content) {
            Ok(Made::Anywhere) => Ok(()),
            Ok(Made::For(found)) => match telling.iter().find(|item| found.parse() != Ok(item.arch)) {
                None => Ok(()),
                Some(item) => {
                    let path = item.path.clone();
                    Err(Unfit::Refused(Refusal::WrongArch { path, expected: item.arch, found }))
                }
            },
            Err(Problem::Io(error)) => Err(Unfit::Io(error)),
            Err(Problem::Malformed(why)) => {
                Err(Unfit::Refused(Refusal::Content { path: first.path.clone(), why }))
            }
        }
    }

    fn root_digest(&self, path: &str) -> Option<Digest> {
        match path {
            INDEX => Some(Digest::of(&self.front.index)),
            SIGNATURE => Some(Digest::of(self.front.signature.as_bytes())),
            FULL_SIGNATURE => self.front.full_signature.as_ref().map(|text| Digest::of(text.as_bytes())),
            SUMS => Some(Digest::of(&self.entries.sums)),
            SBOM => self.index.sbom.as_ref().map(|sbom| sbom.sha256),
            _ => None,
        }
    }
}

/// Content that knows the digest of what came out of it.
pub(super) trait Hashed: BufRead {
    fn digest(&self) -> Digest;
}

pub(super) fn drain(content: &mut dyn Hashed) -> io::Result<()> {
    loop {
        let length = content.fill_buf()?.len();
        if length == 0 {
            return Ok(());
        }
        content.consume(length);
    }
}

/// The content of an entry in a bundle on disk.
pub(super) struct EntryContent<'a> {
    opened: &'a Opened,
    entry: EntryReader,
    hasher: Hasher,
    advance: &'a dyn Fn(u64),
    /// The reason behind an I/O error, kept whole.
    failed: Option<Error>,
}

impl<'a> EntryContent<'a> {
    pub(super) fn new(opened: &'a Opened, number: usize, scratch: Scratch, advance: &'a dyn Fn(u64)) -> Self {
        let entry = EntryReader::new(opened, number, scratch);
        Self { opened, entry, hasher: Hasher::new(), advance, failed: None }
    }

    /// The scratch for the next entry, or what was wrong with this one.
    pub(super) fn finish(self, checked: Result<(), Unfit>) -> Result<Scratch, Error> {
        match (self.failed, checked) {
            (Some(error), _) => Err(error),
            (None, Err(Unfit::Io(source))) => {
                Err(Error::Io { path: self.opened.archive.path.clone(), source })
            }
            (None, Err(Unfit::Refused(why))) => Err(self.opened.archive.refused(why)),
            (None, Ok(())) => Ok(self.entry.into_scratch()),
        }
    }
}

impl BufRead for EntryContent<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.failed.is_none() && self.entry.piece().is_empty() {
            match self.entry.next(self.opened) {
                Ok(true) => {
                    self.hasher.update(self.entry.piece());
                    (self.advance)(self.entry.piece().len() as u64);
                }
                Ok(false) => break,
                Err(error) => self.failed = Some(error),
            }
        }
        match self.failed {
            Some(_) => Err(io::ErrorKind::InvalidData.into()),
            None => Ok(self.entry.piece()),
        }
    }

    fn consume(&mut self, length: usize) {
        self.entry.consume(length);
    }
}

impl Read for EntryContent<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

impl Hashed for EntryContent<'_> {
    fn digest(&self) -> Digest {
        self.hasher.clone().finish()
    }
}
