//! What a bundle *is*: its index, digests, paths, arch names, signature, and the
//! seekable writer and reader. Nothing here knows a network or a host.

#![warn(unreachable_pub)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod arch;
pub mod archive;
pub mod content;
pub mod digest;
pub mod dst;
pub mod entries;
pub mod error;
pub mod foreign;
mod gzip;
pub mod index;
pub mod keys;
pub mod layout;
pub mod output;
mod part;
pub mod parts;
pub mod progress;
pub mod reader;
pub mod rules;
pub mod sbom;
mod seal;
mod table;
mod tape;
pub mod temporary;
pub mod version;
pub mod writer;

pub use arch::Arch;
pub use digest::Digest;
pub use error::{Error, Refusal};
pub use index::{Image, Index, Item, Kind, Role, Source};
pub use keys::{KeyPair, PublicKey, SecretKey, TrustedKeys};
pub use reader::{Bundle, Readable, Untrusted, Unverified, Verified};
pub use seal::{Sealed, seal, seal_created};
pub use writer::{Content, Store, WriteError, Written, write};
