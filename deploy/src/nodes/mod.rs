//! From a plan to installed content: every node's store filled, its system prepared, packages,
//! binaries, files and images in place. What runs on top of that is the cluster's business.

mod archives;
mod claim;
mod files;
mod images;
pub mod phases;
mod prune;
mod resend;
pub mod system;

pub use files::{Placement, placements};
pub use images::absent_images;
pub use phases::{HasNodes, install_node, is_in_place, reopen};

use crate::config::Config;
use crate::distribute::Source;
use crate::node::{Planned, Surveyed};
use crate::plan::Plan;
use crate::run::Run;
use std::sync::Arc;

/// What the phases of this room work on.
pub struct Nodes {
    pub config: Arc<Config>,
    pub plan: Arc<Plan>,
    pub nodes: Vec<Surveyed>,
    pub run: Arc<Run>,
    pub source: Arc<dyn Source>,
    /// Who installs: `USER@HOST`.
    pub operator: String,
    /// Nodes that others hold become ours.
    pub take_over: bool,
}

impl Nodes {
    /// What each node is to get.
    pub fn planned(&self) -> Vec<Planned<'_>> {
        Planned::all(&self.nodes, &self.plan)
    }
}
