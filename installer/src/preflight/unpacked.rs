//! What packages take once installed, as their own headers say. Only headers are read.

use crate::distribute::Source;
use crate::plan::{PackageFormat, Plan};
use eggo_bundles::content::{deb, rpm};
use eggo_bundles::{Digest, Item, Kind};
use std::collections::BTreeMap;
use std::io::BufReader;

/// Sizes by a package's digest; one that does not tell is not in it.
#[derive(Debug, Clone, Default)]
pub struct Unpacked(BTreeMap<Digest, u64>);

impl Unpacked {
    /// Reads the headers of all packages of a plan.
    pub fn read(plan: &Plan, source: &dyn Source) -> Self {
        let items = plan.nodes.iter().flat_map(|node| node.of_kind(Kind::Pkg)).map(|wanted| &wanted.item);
        let distinct: BTreeMap<Digest, &Item> = items.map(|item| (item.sha256, &**item)).collect();
        Self(distinct.into_iter().filter_map(|(digest, item)| Some((digest, size(item, source)?))).collect())
    }

    pub fn get(&self, item: &Item) -> Option<u64> {
        self.0.get(&item.sha256).copied()
    }
}

fn size(item: &Item, source: &dyn Source) -> Option<u64> {
    let mut content = BufReader::new(source.read(item).ok()?);
    match PackageFormat::of(item)? {
        // In KiB.
        PackageFormat::Deb => {
            Some(deb::read(&mut content).ok()?.field("Installed-Size").parse::<u64>().ok()? << 10)
        }
        PackageFormat::Rpm => rpm::read(&mut content).ok()?.installed_size.map(u64::from),
    }
}

#[cfg(test)]
impl<const N: usize> From<[(Digest, u64); N]> for Unpacked {
    fn from(sizes: [(Digest, u64); N]) -> Self {
        Self(sizes.into())
    }
}
