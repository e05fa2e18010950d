//! RPM repositories.

mod choose;
pub mod filelists;
pub mod metadata;
pub mod modules;
pub mod repomd;
pub mod rich;
pub mod sources;
pub mod world;
pub mod xml;
