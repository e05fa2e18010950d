//! Installs bundles: open and verify → config → facts → plan → preflight → phases → report.
//! Links no HTTP client: the air gap is visible in this crate's manifest.

pub mod config;
