//! Plans and deploys: open and verify → config → facts → plan → preflight → phases → report.
//!
//! A library without a terminal: it prints nothing, asks nobody, and never exits. Links no HTTP client: the air gap is
//! visible in this crate's manifest.

pub mod cleanup;
pub mod cluster;
pub mod config;
pub mod content;
pub mod distribute;
pub mod events;
pub mod facts;
mod home;
pub mod hooks;
pub mod journal;
pub mod nodes;
pub mod operation;
pub mod packages;
pub mod phases;
pub mod pki;
pub mod plan;
pub mod preflight;
pub mod remote;
pub mod run;
pub mod ssh;
pub mod store;
