//! Where an install's content comes from, once it is settled whether to trust it: a verified
//! bundle, or the unsigned tarballs of old eggo.
//!
//! Both give an index and the bytes of its items, so that plan and distribution know no difference.

mod tarball;

pub use tarball::{TarballError, Tarballs};

use eggo_bundles::reader::{Bundle, Verified};
use eggo_bundles::{Index, Item};
use std::io::{self, Read};

pub enum Content {
    Bundle(Bundle<Verified>),
    /// A delta that has its parent at hand: as good as the full bundle, whose index this is.
    Merged(Bundle<Verified>, Box<Index>),
    Tarballs(Box<Tarballs>),
}

impl Content {
    pub fn merged(delta: Bundle<Verified>) -> Self {
        let index = Box::new(delta.index().full());
        Self::Merged(delta, index)
    }

    pub fn index(&self) -> &Index {
        match self {
            Self::Bundle(bundle) => bundle.index(),
            Self::Merged(_, index) => index,
            Self::Tarballs(tarballs) => tarballs.index(),
        }
    }

    /// The content of an item from its beginning; fails at its end, at the latest, if it differs
    /// from what the index promises.
    pub fn read(&self, item: &Item) -> io::Result<Box<dyn Read + Send>> {
        match self {
            Self::Bundle(bundle) | Self::Merged(bundle, _) => Ok(Box::new(bundle.read(item)?)),
            Self::Tarballs(tarballs) => tarballs.read(item),
        }
    }
}
