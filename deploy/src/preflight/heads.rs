//! What packages say of themselves, which is all that is read of them here: how much they take once
//! installed, and enough for a package manager to try a transaction before anything is sent.

use crate::distribute::{DeliveryError, Source};
use crate::packages::stub;
use crate::plan::{PackageFormat, Plan};
use eggo_bundles::content::{deb, rpm};
use eggo_bundles::{Digest, Item, Kind};
use std::collections::BTreeMap;
use std::io::{self, BufReader};

/// By a package's digest; one that cannot be read is not in it.
#[derive(Debug, Clone, Default)]
pub struct Heads(BTreeMap<Digest, Head>);

#[derive(Debug, Clone, Default)]
struct Head {
    /// `None`: it does not tell.
    installed: Option<u64>,
    stub: Vec<u8>,
}

impl Heads {
    /// Reads the heads of all packages of a plan. A damaged one refuses the bundle.
    pub fn read(plan: &Plan, source: &dyn Source) -> Result<Self, DeliveryError> {
        let items = plan.nodes.iter().flat_map(|node| node.of_kind(Kind::Pkg)).map(|wanted| &wanted.item);
        let distinct: BTreeMap<Digest, &Item> = items.map(|item| (item.sha256, &**item)).collect();
        let mut heads = BTreeMap::new();
        for (digest, item) in distinct {
            if let Some(head) = head(item, source).map_err(|error| DeliveryError::source(item, &error))? {
                heads.insert(digest, head);
            }
        }
        Ok(Self(heads))
    }

    pub fn installed_size(&self, item: &Item) -> Option<u64> {
        self.0.get(&item.sha256)?.installed
    }

    /// The package without what it would install.
    pub fn stub(&self, item: &Item) -> Option<&[u8]> {
        self.0.get(&item.sha256).map(|head| &head.stub[..])
    }
}

fn head(item: &Item, source: &dyn Source) -> io::Result<Option<Head>> {
    let mut content = match source.read(item) {
        Ok(content) => content,
        Err(error) => return unless_damaged(error),
    };
    if let Some(head) = parsed(item, &mut content) {
        return Ok(Some(head));
    }
    // An odd package, or a damaged one: its end tells.
    io::copy(&mut content, &mut io::sink()).map_or_else(unless_damaged, |_| Ok(None))
}

fn parsed(item: &Item, content: &mut dyn io::Read) -> Option<Head> {
    let mut seen = stub::Seen::new(BufReader::new(content));
    Some(match PackageFormat::of(item)? {
        PackageFormat::Deb => {
            // In KiB.
            let size = deb::read(&mut seen).ok()?.field("Installed-Size").parse::<u64>().ok();
            Head { installed: size.map(|size| size << 10), stub: stub::deb(seen.bytes) }
        }
        PackageFormat::Rpm => {
            let size = rpm::read(&mut seen).ok()?.installed_size;
            Head { installed: size.map(u64::from), stub: seen.bytes }
        }
    })
}

/// What a delta leaves to its parent cannot be read, and need not be where nodes have it.
pub(super) fn unless_damaged<T>(error: io::Error) -> io::Result<Option<T>> {
    let bundle = error.get_ref().and_then(|error| error.downcast_ref::<eggo_bundles::Error>());
    if bundle.is_some_and(eggo_bundles::Error::is_untrusted) { Err(error) } else { Ok(None) }
}

#[cfg(test)]
impl<const N: usize> From<[(Digest, u64); N]> for Heads {
    fn from(sizes: [(Digest, u64); N]) -> Self {
        let head = |size| Head { installed: Some(size), stub: Vec::new() };
        Self(sizes.into_iter().map(|(digest, size)| (digest, head(size))).collect())
    }
}
