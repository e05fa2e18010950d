//! Every name inside a bundle, and the order in which its entries stand.
//!
//! The order is a function of the index alone, so a reader that has verified the index
//! knows each byte of each tar header before it looks at one.

use crate::index::{Index, Item, Kind};
use crate::{Arch, Digest};
use std::collections::{HashMap, HashSet};

pub const INDEX: &str = "eggo-bundle.json";
pub const SIGNATURE: &str = "eggo-bundle.json.minisig";
/// In a delta: the signature of the full bundle's index, so that a merge gives that bundle back.
pub const FULL_SIGNATURE: &str = "eggo-bundle.full.json.minisig";
pub const SUMS: &str = "SHA256SUMS";
pub const SBOM: &str = "sbom.spdx.json";

/// The tar stream of an entry (headers, content, padding) is cut into gzip members of this length.
pub const MEMBER: u64 = 1 << 20;
pub const BLOCK: u64 = 512;

/// What a root file and most items have.
const PLAIN: u32 = 0o644;
const EXECUTABLE: u32 = 0o755;

/// The folder of an arch's items of one kind, with a slash at its end.
pub fn room(arch: Arch, kind: Kind) -> String {
    format!("{arch}/{}/", kind.room())
}

/// The mode that an item has in the archive and after extraction.
pub fn mode(item: &Item) -> u32 {
    item.mode.unwrap_or(if item.kind == Kind::Bin { EXECUTABLE } else { PLAIN })
}

/// One tar entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub path: String,
    pub mode: u32,
    pub body: Body,
    /// The position in `index.items`; none for root files.
    pub item: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Content { size: u64 },
    HardLink { target: String },
    SymLink { target: String },
}

impl Entry {
    pub(crate) fn root(path: &str, size: u64) -> Self {
        Self { path: path.to_string(), mode: PLAIN, body: Body::Content { size }, item: None }
    }

    pub fn size(&self) -> u64 {
        match self.body {
            Body::Content { size } => size,
            Body::HardLink { .. } | Body::SymLink { .. } => 0,
        }
    }
}

/// The small files at the front, which only the reader or sealer of this bundle knows.
pub struct Front<'a> {
    pub index: &'a [u8],
    pub signature: &'a [u8],
    /// Of a delta only.
    pub full_signature: Option<&'a [u8]>,
}

/// All entries in their order, and where to find an item's content.
#[derive(Debug, Clone)]
pub struct Entries {
    pub list: Vec<Entry>,
    pub sums: Vec<u8>,
    /// The entry that carries this content.
    carriers: HashMap<Digest, usize>,
}

impl Entries {
    pub fn new(index: &Index, front: &Front<'_>) -> Self {
        let carried: Option<HashSet<Digest>> = index.parent.map(|_| index.carried.iter().copied().collect());
        let is_here = |item: &Item| carried.as_ref().is_none_or(|set| set.contains(&item.sha256));
        let sums = sums(index, front, is_here).into_bytes();
        let mut list = vec![
            Entry::root(INDEX, front.index.len() as u64),
            Entry::root(SIGNATURE, front.signature.len() as u64),
        ];
        list.extend(front.full_signature.map(|bytes| Entry::root(FULL_SIGNATURE, bytes.len() as u64)));
        list.push(Entry::root(SUMS, sums.len() as u64));
        list.extend(index.sbom.as_ref().map(|sbom| Entry::root(SBOM, sbom.size)));

        let mut carriers: HashMap<Digest, usize> = HashMap::new();
        for (position, item) in index.items.iter().enumerate() {
            let body = if let Some(target) = &item.link {
                Body::SymLink { target: target.clone() }
            } else if !is_here(item) {
                continue;
            } else if let Some(&first) = carriers.get(&item.sha256) {
                Body::HardLink { target: list[first].path.clone() }
            } else {
                carriers.insert(item.sha256, list.len());
                Body::Content { size: item.size }
            };
            list.push(Entry { path: item.path.clone(), mode: mode(item), body, item: Some(position) });
        }
        Self { list, sums, carriers }
    }

    /// The entry that carries the content of `item`; none if a delta's parent has it.
    pub fn carrier(&self, item: &Item) -> Option<usize> {
        self.carriers.get(&item.sha256).copied()
    }
}

/// `SHA256SUMS`, as `sha256sum -c` takes it after a plain `tar xzf`.
fn sums(index: &Index, front: &Front<'_>, is_here: impl Fn(&Item) -> bool) -> String {
    let mut text = String::new();
    let mut line = |digest: Digest, path: &str| text.push_str(&format!("{digest}  {path}\n"));
    if let Some(bytes) = front.full_signature {
        line(Digest::of(bytes), FULL_SIGNATURE);
    }
    line(Digest::of(front.index), INDEX);
    line(Digest::of(front.signature), SIGNATURE);
    if let Some(sbom) = &index.sbom {
        line(sbom.sha256, SBOM);
    }
    for item in index.items.iter().filter(|item| item.link.is_none() && is_here(item)) {
        line(item.sha256, &item.path);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests::item;

    #[test]
    fn equal_content_is_carried_once() {
        let index = Index::new("n", "1", vec![Arch::Amd64, Arch::Arm64]).with_items(vec![
            item("amd64/file/a", b"x"),
            item("amd64/file/b", b"y"),
            item("arm64/file/a", b"x"),
        ]);
        let entries = Entries::new(&index, &Front { index: b"i", signature: b"s", full_signature: None });
        let paths: Vec<&str> = entries.list.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, [INDEX, SIGNATURE, SUMS, "amd64/file/a", "amd64/file/b", "arm64/file/a"]);
        assert_eq!(entries.list[5].body, Body::HardLink { target: "amd64/file/a".into() });
        assert_eq!(entries.carrier(&index.items[2]), Some(3));
    }
}
