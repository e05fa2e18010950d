//! RPM repositories: metadata, rich dependencies, modules, dnf's choices, and proof of what was
//! downloaded.

mod choose;
pub mod filelists;
mod inflate;
mod lock;
pub mod metadata;
pub mod modules;
mod packed;
pub mod proof;
pub mod repomd;
pub mod repository;
pub mod rich;
pub mod sources;
mod suffice;
mod words;
pub mod world;
pub mod xml;

pub use lock::{lock, own_roots};
pub use suffice::suffices;
