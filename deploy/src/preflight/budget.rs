//! How much room the plan takes on each of a node's file systems: what is still to be sent into the
//! store, what packages say that they take, files where they go, and images.

use super::Heads;
use crate::distribute::missing;
use crate::facts::Facts;
use crate::plan::NodePlan;
use crate::runtimes::RuntimeKind;
use crate::store::STORE;
use eggo_bundles::{Item, Kind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A package that does not say what it takes: so many times its archive.
const UNPACKED_PACKAGE: u64 = 4;
/// No manifest says what an image's layers take unpacked. The runtime keeps the blobs (once) beside
/// them, and layers of text and programs deflate to a third.
const UNPACKED_IMAGE: u64 = 4;
/// Left over on every file system, so that logs and journals can still be written.
const RESERVE: u64 = 64 << 20;

/// What is needed on one file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    pub mount: String,
    pub needed: u64,
    pub free: u64,
}

/// The need per mount; only what the node lacks counts.
pub fn budget(facts: &Facts, plan: &NodePlan, runtime: RuntimeKind, heads: &Heads) -> Vec<Need> {
    let items: Vec<Arc<Item>> = plan.items.iter().map(|wanted| wanted.item.clone()).collect();
    let missing = missing(&items, &facts.store);
    let mut needs: BTreeMap<&str, u64> = BTreeMap::new();
    let mut add = |path: &str, bytes: u64| {
        if let Some(mount) = facts.mount(path).filter(|_| bytes > 0) {
            *needs.entry(&mount.path).or_default() += bytes;
        }
    };
    add(STORE, missing.values().map(|missing| missing.size - missing.there).sum());
    for wanted in &plan.items {
        let item = &wanted.item;
        // What is in the store has probably been put in its place too; packages can be asked for.
        let is_new = missing.contains_key(&item.sha256);
        match item.kind {
            Kind::Pkg if facts.package(&item.name).is_none_or(|package| package.version != item.version) => {
                add("/usr", heads.installed_size(item).unwrap_or(item.size * UNPACKED_PACKAGE));
            }
            Kind::Image if is_new => add(runtime.data, item.size * UNPACKED_IMAGE),
            Kind::Bin | Kind::File | Kind::Dir if is_new => {
                if let Some(folder) = wanted.dst.as_deref().or(item.dst.as_deref()) {
                    add(folder, item.size);
                }
            }
            _ => {}
        }
    }
    let free = |path: &str| facts.mount(path).map_or(0, |mount| mount.free);
    needs
        .into_iter()
        .map(|(mount, needed)| Need { mount: mount.into(), needed: needed + RESERVE, free: free(mount) })
        .collect()
}
