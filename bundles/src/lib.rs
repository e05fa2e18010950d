//! What a bundle *is*: its index, digests, paths, arch names, signature, and the
//! seekable writer and reader. Nothing here knows a network or a host.

pub mod arch;
pub mod digest;
pub mod dst;
pub mod index;
pub mod layout;
pub mod progress;

pub use arch::Arch;
pub use digest::Digest;
pub use index::{Image, Index, Item, Kind, Role, Source};
