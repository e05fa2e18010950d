//! What is different between two locks, as people talk about it: names and versions.

use super::Lock;
use eggo_bundles::Arch;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One thing that came, went or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    pub kind: &'static str,
    pub name: String,
    /// Absent where the thing is the same for every arch.
    pub arch: Option<Arch>,
    /// Absent: it is new.
    pub before: Option<String>,
    /// Absent: it is gone.
    pub after: Option<String>,
}

type Key<'a> = (&'static str, &'a str, Option<Arch>);

/// Sorted by kind, name and arch.
pub fn changes(before: Option<&Lock>, after: &Lock) -> Vec<Change> {
    let old = before.map(contents).unwrap_or_default();
    let new = contents(after);
    let keys: BTreeSet<&Key<'_>> = old.keys().chain(new.keys()).collect();
    let changed = keys.into_iter().filter(|key| old.get(key) != new.get(key));
    let change = |key: &Key<'_>| {
        let (mut before, mut after) = (old.get(key), new.get(key));
        // The same version with other content: then the content is what to show.
        let same_version = before.map(|entry| &entry.0) == after.map(|entry| &entry.0);
        let show = |entry: &mut Option<&(String, String)>| {
            entry.take().map(|(version, digest)| if same_version { digest.clone() } else { version.clone() })
        };
        let (kind, name, arch) = *key;
        Change { kind, name: name.to_string(), arch, before: show(&mut before), after: show(&mut after) }
    };
    changed.map(change).collect()
}

/// Version and the beginning of the digest of everything.
fn contents(lock: &Lock) -> BTreeMap<Key<'_>, (String, String)> {
    let short = |digest: String| digest[..12].to_string();
    let mut all = BTreeMap::new();
    for package in &lock.packages {
        let value = (package.version.clone(), short(package.sha256.hex()));
        all.insert(("package", package.name.as_str(), Some(package.arch)), value);
    }
    for file in lock.all_files() {
        let mut digests = String::new();
        for content in &file.content {
            digests.push_str(&format!("{} {} {:o}\n", content.path, content.sha256, content.mode));
        }
        let digest = match file.content.as_slice() {
            [one] => one.sha256,
            _ => eggo_bundles::Digest::of(digests.as_bytes()),
        };
        let kind = file.kind.as_str();
        all.insert((kind, file.name.as_str(), Some(file.arch)), (file.version.clone(), short(digest.hex())));
    }
    for image in &lock.images {
        let digest = short(image.manifest.hex());
        all.insert(("image", image.name.as_str(), Some(image.arch)), (digest.clone(), digest));
    }
    for addon in &lock.addons {
        let digest = short(addon.sha256.hex());
        all.insert(("addon", addon.name.as_str(), None), (digest.clone(), digest));
    }
    all
}
