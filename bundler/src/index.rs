//! From a lock to the index of its bundle, without I/O: the same for the same lock.

use crate::error::Error;
use crate::lock::{Lock, LockedAddon, LockedPackage};
use crate::{files, http, images};
use eggo_bundles::index::Source;
use eggo_bundles::{Arch, Digest, Index, Item, Kind};
use std::collections::{BTreeMap, HashMap};

/// An index, and the content of those items that are made from the lock itself.
pub struct Planned {
    pub index: Index,
    pub generated: HashMap<Digest, Vec<u8>>,
}

/// `signers` are the keys that vouch for single packages, by the file's digest.
pub fn index(lock: &Lock, signers: &HashMap<Digest, String>) -> Result<Planned, Error> {
    let mut index = Index::new(lock.name.clone(), lock.version.clone(), lock.archs.clone());
    let all: Vec<_> = lock.all_files().cloned().collect();
    index.items.extend(files::items(&all));
    index.items.extend(packages(&lock.packages, signers));
    index.items.extend(addons(lock));
    let images::Contents { items, images, generated } =
        images::contents(&lock.images).map_err(images::Error::from)?;
    index.items.extend(items);
    index.images = images;
    index.baselines = lock.baselines.clone();
    index.items.sort_by(|a, b| a.path.cmp(&b.path));
    let generated = generated.into_values().map(|bytes| (Digest::of(&bytes), bytes)).collect();
    Ok(Planned { index, generated })
}

/// The same file for every arch.
fn addons(lock: &Lock) -> Vec<Item> {
    let item = |addon: &LockedAddon, arch: Arch| Item {
        name: addon.name.clone(),
        version: lock.version.clone(),
        source: Source { url: addon.url.as_deref().map(http::recorded), ..Source::default() },
        ..Item::new(arch, Kind::Addon, &format!("{}.yaml", addon.name), addon.sha256, addon.size)
    };
    lock.addons.iter().flat_map(|addon| lock.archs.iter().map(move |arch| item(addon, *arch))).collect()
}

fn packages(locked: &[LockedPackage], signers: &HashMap<Digest, String>) -> Vec<Item> {
    // Who needs whom is recorded at the needed one; an item says what it needs itself.
    let mut requires: BTreeMap<(&str, Arch), Vec<String>> = BTreeMap::new();
    for package in locked {
        for by in &package.required_by {
            requires.entry((by, package.arch)).or_default().push(package.name.clone());
        }
    }
    let item = |package: &LockedPackage| {
        let mut requires = requires.get(&(package.name.as_str(), package.arch)).cloned().unwrap_or_default();
        requires.sort();
        requires.dedup();
        Item {
            name: package.name.clone(),
            version: package.version.clone(),
            roles: package.roles.clone(),
            requires,
            source: Source {
                url: Some(http::recorded(&package.url)),
                repo: Some(package.repo.clone()),
                key: package.key.clone().or_else(|| signers.get(&package.sha256).cloned()),
            },
            ..Item::new(package.arch, Kind::Pkg, &package.file_name(), package.sha256, package.size)
        }
    };
    locked.iter().map(item).collect()
}
