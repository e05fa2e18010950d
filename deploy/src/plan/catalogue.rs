//! A bundle's index, arranged for questions.

use super::reference;
use eggo_bundles::{Arch, Digest, Image, Index, Item, Kind};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

pub(super) struct Catalogue {
    pub items: Vec<Arc<Item>>,
    pub images: Vec<Arc<Image>>,
    named: HashMap<(Arch, Kind, String), Vec<usize>>,
    image_items: HashMap<(Arch, Digest), usize>,
    assumed: HashSet<(Arch, String)>,
}

impl Catalogue {
    pub(super) fn new(index: &Index) -> Self {
        let items: Vec<Arc<Item>> = index.items.iter().cloned().map(Arc::new).collect();
        let mut named: HashMap<_, Vec<usize>> = HashMap::new();
        let mut image_items = HashMap::new();
        for (i, item) in items.iter().enumerate() {
            for name in names(item) {
                named.entry((item.arch, item.kind, name.to_string())).or_default().push(i);
            }
            if item.kind == Kind::Image {
                image_items.insert((item.arch, item.sha256), i);
            }
        }
        let assumed = index.baselines.iter().flat_map(|baseline| {
            let names = baseline.packages.iter().filter_map(|line| line.split(' ').next());
            names.map(move |name| (baseline.arch, name.to_string()))
        });
        Self {
            assumed: assumed.collect(),
            images: index.images.iter().cloned().map(Arc::new).collect(),
            items,
            named,
            image_items,
        }
    }

    /// All items of that name: several for a folder, or where two package formats are bundled.
    pub(super) fn find(&self, arch: Arch, kind: Kind, name: &str) -> impl Iterator<Item = &Arc<Item>> {
        let found = self.named.get(&(arch, kind, name.to_string()));
        found.into_iter().flatten().map(|i| &self.items[*i])
    }

    pub(super) fn has(&self, arch: Arch, kind: Kind, name: &str) -> bool {
        self.named.contains_key(&(arch, kind, name.to_string()))
    }

    pub(super) fn image(&self, arch: Arch, name: &str) -> Option<&Arc<Image>> {
        let full = reference::full(name);
        self.images.iter().find(|image| image.arch == arch && reference::full(&image.name) == full)
    }

    /// The items of an image: manifest, config and layers.
    pub(super) fn blobs<'a>(&'a self, image: &'a Image) -> impl Iterator<Item = &'a Arc<Item>> {
        let digests = [&image.manifest, &image.config].into_iter().chain(&image.layers);
        digests.filter_map(|digest| Some(&self.items[*self.image_items.get(&(image.arch, *digest))?]))
    }

    /// Whether the packages were resolved for nodes that have this one already.
    pub(super) fn assumes(&self, arch: Arch, package: &str) -> bool {
        self.assumed.contains(&(arch, package.to_string()))
    }

    /// Whether the bundle says which images it has. eggo's tarballs hold archives whose content
    /// nobody lists, and a bundle without any image leaves them to the nodes.
    pub(super) fn images_are_listed(&self) -> bool {
        !self.images.is_empty()
    }
}

/// What an item can be asked for by: its name, its file's name and, for a manifest, that without ending.
fn names(item: &Item) -> Vec<&str> {
    let mut names = vec![item.name.as_str()];
    // The files of a folder are asked for by the folder; an image's blobs by the image.
    let whole = !matches!(item.kind, Kind::Dir | Kind::Image) || item.path.ends_with(&item.name);
    let file = Path::new(&item.path).file_name().and_then(|name| name.to_str()).filter(|_| whole);
    names.extend(file);
    if item.kind == Kind::Addon {
        names.extend(file.and_then(|file| file.strip_suffix(".yaml").or(file.strip_suffix(".yml"))));
    }
    names.sort_unstable();
    names.dedup();
    names
}
