//! The JSON documents that describe an image: index, manifest, config; OCI's and docker's schema 2.
//!
//! Parsing only. Foreign bytes: sizes are bounded by whoever fetched them, counts and
//! contradictions are checked here.

use eggo_bundles::{Arch, Digest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The largest index or manifest; registries themselves refuse larger ones.
pub(super) const MAX_MANIFEST: u64 = 4 << 20;
pub(super) const MAX_CONFIG: u64 = 8 << 20;
const MAX_LAYERS: usize = 1000;
const MAX_PLATFORMS: usize = 1000;

pub(super) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(super) const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
pub(super) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub(super) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(super) const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
/// What a registry is told that we take.
pub(super) const ACCEPTED: [&str; 4] = [OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST];

/// What is wrong with a document; the caller knows which image it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadDocument(pub String);

/// A digest as OCI writes it, `sha256:…`; no other algorithm is in use.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    digest: String,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Platform {
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// What a manifest url or a layout's blob may hold.
#[derive(Debug)]
pub(super) enum Document {
    Index(Vec<Descriptor>),
    Manifest(Manifest),
}

#[derive(Debug, Clone)]
pub(super) struct Manifest {
    pub media_type: String,
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
}

/// The parts of an image's config that we look at.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Config {
    #[serde(flatten)]
    pub platform: Platform,
    #[serde(default)]
    rootfs: RootFs,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

fn or_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Descriptor {
    pub(super) fn new(media_type: &str, digest: Digest, size: u64) -> Self {
        Self {
            media_type: media_type.to_string(),
            digest: digest.oci(),
            size,
            platform: None,
            annotations: BTreeMap::new(),
        }
    }

    pub(super) fn digest(&self) -> Result<Digest, BadDocument> {
        let digits = self.digest.strip_prefix("sha256:");
        let digest = digits.and_then(|digits| digits.parse().ok());
        digest.ok_or_else(|| BadDocument(format!("`{}` is not a sha256 digest", self.digest)))
    }

    pub(super) fn is_index(&self) -> bool {
        matches!(self.media_type.as_str(), OCI_INDEX | DOCKER_LIST)
    }

    /// Build provenance that buildkit stores beside the images, as if it were one.
    pub(super) fn is_attestation(&self) -> bool {
        self.annotations.contains_key("vnd.docker.reference.type")
            || self.platform.as_ref().is_some_and(|platform| platform.architecture == "unknown")
    }
}

/// Everything that an index or a manifest may have, to tell the one from the other.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(default)]
    schema_version: u32,
    media_type: Option<String>,
    artifact_type: Option<String>,
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
}

impl Document {
    /// `content_type` is what the registry or the descriptor says; it counts only where the
    /// document itself says nothing.
    pub(super) fn parse(bytes: &[u8], content_type: Option<&str>) -> Result<Self, BadDocument> {
        let raw: Raw = serde_json::from_slice(bytes)
            .map_err(|error| BadDocument(format!("the manifest is not valid: {error}")))?;
        if raw.schema_version == 1 {
            let reason = "the manifest is of docker's schema 1, which nothing loads any more";
            return Err(BadDocument(reason.to_string()));
        }
        if raw.schema_version != 2 {
            return Err(BadDocument(format!("the manifest has schema version {}", raw.schema_version)));
        }
        let known = |text: &&str| ACCEPTED.contains(text);
        let said = content_type.map(|text| text.split(';').next().unwrap_or(text).trim()).filter(known);
        let media_type = raw.media_type.as_deref().or(said);
        match (raw.manifests, raw.config, raw.layers) {
            (Some(manifests), None, None) => {
                // A document that is read as a manifest by one program and as an index by
                // another is an old trick to smuggle an image past a check.
                refuse_contradiction(media_type, &[OCI_INDEX, DOCKER_LIST])?;
                if manifests.len() > MAX_PLATFORMS {
                    return Err(BadDocument(format!("the index lists more than {MAX_PLATFORMS} manifests")));
                }
                Ok(Self::Index(manifests))
            }
            (None, Some(config), Some(layers)) => {
                refuse_contradiction(media_type, &[OCI_MANIFEST, DOCKER_MANIFEST])?;
                if layers.len() > MAX_LAYERS {
                    return Err(BadDocument(format!("the manifest lists more than {MAX_LAYERS} layers")));
                }
                let media_type = media_type.unwrap_or(OCI_MANIFEST).to_string();
                let manifest = Manifest { media_type, config, layers };
                manifest.refuse_artifact(raw.artifact_type.as_deref())?;
                Ok(Self::Manifest(manifest))
            }
            _ => Err(BadDocument("it is neither an index nor a manifest of an image".to_string())),
        }
    }
}

fn refuse_contradiction(media_type: Option<&str>, expected: &[&str]) -> Result<(), BadDocument> {
    match media_type {
        Some(said) if !expected.contains(&said) => {
            Err(BadDocument(format!("the document calls itself `{said}` and is something else")))
        }
        _ => Ok(()),
    }
}

impl Manifest {
    /// Helm charts and the like live in registries too, and look like images from afar.
    fn refuse_artifact(&self, artifact_type: Option<&str>) -> Result<(), BadDocument> {
        let config = self.config.media_type.as_str();
        if matches!(config, OCI_CONFIG | DOCKER_CONFIG) || config.is_empty() {
            return Ok(());
        }
        let what = artifact_type.unwrap_or(config);
        Err(BadDocument(format!("it is an artifact of type `{what}`, not an image")))
    }
}

impl Config {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, BadDocument> {
        serde_json::from_slice(bytes)
            .map_err(|error| BadDocument(format!("the image's config is not valid: {error}")))
    }

    /// Every layer needs its diff id, else no runtime can unpack it.
    pub(super) fn check_layers(&self, layers: usize) -> Result<(), BadDocument> {
        let diff_ids = self.rootfs.diff_ids.len();
        if diff_ids == layers {
            return Ok(());
        }
        Err(BadDocument(format!("the image has {layers} layers, its config lists {diff_ids}")))
    }
}

impl Platform {
    /// How well an image of this platform runs on any machine of `arch`: smaller is better,
    /// `None` is not at all. An image for newer CPUs only (`amd64/v3`, `arm64/v9`) is refused:
    /// it would start on some nodes and die on others.
    pub(super) fn rank(&self, arch: Arch) -> Option<u8> {
        if self.os != "linux" || self.architecture.parse() != Ok(arch) {
            return None;
        }
        let variant = self.variant.as_deref().unwrap_or("");
        match (arch, variant) {
            (Arch::Arm64, "v8") | (Arch::Amd64, "") => Some(0),
            (Arch::Arm64, "" | "8") | (Arch::Amd64, "v1") => Some(1),
            _ => None,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |text: &str| if text.is_empty() { "?".to_string() } else { text.to_string() };
        write!(f, "{}/{}", or(&self.os), or(&self.architecture))?;
        match &self.variant {
            Some(variant) if !variant.is_empty() => write!(f, "/{variant}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platform {
        let mut parts = text.split('/').map(str::to_string);
        Platform { os: parts.next().unwrap(), architecture: parts.next().unwrap(), variant: parts.next() }
    }

    #[test]
    fn ranks_platforms_and_variants() {
        for (text, arch, rank) in [
            ("linux/amd64", Arch::Amd64, Some(0)),
            ("linux/amd64/v1", Arch::Amd64, Some(1)),
            ("linux/amd64/v3", Arch::Amd64, None),
            ("linux/arm64/v8", Arch::Arm64, Some(0)),
            ("linux/arm64", Arch::Arm64, Some(1)),
            ("linux/arm64/v9", Arch::Arm64, None),
            ("linux/arm/v8", Arch::Arm64, None),
            ("windows/amd64", Arch::Amd64, None),
            ("unknown/unknown", Arch::Amd64, None),
        ] {
            assert_eq!(platform(text).rank(arch), rank, "{text} on {arch}");
        }
    }

    #[test]
    fn refuses_what_is_not_an_image() {
        let config = r#""config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:0","size":1}"#;
        let helm = r#""config":{"mediaType":"application/vnd.cncf.helm.config.v1+json","digest":"sha256:0","size":1}"#;
        for (text, reason) in [
            ("{}", "the manifest has schema version 0"),
            (r#"{"schemaVersion":1}"#, "the manifest is of docker's schema 1"),
            (r#"{"schemaVersion":2}"#, "it is neither an index nor a manifest"),
            (&format!(r#"{{"schemaVersion":2,"manifests":[],{config},"layers":[]}}"#), "it is neither"),
            (
                &format!(r#"{{"schemaVersion":2,"mediaType":"{OCI_INDEX}",{config},"layers":[]}}"#),
                "the document calls itself",
            ),
            (&format!(r#"{{"schemaVersion":2,{helm},"layers":[]}}"#), "it is an artifact of type"),
            ("[", "the manifest is not valid"),
        ] {
            let error = Document::parse(text.as_bytes(), None).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{text}: {error}");
        }
        let content_type = format!("{DOCKER_MANIFEST}; charset=utf-8");
        let manifest = format!(r#"{{"schemaVersion":2,{config},"layers":[]}}"#);
        match Document::parse(manifest.as_bytes(), Some(&content_type)).unwrap() {
            Document::Manifest(manifest) => assert_eq!(manifest.media_type, DOCKER_MANIFEST),
            Document::Index(_) => panic!("a manifest is not an index"),
        }
    }
}
