//! OS packages: from a manifest's names to the exact files that make them work on a target.
//!
//! Each format parses its repositories and lowers them to the one [`provider`] interface; one
//! [`solver`] decides over it. Nothing here needs root or the target OS's tools.

pub mod baseline;
pub mod deb;
pub mod openpgp;
pub mod provider;
pub mod rpm;
pub mod solver;
pub mod version;
