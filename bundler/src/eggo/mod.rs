//! eggo's own offline tarballs: one per arch, made into a bundle and out of one.
//!
//! Two layouts are in the wild. Rooms: `pkg/ bin/ file/ dir/ image/`. Flat: packages and
//! programs at the top, `addons/` and `images.tar`. Neither says which arch it is for or
//! which role gets what: the former is read from what is inside, the latter stays open, so
//! that nodes get what a deploy.yaml names.

mod export;
mod import;

pub use export::export;
pub use import::{Imported, Tarball, import};

use eggo_bundles::Arch;

/// The name that eggo's published sets give the tarball of an arch.
pub fn tarball_name(arch: Arch) -> &'static str {
    match arch {
        Arch::Amd64 => "packages-x86.tar.gz",
        Arch::Arm64 => "packages-arm.tar.gz",
    }
}
