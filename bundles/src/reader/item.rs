//! The content of one item as a stream that fails if it is not what the index lists.

use super::archive::Scratch;
use super::entry::EntryReader;
use super::{Bundle, Opened, Readable};
use crate::digest::Hasher;
use crate::error::{Error, Refusal};
use crate::index::Item;
use crate::writer::{Content, Store};
use std::io::{self, BufRead, Read};
use std::sync::Arc;

/// Reads one item. Independent of the bundle it came from: it may be sent to another thread.
pub struct ItemReader {
    opened: Arc<Opened>,
    item: Item,
    /// None for a symbolic link, which has no content.
    entry: Option<EntryReader>,
    hasher: Hasher,
}

impl ItemReader {
    pub(super) fn new(opened: &Arc<Opened>, item: &Item) -> Result<Self, Error> {
        let (opened, number) = opened.find(item)?;
        let entry = number.map(|number| EntryReader::new(&opened, number, Scratch::new()));
        Ok(Self { opened, item: item.clone(), entry, hasher: Hasher::new() })
    }

    /// Checked at the end, over everything that was given out.
    fn check(&self) -> Result<(), Error> {
        let found = self.hasher.clone().finish();
        if found == self.item.sha256 {
            return Ok(());
        }
        let why = Refusal::Changed { path: self.item.path.clone(), found, expected: self.item.sha256 };
        Err(self.opened.archive.refused(why))
    }
}

impl BufRead for ItemReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while let Some(entry) = &mut self.entry
            && entry.piece().is_empty()
        {
            if entry.next(&self.opened)? {
                self.hasher.update(entry.piece());
            } else {
                self.check()?;
                self.entry = None;
            }
        }
        Ok(self.entry.as_ref().map_or(&[], EntryReader::piece))
    }

    fn consume(&mut self, length: usize) {
        if let Some(entry) = &mut self.entry {
            entry.consume(length);
        }
    }
}

impl Read for ItemReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

impl Opened {
    /// Where the content of a listed item is; none for a symbolic link.
    fn find(self: &Arc<Self>, item: &Item) -> Result<(Arc<Self>, Option<usize>), Error> {
        let items = &self.contents.index.items;
        let known = items.binary_search_by(|known| known.path.as_str().cmp(&item.path));
        if known.ok().map(|position| &items[position]) != Some(item) {
            return Err(Error::NoSuchItem { entry: item.path.clone() });
        }
        if item.link.is_some() {
            return Ok((self.clone(), None));
        }
        let (opened, number) = self.find_content(item)?;
        Ok((opened, Some(number)))
    }

    /// Where content like that of `item` is: here or in the parent.
    pub(super) fn find_content(self: &Arc<Self>, item: &Item) -> Result<(Arc<Self>, usize), Error> {
        if let Some(number) = self.contents.entries.carrier(item) {
            return Ok((self.clone(), number));
        }
        match (&self.base, self.contents.index.parent) {
            (Some(base), _) => base.find_content(item),
            (None, Some(parent)) => {
                Err(Error::NeedsBase { path: self.archive.path.clone(), entry: item.path.clone(), parent })
            }
            (None, None) => Err(self.archive.refused(Refusal::Missing(item.path.clone()))),
        }
    }
}

/// A bundle's own items, as the content of another one that is being written.
impl<T: Readable> Store for Bundle<T> {
    fn content(&self, item: &Item) -> io::Result<Content> {
        let (opened, number) = self.opened().find_content(item)?;
        let entry = EntryReader::new(&opened, number, Scratch::new());
        let reader = ItemReader { opened, item: item.clone(), entry: Some(entry), hasher: Hasher::new() };
        Ok(Content::Reader(Box::new(reader)))
    }
}
