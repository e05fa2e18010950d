//! A Kubernetes cluster in binary mode, out of nodes that have their content installed.
//!
//! [`flags`] and [`files`] decide what every component is told, from the config and from what
//! the node has ([`crate::facts`]); they do no I/O. [`phases`] is the list of what is done, in order; each
//! phase is a module below [`deploy`]. What comes after a deploy is beside it: [`certs`], [`delete`],
//! [`upgrade`], [`status`], [`etcd_data`]. How content gets onto a node is not decided here.

pub mod certs;
pub mod context;
pub mod delete;
pub mod deploy;
pub mod etcd_data;
pub mod files;
pub mod flags;
pub mod kubectl;
pub mod phases;
pub mod service;
pub mod status;
pub mod upgrade;
pub mod yaml;

pub use crate::paths;
pub use context::{Cluster, ClusterView, Node, Shelf};
