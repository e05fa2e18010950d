//! Writing a bundle: entries are cut into members, packed on several threads, and written
//! in order. What is in memory is a fixed number of members, whatever the bundle's size.

use crate::entries::{Entry, INDEX, MEMBER, SBOM, SIGNATURE, SUMS};
use crate::gzip::Encoder;
use crate::index::Item;
use crate::output::{self, Output};
use crate::progress::{Progress, Task};
use crate::seal::Sealed;
use crate::table::{self, Member};
use crate::{Digest, digest::Hasher, entries, tape};
use libdeflater::crc32;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// More threads than this only wait for the disk, and each holds memory.
const MOST_WORKERS: usize = 16;

/// Gives the content of items, once each, in the order of their paths.
pub trait Store {
    fn content(&self, item: &Item) -> io::Result<Content>;
}

/// Where an item's bytes come from. They are checked against the index on their way.
pub enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
    Reader(Box<dyn Read + Send>),
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The length of the file.
    pub size: u64,
    /// The sha256 of its index: the name that a delta knows it by.
    pub index: Digest,
    /// The number of items whose content is in the file once for several of them.
    pub shared: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("cannot write `{}`", path.display())]
    Output { path: PathBuf, source: io::Error },
    #[error("cannot read the content of `{path}`{}", from(file))]
    Content { path: String, file: Option<PathBuf>, source: io::Error },
    #[error("the content of `{path}`{} is {found} bytes long, and the index says {expected}", from(file))]
    Size { path: String, file: Option<PathBuf>, found: u64, expected: u64 },
    #[error("the content of `{path}`{} has sha256 {found}, and the index says {expected}", from(file))]
    Changed { path: String, file: Option<PathBuf>, found: Digest, expected: Digest },
}

fn from(file: &Option<PathBuf>) -> String {
    file.as_ref().map(|file| format!(" in `{}`", file.display())).unwrap_or_default()
}

/// Writes the bundle to `out`, which appears only when it is whole and on the disk.
pub fn write(
    out: &Path,
    sealed: &Sealed,
    store: &dyn Store,
    progress: &dyn Progress,
) -> Result<Written, WriteError> {
    let failed = |source| WriteError::Output { path: out.to_path_buf(), source };
    let mut output = Output::create(out).map_err(failed)?;
    let written = write_to(output.file(), sealed, store, progress).map_err(|error| error.at(out))?;
    output.finish().map_err(failed)?;
    Ok(written)
}

/// Writes the bundle to anything that takes bytes in order.
pub fn write_to(
    out: &mut (dyn Write + Send),
    sealed: &Sealed,
    store: &dyn Store,
    progress: &dyn Progress,
) -> Result<Written, WriteError> {
    let entries = sealed.entries();
    let total = entries.list.iter().filter(|entry| entry.item.is_some()).map(Entry::size).sum();
    let task = progress.start("packing", Some(total));
    let outcome = pack(out, |feed| feed_entries(feed, sealed, &entries, store, (progress, task)));
    progress.finish(task);
    let size = outcome?;
    let shared =
        entries.list.iter().filter(|entry| matches!(entry.body, entries::Body::HardLink { .. })).count();
    Ok(Written { size, index: Digest::of(&sealed.bytes), shared })
}

impl WriteError {
    fn output(source: io::Error) -> Self {
        Self::Output { path: PathBuf::new(), source }
    }

    fn at(self, out: &Path) -> Self {
        match self {
            Self::Output { source, .. } => Self::Output { path: out.to_path_buf(), source },
            other => other,
        }
    }

    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Size { file: Some(file), .. } | Self::Changed { file: Some(file), .. } => Some(format!(
                "the file changed after it was looked at; remove `{}` and build again",
                file.display()
            )),
            Self::Output { path, source } => output::hint(path, source),
            _ => None,
        }
    }
}

fn feed_entries(
    feed: &mut Feed<'_>,
    sealed: &Sealed,
    entries: &entries::Entries,
    store: &dyn Store,
    (progress, task): (&dyn Progress, Task),
) -> Result<(), WriteError> {
    for entry in &entries.list {
        feed.begin(tape::header(entry))?;
        match entry.item.map(|position| &sealed.index.items[position]) {
            None => feed.push_bytes(root_file(sealed, entries, &entry.path))?,
            Some(_) if !matches!(entry.body, entries::Body::Content { .. }) => {}
            Some(item) => feed_item(feed, item, store, &|bytes| progress.advance(task, bytes))?,
        }
        feed.end(entry.size())?;
    }
    feed.begin(tape::END.to_vec())?;
    feed.end(0)
}

fn root_file<'a>(sealed: &'a Sealed, entries: &'a entries::Entries, path: &str) -> &'a [u8] {
    match path {
        INDEX => &sealed.bytes,
        SIGNATURE => sealed.signature.as_bytes(),
        SUMS => &entries.sums,
        SBOM => &sealed.sbom,
        _ => sealed.full_signature.as_deref().unwrap_or_default().as_bytes(),
    }
}

/// Passes an item's content on, or says in which way it is not what the index lists.
fn feed_item(
    feed: &mut Feed<'_>,
    item: &Item,
    store: &dyn Store,
    advance: &dyn Fn(u64),
) -> Result<(), WriteError> {
    let path = || item.path.clone();
    let unreadable = |file: Option<PathBuf>| move |source| WriteError::Content { path: path(), file, source };
    let (mut reader, file): (Box<dyn Read>, _) = match store.content(item).map_err(unreadable(None))? {
        Content::Bytes(bytes) => (Box::new(io::Cursor::new(bytes)), None),
        Content::Reader(reader) => (reader, None),
        Content::File(path) => {
            let opened = File::open(&path).map_err(unreadable(Some(path.clone())))?;
            (Box::new(opened), Some(path))
        }
    };
    let mut hasher = Hasher::new();
    let mut left = item.size;
    loop {
        let space = feed.space()?;
        // One byte more than expected, so that a longer file is noticed.
        let wanted = (space.len() as u64).min(left.saturating_add(1)) as usize;
        let read = match reader.read(&mut space[..wanted]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(file)(error)),
        };
        hasher.update(&space[..read]);
        if read as u64 > left {
            let found = hasher.length();
            return Err(WriteError::Size { path: path(), file, found, expected: item.size });
        }
        left -= read as u64;
        feed.filled(read);
        advance(read as u64);
    }
    if left > 0 {
        return Err(WriteError::Size { path: path(), file, found: hasher.length(), expected: item.size });
    }
    let found = hasher.finish();
    if found != item.sha256 {
        return Err(WriteError::Changed { path: path(), file, found, expected: item.sha256 });
    }
    Ok(())
}

/// One member on its way: content in, gzip out. The buffers go round and are never freed.
struct Slot {
    number: u64,
    content: Vec<u8>,
    filled: usize,
    member: Vec<u8>,
    /// CRC-32 of the member, for the table.
    crc: u32,
}

/// Runs `feed_all` on this thread, packs on others and writes on one more; gives the length written.
fn pack(
    out: &mut (dyn Write + Send),
    feed_all: impl FnOnce(&mut Feed<'_>) -> Result<(), WriteError>,
) -> Result<u64, WriteError> {
    let workers = thread::available_parallelism().map_or(2, usize::from).min(MOST_WORKERS);
    let (free_in, free_out) = channel();
    let (full_in, full_out) = channel::<Slot>();
    let (packed_in, packed_out) = channel::<Slot>();
    for _ in 0..2 * workers + 2 {
        let slot =
            Slot { number: 0, content: vec![0; MEMBER as usize], filled: 0, member: Vec::new(), crc: 0 };
        let _ = free_in.send(slot);
    }
    let full_out = Mutex::new(full_out);
    thread::scope(|scope| {
        for _ in 0..workers {
            let packed_in = packed_in.clone();
            let full_out = &full_out;
            scope.spawn(move || pack_slots(full_out, &packed_in));
        }
        drop(packed_in);
        let writer = scope.spawn(move || write_slots(out, &packed_out, &free_in));
        let mut feed = Feed { free: &free_out, full: &full_in, slot: None, next: 0 };
        let fed = feed_all(&mut feed);
        // The ends of the channels, one after the other, tell each thread that it is done.
        drop(full_in);
        let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (fed, written) {
            // The feed fails without a reason of its own when the writer has stopped.
            (_, Err(error)) => Err(WriteError::output(error)),
            (Err(error), Ok(_)) => Err(error),
            (Ok(()), Ok(size)) => Ok(size),
        }
    })
}

fn pack_slots(full: &Mutex<Receiver<Slot>>, packed: &Sender<Slot>) {
    let mut encoder = Encoder::new();
    loop {
        let next = full.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).recv();
        let Ok(mut slot) = next else { break };
        encoder.encode(&slot.content[..slot.filled], &mut slot.member);
        slot.crc = crc32(&slot.member);
        if packed.send(slot).is_err() {
            break;
        }
    }
}

/// Writes members in order as they come, then the table. Dropping `free` on failure stops the feed.
fn write_slots(out: &mut dyn Write, packed: &Receiver<Slot>, free: &Sender<Slot>) -> io::Result<u64> {
    let mut waiting = BTreeMap::new();
    let mut members: Vec<Member> = Vec::new();
    let mut size = 0;
    for slot in packed {
        waiting.insert(slot.number, slot);
        while let Some(slot) = waiting.remove(&(members.len() as u64)) {
            out.write_all(&slot.member)?;
            let length = slot.member.len() as u64;
            members.push(Member { length, crc: slot.crc });
            size += length;
            let _ = free.send(slot);
        }
    }
    let tail = table::tail(&members);
    out.write_all(&tail)?;
    out.flush()?;
    Ok(size + tail.len() as u64)
}

/// Cuts the tar stream of each entry into members.
struct Feed<'a> {
    free: &'a Receiver<Slot>,
    full: &'a Sender<Slot>,
    slot: Option<Slot>,
    next: u64,
}

impl Feed<'_> {
    fn begin(&mut self, header: Vec<u8>) -> Result<(), WriteError> {
        self.push_bytes(&header)
    }

    /// Adds the padding behind `size` bytes of content and closes the entry's last member.
    fn end(&mut self, size: u64) -> Result<(), WriteError> {
        let padding = [0; entries::BLOCK as usize];
        self.push_bytes(&padding[..tape::padding(size) as usize])?;
        self.flush();
        Ok(())
    }

    fn push_bytes(&mut self, mut bytes: &[u8]) -> Result<(), WriteError> {
        while !bytes.is_empty() {
            let space = self.space()?;
            let length = bytes.len().min(space.len());
            space[..length].copy_from_slice(&bytes[..length]);
            self.filled(length);
            bytes = &bytes[length..];
        }
        Ok(())
    }

    /// The unfilled part of the current member: never empty.
    fn space(&mut self) -> Result<&mut [u8], WriteError> {
        if self.slot.as_ref().is_some_and(|slot| slot.filled == slot.content.len()) {
            self.flush();
        }
        if self.slot.is_none() {
            let mut slot =
                self.free.recv().map_err(|_| WriteError::output(io::ErrorKind::BrokenPipe.into()))?;
            slot.number = self.next;
            slot.filled = 0;
            self.next += 1;
            self.slot = Some(slot);
        }
        let slot = self.slot.as_mut().expect("it was just filled in");
        Ok(&mut slot.content[slot.filled..])
    }

    fn filled(&mut self, length: usize) {
        if let Some(slot) = &mut self.slot {
            slot.filled += length;
        }
    }

    fn flush(&mut self) {
        // An empty slot is kept for the next entry: there are no empty members.
        if let Some(slot) = self.slot.take_if(|slot| slot.filled > 0) {
            // Workers end only after the feed did.
            let _ = self.full.send(slot);
        }
    }
}
