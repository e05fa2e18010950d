//! Reading a bundle, as far as it is trusted.
//!
//! [`Bundle<Unverified>`] knows the file's framing and nothing of its content.
//! [`Bundle<Verified>`] has an index that a trusted key signed; every byte that it gives
//! out is checked against that index. [`Bundle<Untrusted>`] gives out the same, for people
//! who look into a bundle whose key they do not have; the installer never takes one.

mod archive;
mod check;
mod entry;
mod extract;
mod front;
mod item;
mod pipe;
mod verify;

pub use extract::{Extracted, Selection};
pub use item::ItemReader;
pub use pipe::{OpenPipe, Pipe};

use crate::entries::{Entries, FULL_SIGNATURE, Front, INDEX, SIGNATURE};
use crate::error::Error;
use crate::index::{Index, Item};
use crate::keys::{PublicKey, SecretKey, TrustedKeys};
use crate::rules::{self, LONGEST_INDEX, LONGEST_SIGNATURE};
use crate::seal::Sealed;
use crate::{Digest, sbom};
use archive::Archive;
use std::path::Path;
use std::sync::Arc;

/// A bundle on disk: one file, or the parts it was split into.
pub struct Bundle<T = Verified> {
    state: T,
}

/// Nothing of it is trusted yet.
pub struct Unverified {
    archive: Archive,
    front: OwnedFront,
    /// The first member behind index and signature.
    next: usize,
}

/// A trusted key signed the index.
#[derive(Clone)]
pub struct Verified {
    opened: Arc<Opened>,
    key: PublicKey,
}

/// Nobody vouches for the index; content is checked against it all the same.
#[derive(Clone)]
pub struct Untrusted {
    opened: Arc<Opened>,
}

/// A state in which the index can be read.
pub trait Readable: Clone + sealed::Opened {}
impl Readable for Verified {}
impl Readable for Untrusted {}

mod sealed {
    pub trait Opened {
        fn opened(&self) -> &std::sync::Arc<super::Opened>;
        fn replace(&mut self, opened: std::sync::Arc<super::Opened>);
    }
}

impl sealed::Opened for Verified {
    fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }
    fn replace(&mut self, opened: Arc<Opened>) {
        self.opened = opened;
    }
}

impl sealed::Opened for Untrusted {
    fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }
    fn replace(&mut self, opened: Arc<Opened>) {
        self.opened = opened;
    }
}

/// The small files that come before the signature is checked.
#[derive(Debug, Clone)]
struct OwnedFront {
    index: Vec<u8>,
    signature: String,
    full_signature: Option<String>,
}

/// What the front says once it may be read.
struct Contents {
    front: OwnedFront,
    index: Index,
    entries: Entries,
}

/// An archive whose index has been read.
#[doc(hidden)]
pub struct Opened {
    archive: Arc<Archive>,
    contents: Arc<Contents>,
    /// The first member of each entry; one more for the end of the archive.
    starts: Vec<usize>,
    /// The parent of a delta, if it was given.
    base: Option<Arc<Opened>>,
}

impl Bundle<Unverified> {
    /// Opens a bundle, or all parts of a split one by the name of its first part or of the whole.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let archive = Archive::open(path)?;
        let mut members = archive.members_from(0);
        let index = front::read(&mut members, INDEX, LONGEST_INDEX).map_err(front::not_a_bundle)?;
        let signature = front::read(&mut members, SIGNATURE, LONGEST_SIGNATURE)?;
        let next = members.number;
        let signature = String::from_utf8_lossy(&signature).into_owned();
        let front = OwnedFront { index, signature, full_signature: None };
        Ok(Self { state: Unverified { archive, front, next } })
    }

    /// Checks the signature, and only then reads the index.
    pub fn verify(self, trusted: &TrustedKeys) -> Result<Bundle<Verified>, Error> {
        let key = self.state.front.trust(&self.state.archive.path, trusted)?;
        let opened = self.state.read_index(Some(trusted))?;
        Ok(Bundle { state: Verified { opened: Arc::new(opened), key } })
    }

    /// Reads the index although nobody vouches for it.
    pub fn without_trust(self) -> Result<Bundle<Untrusted>, Error> {
        let opened = self.state.read_index(None)?;
        Ok(Bundle { state: Untrusted { opened: Arc::new(opened) } })
    }
}

impl OwnedFront {
    fn trust(&self, path: &Path, trusted: &TrustedKeys) -> Result<PublicKey, Error> {
        let checked = trusted.check(&self.index, &self.signature);
        checked.map_err(|why| Error::Distrust { path: path.to_path_buf(), why })
    }

    /// The files by name, in their order in the archive.
    fn files(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let full = self.full_signature.as_ref().map(|text| (FULL_SIGNATURE, text.as_bytes()));
        [(INDEX, &self.index[..]), (SIGNATURE, self.signature.as_bytes())].into_iter().chain(full)
    }

    fn borrowed(&self) -> Front<'_> {
        Front {
            index: &self.index,
            signature: self.signature.as_bytes(),
            full_signature: self.full_signature.as_deref().map(str::as_bytes),
        }
    }
}

impl Contents {
    /// A delta's front is complete only with the full bundle's signature, which `read_full` gets.
    fn new(
        path: &Path,
        mut front: OwnedFront,
        trusted: Option<&TrustedKeys>,
        read_full: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<Self, Error> {
        let bad = |why| Error::Index { path: path.to_path_buf(), why };
        let index = rules::parse(&front.index).map_err(bad)?;
        if index.parent.is_some() {
            let signature = String::from_utf8_lossy(&read_full()?).into_owned();
            if let Some(trusted) = trusted {
                let checked = trusted.check(&index.full().to_bytes(), &signature);
                checked.map_err(|why| Error::Distrust { path: path.to_path_buf(), why })?;
            }
            front.full_signature = Some(signature);
        }
        let entries = Entries::new(&index, &front.borrowed());
        Ok(Self { front, index, entries })
    }

    fn identity(&self) -> Digest {
        match self.index.parent {
            None => Digest::of(&self.front.index),
            Some(_) => Digest::of(&self.index.full().to_bytes()),
        }
    }
}

impl Unverified {
    fn read_index(self, trusted: Option<&TrustedKeys>) -> Result<Opened, Error> {
        let Self { archive, front, next } = self;
        let read_full = || front::read(&mut archive.members_from(next), FULL_SIGNATURE, LONGEST_SIGNATURE);
        let contents = Contents::new(&archive.path, front, trusted, read_full)?;
        let mut starts = Vec::with_capacity(contents.entries.list.len() + 1);
        let mut start = 0_u64;
        for entry in &contents.entries.list {
            starts.push(usize::try_from(start).unwrap_or(usize::MAX));
            start = start.saturating_add(crate::tape::members(entry));
        }
        starts.push(usize::try_from(start).unwrap_or(usize::MAX));
        let opened = Opened { archive: Arc::new(archive), contents: Arc::new(contents), starts, base: None };
        // One member for the end of the archive, and not one more.
        if opened.archive.members.len() as u64 != start.saturating_add(1) {
            return Err(opened.diagnose());
        }
        Ok(opened)
    }
}

impl Bundle<Verified> {
    /// The key that vouches.
    pub fn key(&self) -> &PublicKey {
        &self.state.key
    }

    /// The same, as one that nobody vouches for: beside another of that kind.
    pub fn untrusted(self) -> Bundle<Untrusted> {
        Bundle { state: Untrusted { opened: self.state.opened } }
    }
}

impl<T: Readable> Bundle<T> {
    pub fn path(&self) -> &Path {
        &self.opened().archive.path
    }

    pub fn index(&self) -> &Index {
        &self.opened().contents.index
    }

    /// The exact bytes of `eggo-bundle.json`.
    pub fn index_bytes(&self) -> &[u8] {
        &self.opened().contents.front.index
    }

    /// The text of `eggo-bundle.json.minisig`.
    pub fn signature(&self) -> &str {
        &self.opened().contents.front.signature
    }

    /// The bytes of `SHA256SUMS`.
    pub fn sums(&self) -> &[u8] {
        &self.opened().contents.entries.sums
    }

    /// The digest by which deltas know this bundle: that of its full index.
    pub fn identity(&self) -> Digest {
        self.opened().contents.identity()
    }

    /// The length of the file, or of all parts together.
    pub fn size(&self) -> u64 {
        self.opened().archive.source.length()
    }

    /// How many bytes the content of `item` takes in the file; 0 if another entry has it.
    pub fn packed_size(&self, item: &Item) -> u64 {
        let opened = self.opened();
        let own = |k: &usize| opened.contents.entries.list[*k].path == item.path;
        let Some(k) = opened.contents.entries.carrier(item).filter(own) else { return 0 };
        opened.archive.members[opened.starts[k]..opened.starts[k + 1]].iter().map(|m| m.length).sum()
    }

    /// Gives a delta its parent, so that all its items can be read.
    pub fn with_base(mut self, base: &Bundle<T>) -> Result<Self, Error> {
        let opened = self.opened();
        let path = self.path().to_path_buf();
        let Some(parent) = self.index().parent else { return Err(Error::NotADelta { path }) };
        let found = base.identity();
        if found != parent {
            return Err(Error::WrongBase { path, base: base.path().to_path_buf(), parent, found });
        }
        let with_base = Opened {
            archive: opened.archive.clone(),
            contents: opened.contents.clone(),
            starts: opened.starts.clone(),
            base: Some(base.opened().clone()),
        };
        self.state.replace(Arc::new(with_base));
        Ok(self)
    }

    /// The content of `item`. The reader fails at the end, at the latest, if it is not what
    /// the index lists. Readers are independent: use as many at a time as you like.
    pub fn read(&self, item: &Item) -> Result<ItemReader, Error> {
        ItemReader::new(self.opened(), item)
    }

    /// The bill of materials in CycloneDX's form; the SPDX one is in the bundle.
    pub fn cyclonedx(&self) -> Vec<u8> {
        sbom::cyclonedx(self.index())
    }

    /// The bytes of `sbom.spdx.json`.
    pub fn sbom(&self) -> Result<Vec<u8>, Error> {
        self.opened().read_sbom()
    }

    /// The full bundle that this is, or that this delta and its parent make up, ready to be written.
    pub fn sealed(&self) -> Result<Sealed, Error> {
        let Contents { front, index, .. } = &*self.opened().contents;
        let sbom = self.sbom()?;
        Ok(match &front.full_signature {
            None => Sealed {
                index: index.clone(),
                bytes: front.index.clone(),
                signature: front.signature.clone(),
                full_signature: None,
                sbom,
            },
            Some(signature) => {
                let index = index.full();
                let bytes = index.to_bytes();
                Sealed { index, bytes, signature: signature.clone(), full_signature: None, sbom }
            }
        })
    }

    /// The delta from `base` to this bundle, ready to be written with this bundle as its store.
    pub fn delta_from(&self, base: &Bundle<T>, key: &SecretKey) -> Result<Sealed, Error> {
        let delta = self.sealed()?.delta_from(base.index(), key);
        delta.map_err(|why| Error::Index { path: self.path().to_path_buf(), why })
    }

    fn opened(&self) -> &Arc<Opened> {
        self.state.opened()
    }
}
