//! How images are stored in a bundle, and which bytes make a loadable archive of some of them.
//!
//! `ARCH/image/` is an OCI layout and a docker archive over the same blobs. A node gets only
//! the images it needs, so [`Layout`] can be made for any subset: its [`Layout::files`] and
//! [`Layout::blobs`] as a tar stream load with `ctr -n k8s.io images import -`, `docker load`,
//! `isula load` and `podman load`. Nothing here reads or writes anything.
//!
//! A reference with a digest (`repo:tag@sha256:…`) gives two names in `index.json`: containerd
//! drops the tag of such a reference when the kubelet asks for it and looks for
//! `repo@sha256:…`. Docker archives know tags only.

use crate::{Arch, Digest, Image, Index, Item, Kind};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The file that makes a folder an OCI layout.
pub const LAYOUT_FILE: &str = "oci-layout";
/// The OCI list of images.
pub const INDEX_FILE: &str = "index.json";
/// The docker archive's list of images.
pub const MANIFEST_FILE: &str = "manifest.json";

/// A blob's path below `ARCH/image/` and inside of a loadable archive.
pub fn blob_path(digest: &Digest) -> String {
    format!("blobs/sha256/{digest}")
}

/// The path in a bundle of a file in an arch's layout.
pub fn bundle_path(arch: Arch, file: &str) -> String {
    format!("{arch}/{}/{file}", Kind::Image.room())
}

/// A set of images of one arch, as the files and blobs that a container runtime loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// `oci-layout`, `index.json`, `manifest.json` with their bytes.
    pub files: [(&'static str, Vec<u8>); 3],
    /// Every blob that the images are made of: digest and size, each once.
    pub blobs: BTreeMap<Digest, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLayout {
    #[error("image `{image}` for {arch} needs blob `{blob}`, which the index does not list")]
    MissingBlob { image: String, arch: Arch, blob: Digest },
    #[error("image `{image}` is for {found}, in a layout of {expected}")]
    MixedArchs { image: String, found: Arch, expected: Arch },
    #[error("two different images are called `{0}`")]
    SameName(String),
}

impl Layout {
    /// The layout of `images`, all of `arch`; `size` tells a blob's size.
    ///
    /// The order of `images` does not matter.
    pub fn new<'a>(
        arch: Arch,
        images: impl IntoIterator<Item = &'a Image>,
        size: impl Fn(&Digest) -> Option<u64>,
    ) -> Result<Self, BadLayout> {
        let mut images: Vec<&Image> = images.into_iter().collect();
        images.sort_by(|a, b| a.name.cmp(&b.name));
        let mut blobs = BTreeMap::new();
        let mut named: BTreeMap<String, &Image> = BTreeMap::new();
        let mut docker: BTreeMap<Digest, DockerImage> = BTreeMap::new();
        for image in images {
            if image.arch != arch {
                let (image, found) = (image.name.clone(), image.arch);
                return Err(BadLayout::MixedArchs { image, found, expected: arch });
            }
            for blob in image.blobs() {
                let missing = || BadLayout::MissingBlob { image: image.name.clone(), arch, blob };
                blobs.insert(blob, size(&blob).ok_or_else(missing)?);
            }
            let names = Names::of(&image.name);
            for name in [&names.tagged, &names.digested].into_iter().flatten() {
                let before = named.insert(name.clone(), image);
                if before.is_some_and(|before| before.manifest != image.manifest) {
                    return Err(BadLayout::SameName(name.clone()));
                }
            }
            docker.entry(image.manifest).or_insert_with(|| DockerImage::new(image)).tag(names.tagged);
        }
        let index = OciIndex::new(arch, &named, &blobs);
        let files = [
            (LAYOUT_FILE, br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
            (INDEX_FILE, json(&index)),
            (MANIFEST_FILE, json(&docker.into_values().collect::<Vec<_>>())),
        ];
        Ok(Self { files, blobs })
    }

    /// The layout of those images of a bundle's arch that `wanted` says yes to.
    pub fn of_index(index: &Index, arch: Arch, wanted: impl Fn(&Image) -> bool) -> Result<Self, BadLayout> {
        let sizes: BTreeMap<Digest, u64> =
            blob_items(index, arch).map(|(digest, item)| (digest, item.size)).collect();
        let images = index.images.iter().filter(|image| image.arch == arch && wanted(image));
        Self::new(arch, images, |digest| sizes.get(digest).copied())
    }

    /// All bytes that a loader is given, tar headers aside.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes.len() as u64).chain(self.blobs.values().copied()).sum()
    }
}

/// The items of a bundle that are blobs of `arch`'s images.
pub fn blob_items(index: &Index, arch: Arch) -> impl Iterator<Item = (Digest, &Item)> {
    let folder = bundle_path(arch, "blobs/sha256/");
    let items = index.items.iter().filter(move |item| item.arch == arch && item.kind == Kind::Image);
    items.filter(move |item| item.path.starts_with(&folder)).map(|item| (item.sha256, item))
}

impl Image {
    /// Manifest, config and layers, in this order; a layer that appears twice in the image comes once.
    pub fn blobs(&self) -> impl Iterator<Item = Digest> + '_ {
        let mut seen = BTreeSet::new();
        let all = [self.manifest, self.config].into_iter().chain(self.layers.iter().copied());
        all.filter(move |digest| seen.insert(*digest))
    }
}

/// The names under which a runtime knows an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// `host/repo:tag`
    pub tagged: Option<String>,
    /// `host/repo@sha256:…`
    pub digested: Option<String>,
}

impl Names {
    /// Takes a full reference apart: `host/repo[:tag][@digest]`.
    pub fn of(reference: &str) -> Self {
        let (rest, digest) = match reference.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (reference, None),
        };
        let last = rest.rfind('/').map_or(0, |slash| slash + 1);
        let colon = rest[last..].find(':').map(|colon| last + colon);
        let repository = &rest[..colon.unwrap_or(rest.len())];
        Self {
            tagged: colon.map(|_| rest.to_string()),
            digested: digest.map(|digest| format!("{repository}@{digest}")),
        }
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a layout has only JSON types")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OciIndex {
    schema_version: u32,
    media_type: &'static str,
    manifests: Vec<Descriptor>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    annotations: BTreeMap<&'static str, String>,
    platform: Platform,
}

#[derive(Serialize)]
struct Platform {
    architecture: &'static str,
    os: &'static str,
}

impl OciIndex {
    fn new(arch: Arch, named: &BTreeMap<String, &Image>, blobs: &BTreeMap<Digest, u64>) -> Self {
        let manifests = named.iter().map(|(name, image)| Descriptor {
            media_type: image.media_type.clone(),
            digest: image.manifest.oci(),
            size: blobs[&image.manifest],
            // containerd reads the first, podman and skopeo the second.
            annotations: BTreeMap::from([
                ("io.containerd.image.name", name.clone()),
                ("org.opencontainers.image.ref.name", name.clone()),
            ]),
            platform: Platform { architecture: arch.as_str(), os: "linux" },
        });
        let media_type = "application/vnd.oci.image.index.v1+json";
        Self { schema_version: 2, media_type, manifests: manifests.collect() }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    repo_tags: Vec<String>,
    layers: Vec<String>,
}

impl DockerImage {
    fn new(image: &Image) -> Self {
        Self {
            config: blob_path(&image.config),
            repo_tags: Vec::new(),
            // As in the image, repeats included: they pair up with the config's diff ids.
            layers: image.layers.iter().map(blob_path).collect(),
        }
    }

    fn tag(&mut self, name: Option<String>) {
        if let Some(name) = name
            && !self.repo_tags.contains(&name)
        {
            self.repo_tags.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str, seed: &str) -> Image {
        Image {
            name: name.into(),
            arch: Arch::Arm64,
            manifest: Digest::of(format!("m{seed}").as_bytes()),
            media_type: "application/vnd.oci.image.manifest.v1+json".into(),
            config: Digest::of(format!("c{seed}").as_bytes()),
            layers: vec![Digest::of(b"shared"), Digest::of(seed.as_bytes()), Digest::of(b"shared")],
            roles: vec![],
        }
    }

    #[test]
    fn names_of_every_form() {
        let names = |text| {
            let Names { tagged, digested } = Names::of(text);
            (tagged.unwrap_or_default(), digested.unwrap_or_default())
        };
        assert_eq!(names("h:5000/a/b:1"), ("h:5000/a/b:1".into(), "".into()));
        assert_eq!(names("h:5000/a/b@sha256:00"), ("".into(), "h:5000/a/b@sha256:00".into()));
        assert_eq!(names("h/a:1@sha256:00"), ("h/a:1".into(), "h/a@sha256:00".into()));
    }

    #[test]
    fn order_does_not_matter_and_blobs_come_once() {
        let (a, b) = (image("docker.io/library/a:1", "a"), image("docker.io/library/b:1", "b"));
        let size = |digest: &Digest| Some(u64::from(digest.as_bytes()[0]));
        let one = Layout::new(Arch::Arm64, [&a, &b], size).unwrap();
        assert_eq!(one, Layout::new(Arch::Arm64, [&b, &a, &a], size).unwrap());
        assert_eq!(one.blobs.len(), 7);
        let manifest: serde_json::Value = serde_json::from_slice(&one.files[2].1).unwrap();
        let layers = |i: usize| manifest[i]["Layers"].as_array().unwrap().len();
        assert_eq!((layers(0), layers(1)), (3, 3), "a repeated layer keeps its places");
    }

    #[test]
    fn a_digest_reference_is_known_by_tag_and_by_digest() {
        let reference =
            "registry.k8s.io/x/y:v1@sha256:594ceea76b01c592858f803f9ff4d2cb40542cae2060410b2c95f75907d659e1";
        let layout = Layout::new(Arch::Arm64, [&image(reference, "y")], |_| Some(1)).unwrap();
        let index: serde_json::Value = serde_json::from_slice(&layout.files[1].1).unwrap();
        let names = index["manifests"].as_array().unwrap().iter();
        let names: Vec<_> =
            names.map(|m| m["annotations"]["io.containerd.image.name"].as_str().unwrap()).collect();
        let digested = reference.replace(":v1@", "@");
        assert_eq!(names, ["registry.k8s.io/x/y:v1", digested.as_str()]);
        let manifest: serde_json::Value = serde_json::from_slice(&layout.files[2].1).unwrap();
        assert_eq!(manifest[0]["RepoTags"], serde_json::json!(["registry.k8s.io/x/y:v1"]));
    }

    #[test]
    fn refuses_what_cannot_load() {
        let (a, other) = (image("docker.io/library/a:1", "a"), image("docker.io/library/a:1", "z"));
        let missing = Layout::new(Arch::Arm64, [&a], |_| None).unwrap_err();
        assert!(matches!(missing, BadLayout::MissingBlob { .. }));
        let same = Layout::new(Arch::Arm64, [&a, &other], |_| Some(1)).unwrap_err();
        assert_eq!(same, BadLayout::SameName("docker.io/library/a:1".into()));
        let mixed = Layout::new(Arch::Amd64, [&a], |_| Some(1)).unwrap_err();
        assert!(matches!(mixed, BadLayout::MixedArchs { .. }));
    }
}
