//! What a caller says of an install, a join or an upgrade.

use super::Access;
use crate::cluster::upgrade;
use crate::config::Config;
use crate::distribute::Source;
use crate::events::{Operation, Sink};
use crate::phases::Selection;
use crate::plan;
use crate::preflight::Check;
use crate::stop::Stop;
use eggo_bundles::Index;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Everything that an operation needs to know that brings a bundle onto nodes.
pub struct InstallRequest {
    pub config: Arc<Config>,
    pub access: Access,
    pub index: Arc<Index>,
    pub source: Arc<dyn Source>,
    /// The cluster's folder on this machine.
    pub state: PathBuf,
    /// Who installs, and from where: `USER@HOST`. Others read it on the nodes.
    pub operator: String,
    pub options: Options,
    /// How an upgrade goes from node to node.
    pub rolling: upgrade::Options,
    pub events: Arc<dyn Sink>,
    pub stop: Stop,
}

/// What is asked for: with other options, it is another plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    pub goal: Goal,
    /// Checks whose errors do not count.
    pub ignore: BTreeSet<Check>,
    pub selection: Selection,
    pub plan: plan::Options,
    /// Nodes that another state folder or control machine holds become ours.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub take_over: bool,
}

/// What the bundle is brought onto the nodes for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    #[default]
    Install,
    /// Nodes are added to a cluster that exists.
    Join,
    /// A cluster that runs gets the version of the bundle, node by node.
    Upgrade,
}

impl Goal {
    pub fn operation(self) -> Operation {
        match self {
            Self::Install => Operation::Install,
            Self::Join => Operation::Join,
            Self::Upgrade => Operation::Upgrade,
        }
    }
}
