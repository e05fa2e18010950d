//! Do a bundle's rpms need nothing but each other and the baseline?

use super::metadata::Metadata;
use super::repository::Repository;
use super::world::{Weak, World};
use crate::packages::provider::{Need, PackageId};
use crate::packages::solver::{self, Request, Unsolvable};
use eggo_bundles::content::rpm::Rpm;
use eggo_bundles::index::Baseline;
use std::collections::{BTreeSet, HashSet};

/// Solves again from the packages' own headers: all of them must be installable together on a
/// target that has `baseline`. Without one, a target is taken to have what they need besides, which
/// is returned.
pub fn suffices(packages: &[Rpm], baseline: Option<&Baseline>) -> Result<BTreeSet<String>, Unsolvable> {
    let mut metadata = Metadata::default();
    let bundled: Vec<u32> = packages.iter().map(|package| metadata.add_header(package)).collect();
    let mut installed: HashSet<u32> = HashSet::new();
    for line in baseline.iter().flat_map(|baseline| &baseline.packages) {
        if let Some((name, version)) = line.split_once(' ') {
            installed.insert(metadata.add_installed(name, version, "noarch"));
        }
    }
    let repository =
        Repository { name: "bundle".into(), roots: Vec::new(), seen: Default::default(), filelists: None };
    let mut world = World::new(metadata, vec![repository], Weak::Ignore, &[], installed);
    // What the baseline was seen to meet when the bundle was resolved: sonames, files.
    world.assume(baseline.iter().flat_map(|baseline| baseline.meets.iter().cloned()));
    let request = |(package, id): (&Rpm, u32)| Request {
        need: Need { text: package.name.clone(), choices: vec![PackageId(id)], ..Need::default() },
        asked_by: "the bundle".to_string(),
        roles: BTreeSet::new(),
    };
    let requests: Vec<Request> = packages.iter().zip(bundled).map(request).collect();
    let open = if baseline.is_none() { solver::unmet(&world, &requests) } else { BTreeSet::new() };
    world.assume(open.iter().cloned());
    solver::solve(&world, &requests).map(|_| open)
}
