//! The bill of materials, made from the index alone: SPDX 2.3 and CycloneDX 1.5, both JSON.
//!
//! Deterministic: no time of building. SPDX demands a creation time: the one that is given, or the epoch.

mod created;
mod cyclonedx;
mod purl;
mod spdx;

pub use created::Created;
pub use cyclonedx::cyclonedx;
pub use spdx::spdx;

use crate::index::{Image, Index, Item, Kind};

/// One thing that a bundle contains, as a bill of materials counts things.
enum Component<'a> {
    /// A package, a binary, a file, an addon, or one file of a folder.
    Item(&'a Item),
    /// An image, made of items that are not listed on their own.
    Image(&'a Image),
}

/// Everything inside, in the order of the index.
fn components(index: &Index) -> Vec<Component<'_>> {
    let items = index.items.iter().filter(|item| item.kind != Kind::Image && item.link.is_none());
    items.map(Component::Item).chain(index.images.iter().map(Component::Image)).collect()
}
