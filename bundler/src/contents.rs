//! What an index holds, counted: per arch and kind, what is shared, what differs from another.

use eggo_bundles::{Arch, Digest, Index, Item, Kind};
use eggo_terminal::{Count, Size};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

/// One arch's items of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub arch: Arch,
    pub kind: Kind,
    /// Packages, binaries, images: what a person counts.
    pub things: usize,
    pub files: usize,
    pub size: u64,
    /// Of that size, what other rows hold too.
    pub shared: u64,
    /// Of that size, what is in this bundle itself and not only in a delta's parent.
    pub carried: u64,
}

pub fn rows(index: &Index) -> Vec<Row> {
    let mut homes: HashMap<Digest, BTreeSet<(Arch, Kind)>> = HashMap::new();
    for item in index.items.iter().filter(|item| item.link.is_none()) {
        homes.entry(item.sha256).or_default().insert((item.arch, item.kind));
    }
    let mut groups: BTreeMap<(Arch, Kind), Vec<&Item>> = BTreeMap::new();
    for item in &index.items {
        groups.entry((item.arch, item.kind)).or_default().push(item);
    }
    let row = |((arch, kind), items): ((Arch, Kind), Vec<&Item>)| {
        let names: HashSet<&str> = items.iter().map(|item| item.name.as_str()).collect();
        let images = index.images.iter().filter(|image| image.arch == arch).count();
        let shared = items.iter().filter(|item| homes.get(&item.sha256).is_some_and(|homes| homes.len() > 1));
        Row {
            arch,
            kind,
            things: if kind == Kind::Image { images } else { names.len() },
            files: items.len(),
            size: items.iter().map(|item| item.size).sum(),
            shared: shared.map(|item| item.size).sum(),
            carried: items.iter().filter(|item| index.carries(item)).map(|item| item.size).sum(),
        }
    };
    groups.into_iter().map(row).collect()
}

/// The size of all items, and of all different contents.
pub fn sizes(index: &Index) -> (u64, u64) {
    let mut seen = HashSet::new();
    let all = index.items.iter().map(|item| item.size).sum();
    let once = index.items.iter().filter(|item| seen.insert(item.sha256)).map(|item| item.size).sum();
    (all, once)
}

/// What a delta carries itself, of all that it and its parent make up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub files: usize,
    pub of: usize,
    /// Equal content counts once.
    pub bytes: u64,
}

/// `None` for a full bundle.
pub fn carried(index: &Index) -> Option<Share> {
    index.parent?;
    let files = || index.items.iter().filter(|item| item.link.is_none());
    let carried: Vec<&Item> = files().filter(|item| index.carries(item)).collect();
    let once: HashMap<Digest, u64> = carried.iter().map(|item| (item.sha256, item.size)).collect();
    Some(Share { files: carried.len(), of: files().count(), bytes: once.values().sum() })
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = Count(self.of, "file", "files");
        match self.files {
            0 => write!(f, "carries nothing, all of it ({}) is taken from its parent", of),
            files => {
                let bytes = Size(self.bytes);
                write!(f, "carries {files} of {of}, {bytes}; the rest is taken from its parent")
            }
        }
    }
}

/// A thing that came, went or changed from one bundle to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub arch: Arch,
    pub kind: Kind,
    pub name: String,
    /// Version, or the beginning of the digest where that says more; absent: it is new.
    pub before: Option<String>,
    pub after: Option<String>,
    /// What the new bundle has of it and the old one lacks.
    pub bytes: u64,
}

/// Sorted by arch, kind and name. An image is one thing, whatever blobs it is made of.
pub fn differences(old: &Index, new: &Index) -> Vec<Difference> {
    let had: HashSet<Digest> = old.items.iter().map(|item| item.sha256).collect();
    let (before, after) = (things(old), things(new));
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let mut differences = Vec::new();
    for key in keys {
        let (a, b) = (before.get(&key), after.get(&key));
        if a.map(|thing| thing.digest) == b.map(|thing| thing.digest) {
            continue;
        }
        let same_version = a.map(|thing| &thing.version) == b.map(|thing| &thing.version);
        let show = |thing: &Thing| match same_version || thing.version.is_empty() {
            true => thing.digest.hex()[..12].to_string(),
            false => thing.version.clone(),
        };
        let new_contents = b.into_iter().flat_map(|thing| &thing.contents);
        let fresh: BTreeMap<Digest, u64> = new_contents.filter(|(d, _)| !had.contains(d)).copied().collect();
        let (arch, kind, name) = key;
        differences.push(Difference {
            arch,
            kind,
            name,
            before: a.map(show),
            after: b.map(show),
            bytes: fresh.values().sum(),
        });
    }
    differences
}

struct Thing {
    version: String,
    /// Of everything it is made of.
    digest: Digest,
    contents: Vec<(Digest, u64)>,
}

fn things(index: &Index) -> BTreeMap<(Arch, Kind, String), Thing> {
    let mut things = BTreeMap::new();
    let mut groups: BTreeMap<(Arch, Kind, String), Vec<&Item>> = BTreeMap::new();
    for item in index.items.iter().filter(|item| item.kind != Kind::Image) {
        groups.entry((item.arch, item.kind, item.name.clone())).or_default().push(item);
    }
    for (key, items) in groups {
        let digest = match items.as_slice() {
            [one] => one.sha256,
            many => {
                let lines: Vec<String> =
                    many.iter().map(|item| format!("{} {}", item.path, item.sha256)).collect();
                Digest::of(lines.join("\n").as_bytes())
            }
        };
        let contents = items.iter().map(|item| (item.sha256, item.size)).collect();
        things.insert(key, Thing { version: items[0].version.clone(), digest, contents });
    }
    let sizes: HashMap<Digest, u64> = index.items.iter().map(|item| (item.sha256, item.size)).collect();
    for image in &index.images {
        let parts = [image.manifest, image.config].into_iter().chain(image.layers.iter().copied());
        let contents = parts.map(|digest| (digest, sizes.get(&digest).copied().unwrap_or(0))).collect();
        let thing = Thing { version: String::new(), digest: image.manifest, contents };
        things.insert((image.arch, Kind::Image, image.name.clone()), thing);
    }
    things
}
