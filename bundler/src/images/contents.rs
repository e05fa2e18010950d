//! What the locked images add to a bundle: items, index entries, and the layout's own files.
//!
//! No I/O: the same for the same lock.

use super::reference::Reference;
use crate::lock::{Blob, LockedImage};
use eggo_bundles::index::Source;
use eggo_bundles::layout::{self, BadLayout, Layout};
use eggo_bundles::{Arch, Digest, Image, Item, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// What the locked images add to a bundle's index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Sorted by path.
    pub items: Vec<Item>,
    /// Sorted by arch and name.
    pub images: Vec<Image>,
    /// The bytes of those items that no registry has, by path; all others are in the cache.
    pub generated: BTreeMap<String, Vec<u8>>,
}

impl LockedImage {
    /// Manifest, config, layers.
    pub fn blobs(&self) -> impl Iterator<Item = Blob> + '_ {
        let manifest = Blob { sha256: self.manifest, size: self.size, media_type: self.media_type.clone() };
        [manifest, self.config.clone()].into_iter().chain(self.layers.iter().cloned())
    }

    pub fn image(&self) -> Image {
        Image {
            name: self.name.clone(),
            arch: self.arch,
            manifest: self.manifest,
            media_type: self.media_type.clone(),
            config: self.config.sha256,
            layers: self.layers.iter().map(|layer| layer.sha256).collect(),
            roles: self.roles.clone(),
        }
    }
}

/// The items and index entries of the locked images.
pub fn contents(locked: &[LockedImage]) -> Result<Contents, BadLayout> {
    let mut contents = Contents::default();
    for arch in Arch::ALL {
        let mut locked: Vec<&LockedImage> = locked.iter().filter(|image| image.arch == arch).collect();
        locked.sort_by(|a, b| a.name.cmp(&b.name));
        locked.dedup_by(|a, b| a.name == b.name && a.manifest == b.manifest);
        if locked.is_empty() {
            continue;
        }
        let images: Vec<Image> = locked.iter().map(|image| image.image()).collect();
        let blobs = blob_items(arch, &locked);
        let layout = Layout::new(arch, &images, |digest| blobs.get(digest).map(|item| item.size))?;
        for (file, bytes) in layout.files {
            let path = layout::bundle_path(arch, file);
            contents.items.push(Item::new(arch, Kind::Image, file, Digest::of(&bytes), bytes.len() as u64));
            contents.generated.insert(path, bytes);
        }
        contents.items.extend(blobs.into_values());
        contents.images.extend(images);
    }
    contents.items.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(contents)
}

/// A blob is named after the first image that has it, and goes where any of its images goes.
fn blob_items(arch: Arch, locked: &[&LockedImage]) -> BTreeMap<Digest, Item> {
    let mut items: BTreeMap<Digest, Item> = BTreeMap::new();
    // A blob of an image without roles goes everywhere, whatever its other images say.
    let mut everywhere = BTreeSet::new();
    for image in locked {
        for blob in image.blobs() {
            let entry = items.entry(blob.sha256).or_insert_with(|| {
                let path = layout::blob_path(&blob.sha256);
                let source = Source { repo: repository(image), ..Source::default() };
                let item = Item::new(arch, Kind::Image, &path, blob.sha256, blob.size);
                Item { name: image.name.clone(), source, ..item }
            });
            if image.roles.is_empty() {
                everywhere.insert(blob.sha256);
            }
            entry.roles.extend(&image.roles);
        }
    }
    for (digest, item) in &mut items {
        item.roles.sort();
        item.roles.dedup();
        if everywhere.contains(digest) {
            item.roles.clear();
        }
    }
    items
}

/// `docker.io/library/nginx`, or nothing for an image from a local archive.
fn repository(image: &LockedImage) -> Option<String> {
    let reference: Reference = image.name.parse().ok()?;
    let from_registry = image.from.is_none();
    from_registry.then(|| format!("{}/{}", reference.registry(), reference.repository()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use eggo_bundles::Role;

    fn locked(name: &str, arch: Arch, seed: &str, roles: &[Role]) -> LockedImage {
        let blob = |text: String| Blob {
            sha256: Digest::of(text.as_bytes()),
            size: text.len() as u64,
            media_type: "application/octet-stream".into(),
        };
        let manifest = blob(format!("m{seed}"));
        LockedImage {
            name: name.into(),
            arch,
            manifest: manifest.sha256,
            media_type: "application/vnd.oci.image.manifest.v1+json".into(),
            size: manifest.size,
            config: blob(format!("c{seed}")),
            layers: vec![blob("shared".into()), blob(format!("l{seed}"))],
            roles: roles.into(),
            from: None,
            required_by: vec!["manifest".into()],
        }
    }

    #[test]
    fn shared_layers_come_once_per_arch_and_the_order_of_the_lock_does_not_matter() {
        let mut images = vec![
            locked("docker.io/library/b:1", Arch::Amd64, "b", &[Role::Worker]),
            locked("docker.io/library/a:1", Arch::Amd64, "a", &[Role::Master]),
            locked("docker.io/library/a:1", Arch::Arm64, "x", &[]),
        ];
        let first = contents(&images).unwrap();
        images.reverse();
        assert_eq!(first, contents(&images).unwrap());
        assert_eq!(first.items.len(), 7 + 3 + 4 + 3);
        assert_eq!(first.generated.len(), 6);
        let shared = Digest::of(b"shared");
        let shared: Vec<_> = first.items.iter().filter(|item| item.sha256 == shared).collect();
        assert_eq!(shared.len(), 2);
        assert_eq!(shared[0].roles, [Role::Master, Role::Worker]);
        assert!(shared[1].roles.is_empty());
    }
}
