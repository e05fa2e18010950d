//! An item of a node's plan, and how it is written.

use eggo_bundles::index::Source;
use eggo_bundles::{Arch, Digest, Item, Kind, Role};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// An item of the bundle, and where it goes on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub item: Arc<Item>,
    /// The folder; deploy.yaml's word comes before the bundle's. Checked against the whitelist.
    pub dst: Option<String>,
}

/// The item as the index has it, with the folder that holds for this node as `dst`.
#[derive(Serialize, Deserialize)]
struct Written {
    path: String,
    arch: Arch,
    kind: Kind,
    name: String,
    version: String,
    size: u64,
    sha256: Digest,
    dst: Option<String>,
    /// What the index says, where that differs; empty: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index_dst: Option<String>,
    mode: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    roles: Vec<Role>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    requires: Vec<String>,
    #[serde(default, skip_serializing_if = "Source::is_empty")]
    source: Source,
}

impl Serialize for Wanted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Item { path, arch, kind, name, version, size, sha256, roles, dst, mode, link, requires, source } =
            (*self.item).clone();
        let index_dst = (dst != self.dst).then(|| dst.unwrap_or_default());
        let dst = self.dst.clone();
        #[rustfmt::skip]
        let written = Written {
            path, arch, kind, name, version, size, sha256, dst, index_dst, mode, roles, link, requires, source,
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Wanted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[rustfmt::skip]
        let Written {
            path, arch, kind, name, version, size, sha256, dst, index_dst, mode, roles, link, requires, source,
        } = Written::deserialize(deserializer)?;
        let wanted = dst.clone();
        let dst = match index_dst {
            Some(text) => Some(text).filter(|text| !text.is_empty()),
            None => dst,
        };
        let item =
            Item { path, arch, kind, name, version, size, sha256, roles, dst, mode, link, requires, source };
        Ok(Self { item: Arc::new(item), dst: wanted })
    }
}
