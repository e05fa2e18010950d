//! Sealing: an index becomes final, gets its bill of materials and its signature.

use crate::Digest;
use crate::entries::{Entries, Front};
use crate::index::{Index, Sbom};
use crate::keys::SecretKey;
use crate::rules::{self, BadIndex, LONGEST_INDEX};
use crate::sbom::{self, Created};
use std::collections::BTreeSet;

/// Everything of a bundle but the content of its items.
#[derive(Debug, Clone)]
pub struct Sealed {
    pub(crate) index: Index,
    pub(crate) bytes: Vec<u8>,
    pub(crate) signature: String,
    pub(crate) full_signature: Option<String>,
    pub(crate) sbom: Vec<u8>,
}

/// Sorts the items, adds the bill of materials, and signs. The index is checked like a foreign one.
pub fn seal(index: Index, key: &SecretKey) -> Result<Sealed, BadIndex> {
    seal_created(index, Created::default(), key)
}

/// As [`seal`], with the time that the bill of materials names.
pub fn seal_created(index: Index, created: Created, key: &SecretKey) -> Result<Sealed, BadIndex> {
    let (index, sbom) = finish(index, created)?;
    let bytes = readable(index.to_bytes())?;
    let signature = key.sign(&bytes, &comment(&index));
    Ok(Sealed { index, bytes, signature, full_signature: None, sbom })
}

impl Sealed {
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The delta from `base` to this full bundle, whoever sealed that.
    pub fn delta_from(self, base: &Index, key: &SecretKey) -> Result<Sealed, BadIndex> {
        let base = base.full();
        let had: BTreeSet<Digest> = contents(&base);
        let index = Index {
            parent: Some(Digest::of(&base.to_bytes())),
            carried: contents(&self.index).difference(&had).copied().collect(),
            ..self.index
        };
        let bytes = readable(index.to_bytes())?;
        let signature = key.sign(&bytes, &comment(&index));
        Ok(Sealed { index, bytes, signature, full_signature: Some(self.signature), sbom: self.sbom })
    }

    /// The exact bytes of `eggo-bundle.json`.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The text of `eggo-bundle.json.minisig`.
    pub fn signature(&self) -> &str {
        &self.signature
    }

    /// The bytes of `sbom.spdx.json`.
    pub fn sbom(&self) -> &[u8] {
        &self.sbom
    }

    /// The bytes of `SHA256SUMS`.
    pub fn sums(&self) -> Vec<u8> {
        self.entries().sums
    }

    pub(crate) fn entries(&self) -> Entries {
        let front = Front {
            index: &self.bytes,
            signature: self.signature.as_bytes(),
            full_signature: self.full_signature.as_deref().map(str::as_bytes),
        };
        Entries::new(&self.index, &front)
    }
}

fn finish(mut index: Index, created: Created) -> Result<(Index, Vec<u8>), BadIndex> {
    index.items.sort_by(|a, b| a.path.cmp(&b.path));
    index.archs.sort();
    index.parent = None;
    index.carried = Vec::new();
    let sbom = sbom::spdx(&index, created);
    index.sbom = Some(Sbom { size: sbom.len() as u64, sha256: Digest::of(&sbom) });
    rules::check(&index)?;
    Ok((index, sbom))
}

/// The bytes of an index, if readers take that many.
fn readable(bytes: Vec<u8>) -> Result<Vec<u8>, BadIndex> {
    match bytes.len() as u64 {
        found if found > LONGEST_INDEX => Err(BadIndex::TooLong { found }),
        _ => Ok(bytes),
    }
}

fn contents(index: &Index) -> BTreeSet<Digest> {
    index.items.iter().filter(|item| item.link.is_none()).map(|item| item.sha256).collect()
}

/// What `minisign -V` shows. No time: the same lock must give the same bytes.
fn comment(index: &Index) -> String {
    let archs: Vec<&str> = index.archs.iter().map(|arch| arch.as_str()).collect();
    let what = if index.parent.is_some() { "delta" } else { "bundle" };
    format!("eggo {what} {} {} {}", index.name, index.version, archs.join(","))
}
