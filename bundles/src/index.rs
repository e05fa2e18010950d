//! The index: the first entry of a bundle, and the only thing in it that is trusted.

use crate::{Arch, Digest};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The newest bundle format this program reads and the one it writes.
pub const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    pub format: u32,
    pub name: String,
    pub version: String,
    pub archs: Vec<Arch>,
    /// A delta names the index digest of the only bundle it can be applied to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Digest>,
    /// In a delta: the content that it carries itself, sorted. Everything else is the parent's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<Digest>,
    /// Every file of the full bundle, sorted by path. In a delta, those the parent has are listed too.
    pub items: Vec<Item>,
    /// The images that the `image` items make up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// What the targets were assumed to have when the packages were resolved, per arch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<Baseline>,
    /// The bill of materials in the root of the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sbom: Option<Sbom>,
}

/// One file of the bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Where it is in the bundle: `ARCH/ROOM/…`.
    pub path: String,
    pub arch: Arch,
    pub kind: Kind,
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    pub size: u64,
    pub sha256: Digest,
    /// The roles whose nodes get it; empty: every node that asks for it by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    /// The folder on the node it goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// For a symbolic link inside a `dir`: its target, which stays inside that `dir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// For a package: the names of the bundled packages that it needs itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    #[serde(default, skip_serializing_if = "Source::is_empty")]
    pub source: Source,
}

/// The room that an item is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Pkg,
    Bin,
    File,
    Dir,
    Image,
    Addon,
}

/// What a node does in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Etcd,
    Loadbalance,
    Master,
    #[serde(alias = "node")]
    Worker,
}

/// Where an item came from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Fingerprint of the key whose signature vouched for it; absent: nobody's did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A container image, made of blobs that are in `ARCH/image/blobs/sha256/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// The full reference, e.g. `docker.io/library/nginx:1.25`.
    pub name: String,
    pub arch: Arch,
    pub manifest: Digest,
    pub media_type: String,
    pub config: Digest,
    pub layers: Vec<Digest>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
}

/// Whose packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageFormat {
    Deb,
    Rpm,
}

impl PackageFormat {
    /// By the ending of the file's name.
    pub fn of(item: &Item) -> Option<Self> {
        match item.path.rsplit('.').next() {
            Some("deb") => Some(Self::Deb),
            Some("rpm") => Some(Self::Rpm),
            _ => None,
        }
    }
}

/// What a target surely has, as the resolver was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    pub arch: Arch,
    pub format: PackageFormat,
    /// `minimal`, `none`, or the name of the captured file.
    pub name: String,
    /// `NAME VERSION` of every package in it, sorted.
    pub packages: Vec<String>,
    /// The needs of bundled packages that these meet, as the packages write them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meets: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sbom {
    pub size: u64,
    pub sha256: Digest,
}

impl Index {
    pub fn new(name: impl Into<String>, version: impl Into<String>, archs: Vec<Arch>) -> Self {
        Self {
            format: FORMAT,
            name: name.into(),
            version: version.into(),
            archs,
            parent: None,
            carried: Vec::new(),
            items: Vec::new(),
            images: Vec::new(),
            baselines: Vec::new(),
            sbom: None,
        }
    }

    pub fn with_items(mut self, items: Vec<Item>) -> Self {
        self.items = items;
        self
    }

    /// The index of the full bundle that this delta and its parent make up.
    pub fn full(&self) -> Self {
        Self { parent: None, carried: Vec::new(), ..self.clone() }
    }

    /// Whether the content of `item` is in this bundle itself and not only in a delta's parent.
    pub fn carries(&self, item: &Item) -> bool {
        self.parent.is_none() || item.link.is_some() || self.carried.binary_search(&item.sha256).is_ok()
    }

    pub fn item(&self, path: &str) -> Option<&Item> {
        self.items.iter().find(|item| item.path == path)
    }

    /// The canonical bytes: what is signed, written and named by a delta.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("an index has only JSON types");
        bytes.push(b'\n');
        bytes
    }
}

impl Item {
    /// Content that is in its room as `below`, with that as its name; all else that is known of it
    /// comes on top.
    pub fn new(arch: Arch, kind: Kind, below: &str, sha256: Digest, size: u64) -> Self {
        Self {
            path: format!("{arch}/{}/{below}", kind.room()),
            arch,
            kind,
            name: below.to_string(),
            version: String::new(),
            size,
            sha256,
            roles: Vec::new(),
            dst: None,
            mode: None,
            link: None,
            requires: Vec::new(),
            source: Source::default(),
        }
    }
}

impl Source {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Kind {
    pub const ALL: [Kind; 6] = [Kind::Pkg, Kind::Bin, Kind::File, Kind::Dir, Kind::Image, Kind::Addon];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Pkg => "pkg",
            Kind::Bin => "bin",
            Kind::File => "file",
            Kind::Dir => "dir",
            Kind::Image => "image",
            Kind::Addon => "addon",
        }
    }

    /// The folder below the arch's folder.
    pub fn room(self) -> &'static str {
        match self {
            Kind::Addon => "addons",
            other => other.as_str(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Etcd, Role::Loadbalance, Role::Master, Role::Worker];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Etcd => "etcd",
            Role::Loadbalance => "loadbalance",
            Role::Master => "master",
            Role::Worker => "worker",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown role `{0}` (known: etcd, loadbalance, master, worker = node)")]
pub struct UnknownRole(pub String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        match text {
            "etcd" => Ok(Role::Etcd),
            "loadbalance" | "loadbalancer" => Ok(Role::Loadbalance),
            "master" => Ok(Role::Master),
            "worker" | "node" => Ok(Role::Worker),
            _ => Err(UnknownRole(text.to_string())),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An item with this path and content.
    pub(crate) fn item(path: &str, content: &[u8]) -> Item {
        let [arch, room, below] = *path.splitn(3, '/').collect::<Vec<_>>() else { panic!("{path}") };
        let kind = Kind::ALL.into_iter().find(|kind| kind.room() == room).unwrap();
        Item::new(arch.parse().unwrap(), kind, below, Digest::of(content), content.len() as u64)
    }

    #[test]
    fn a_delta_without_its_parent_is_the_full_index() {
        let full = Index::new("n", "1", vec![Arch::Amd64]).with_items(vec![item("amd64/file/a", b"x")]);
        let mut delta = full.clone();
        delta.parent = Some(Digest::of(b"parent"));
        delta.carried = vec![Digest::of(b"x")];
        assert_ne!(delta.to_bytes(), full.to_bytes());
        assert_eq!(delta.full().to_bytes(), full.to_bytes());
    }
}
