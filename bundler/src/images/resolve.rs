//! From an index or manifest to the one manifest of an arch, and what it is made of.
//!
//! The same for registries and local layouts: both are a [`Documents`].

use super::documents::{BadDocument, Config, Descriptor, Document, Platform};
use super::error::Error;
use crate::lock::Blob;
use eggo_bundles::{Arch, Digest};

/// An index inside of an index is legal; deeper than this it is a joke.
const MAX_DEPTH: usize = 3;
/// Platforms of one image, over all its nested indexes.
const MAX_LEAVES: usize = 1000;

/// Where an image's small documents come from, verified against their digests.
pub(super) trait Documents {
    async fn manifest(&self, descriptor: &Descriptor) -> Result<Vec<u8>, Error>;
    async fn config(&self, descriptor: &Descriptor) -> Result<Vec<u8>, Error>;
}

/// A manifest and the platform it is for.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    descriptor: Descriptor,
    platform: Platform,
}

/// What an image of one arch is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    pub manifest: Blob,
    pub config: Blob,
    pub layers: Vec<Blob>,
}

/// Every platform that `roots` lead to.
pub(super) async fn leaves(
    image: &str,
    roots: Vec<Descriptor>,
    documents: &impl Documents,
) -> Result<Vec<Leaf>, Error> {
    let bad = |problem| Error::Document { image: image.to_string(), problem };
    let mut leaves = Vec::new();
    let mut level = roots;
    for _ in 0..=MAX_DEPTH {
        let mut below = Vec::new();
        for descriptor in level {
            if descriptor.is_attestation() {
                continue;
            }
            if leaves.len() + below.len() > MAX_LEAVES {
                return Err(bad(BadDocument(format!("it has more than {MAX_LEAVES} platforms"))));
            }
            // A platform on the descriptor saves looking into the manifest.
            if let (Some(platform), false) = (&descriptor.platform, descriptor.is_index()) {
                leaves.push(Leaf { platform: platform.clone(), descriptor });
                continue;
            }
            let bytes = documents.manifest(&descriptor).await?;
            match Document::parse(&bytes, Some(&descriptor.media_type)).map_err(bad)? {
                Document::Index(list) => below.extend(list),
                Document::Manifest(manifest) => {
                    let config = documents.config(&manifest.config).await?;
                    let platform = Config::parse(&config).map_err(bad)?.platform;
                    leaves.push(Leaf { descriptor, platform });
                }
            }
        }
        if below.is_empty() {
            return Ok(leaves);
        }
        level = below;
    }
    Err(bad(BadDocument(format!("its indexes are nested more than {MAX_DEPTH} deep"))))
}

/// The manifest that runs on every machine of `arch`.
pub(super) fn choose<'a>(image: &str, leaves: &'a [Leaf], arch: Arch) -> Result<&'a Leaf, Error> {
    let ranked = leaves.iter().filter_map(|leaf| Some((leaf.platform.rank(arch)?, leaf)));
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, leaf)| leaf).ok_or_else(|| {
        let mut found: Vec<String> = leaves.iter().map(|leaf| leaf.platform.to_string()).collect();
        found.sort();
        found.dedup();
        Error::NoArch { image: image.to_string(), arch, found }
    })
}

/// What the chosen manifest is made of. Its config has the last word on the arch.
pub(super) async fn describe(
    image: &str,
    leaf: &Leaf,
    arch: Arch,
    documents: &impl Documents,
) -> Result<Resolved, Error> {
    let bad = |problem| Error::Document { image: image.to_string(), problem };
    let bytes = documents.manifest(&leaf.descriptor).await?;
    let document = Document::parse(&bytes, Some(&leaf.descriptor.media_type)).map_err(bad)?;
    let Document::Manifest(manifest) = document else {
        return Err(bad(BadDocument("its index names an index where it promised a manifest".to_string())));
    };
    let config = Config::parse(&documents.config(&manifest.config).await?).map_err(bad)?;
    if config.platform.rank(arch).is_none() {
        let (said, is) = (&leaf.platform, &config.platform);
        return Err(bad(BadDocument(format!("the manifest listed as {said} is for {is}"))));
    }
    config.check_layers(manifest.layers.len()).map_err(bad)?;
    let blob = |descriptor: &Descriptor| -> Result<Blob, BadDocument> {
        let (sha256, size) = (descriptor.digest()?, descriptor.size);
        Ok(Blob { sha256, size, media_type: descriptor.media_type.clone() })
    };
    let layers = manifest.layers.iter().map(blob).collect::<Result<_, _>>().map_err(bad)?;
    let manifest_blob = Blob {
        sha256: Digest::of(&bytes),
        size: bytes.len() as u64,
        media_type: manifest.media_type.clone(),
    };
    Ok(Resolved { manifest: manifest_blob, config: blob(&manifest.config).map_err(bad)?, layers })
}
