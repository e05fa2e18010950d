//! From a plan to installed content: every node's store filled, its system prepared, packages,
//! binaries, files and images in place. What runs on top of that is the cluster's business.

mod archives;
mod claim;
mod files;
mod images;
pub mod phases;
mod prune;
pub mod system;

pub use files::{Placement, placements};
pub use images::absent_images;
pub use phases::{HasNodes, install_node, is_in_place, reopen};

use crate::config::{self, Config};
use crate::distribute::Source;
use crate::facts::Facts;
use crate::plan::{NodePlan, Plan};
use crate::remote::Host;
use crate::run::{Named, Run};
use std::sync::Arc;

/// What the phases of this room work on.
pub struct Nodes {
    pub config: Arc<Config>,
    pub plan: Arc<Plan>,
    pub nodes: Vec<Node>,
    pub run: Arc<Run>,
    pub source: Arc<dyn Source>,
}

/// A node as it was found, what it is to get, and the way to it.
pub struct Node {
    pub host: config::Host,
    pub remote: Arc<dyn Host>,
    pub facts: Facts,
    pub plan: NodePlan,
}

impl Named for Node {
    fn name(&self) -> &str {
        &self.host.name
    }
}
