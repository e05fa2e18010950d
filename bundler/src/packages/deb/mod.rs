//! DEB repositories: sources, signed Release files, `Packages`, and apt's way of choosing.

pub mod distill;
pub mod relation;
pub mod release;
pub mod sources;
mod walk;
pub mod world;
