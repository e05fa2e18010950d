//! Plans and deploys: open and verify → config → facts → plan → preflight → phases → report.
//!
//! A library without a terminal: it prints nothing, asks nobody, and never exits. Links no HTTP client: the air gap is
//! visible in this crate's manifest.
//!
//! # Use
//! [`operation`] has everything that a command does, as functions: a caller gives a [`config::Config`], access to the nodes,
//! content and a sink for [`events`], and gets a value or a report. What needs no node can be used alone, such as the
//! [`plan`] (`deploy/examples/plan.rs` is this as a program):
//!
//! ```no_run
//! use eggo_bundles::{Bundle, PublicKey, TrustedKeys};
//! use eggo_deploy::{config, operation};
//! use std::collections::BTreeMap;
//! use std::path::Path;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let trusted = TrustedKeys::new([PublicKey::load(Path::new("eggo.pub"))?]);
//! let bundle = Bundle::open(Path::new("k8s.tar.gz"))?.verify(&trusted)?; // no index before this
//! let config = config::load(Path::new("deploy.yaml"))?.config;
//! let plan = operation::plan(&config, bundle.index(), &BTreeMap::new(), &operation::Options::default())?;
//! for node in &plan.nodes {
//!     assert!(node.bytes_to_send <= node.bytes);
//! }
//! # Ok(())
//! # }
//! ```

#![warn(unreachable_pub)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]

mod blocking;
pub mod claim;
pub mod cleanup;
pub mod cluster;
pub mod components;
pub mod config;
pub mod content;
pub mod distribute;
pub mod events;
pub mod facts;
mod failure;
pub mod foreign;
pub mod home;
pub mod hooks;
pub mod journal;
mod limits;
mod manager;
pub mod node;
pub mod nodes;
pub mod operation;
pub mod packages;
pub mod paths;
pub mod phases;
pub mod pki;
pub mod plan;
pub mod preflight;
pub mod remote;
pub mod run;
pub mod runtimes;
mod script;
pub mod ssh;
pub mod state;
pub mod stop;
pub mod store;
pub mod undo;
pub mod version;
