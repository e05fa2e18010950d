//! What packages say of themselves, which is all that is read of them here: how much they take once
//! installed, and enough for a package manager to try a transaction before anything is sent.

use crate::distribute::Source;
use crate::packages::stub;
use crate::plan::{PackageFormat, Plan};
use eggo_bundles::content::{deb, rpm};
use eggo_bundles::{Digest, Item, Kind};
use std::collections::BTreeMap;
use std::io::BufReader;

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
    /// Reads the heads of all packages of a plan.
    pub fn read(plan: &Plan, source: &dyn Source) -> Self {
        let items = plan.nodes.iter().flat_map(|node| node.of_kind(Kind::Pkg)).map(|wanted| &wanted.item);
        let distinct: BTreeMap<Digest, &Item> = items.map(|item| (item.sha256, &**item)).collect();
        Self(distinct.into_iter().filter_map(|(digest, item)| Some((digest, head(item, source)?))).collect())
    }

    pub fn installed_size(&self, item: &Item) -> Option<u64> {
        self.0.get(&item.sha256)?.installed
    }

    /// The package without what it would install.
    pub fn stub(&self, item: &Item) -> Option<&[u8]> {
        self.0.get(&item.sha256).map(|head| &head.stub[..])
    }
}

fn head(item: &Item, source: &dyn Source) -> Option<Head> {
    let mut seen = stub::Seen::new(BufReader::new(source.read(item).ok()?));
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

#[cfg(test)]
impl<const N: usize> From<[(Digest, u64); N]> for Heads {
    fn from(sizes: [(Digest, u64); N]) -> Self {
        let head = |size| Head { installed: Some(size), stub: Vec::new() };
        Self(sizes.into_iter().map(|(digest, size)| (digest, head(size))).collect())
    }
}
