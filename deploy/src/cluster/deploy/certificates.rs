//! What the control machine keeps of a cluster: authorities and leaves, the administrator's
//! kubeconfig, and the config, without its password.

use crate::cluster::Cluster;
use crate::config::Config;
use crate::phases::PhaseError;
use crate::state::{Folder, Name, State};
use eggo_errors::Report;
use std::path::Path;

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    make(cluster).map_err(PhaseError::Whole)
}

fn make(cluster: &Cluster) -> Result<(), Report> {
    for node in &cluster.nodes {
        for row in cluster.rows(&node.host) {
            cluster.leaf(&node.host, row.path)?;
        }
    }
    write_admin(cluster)?;
    save_config(&cluster.state, &cluster.config)
}

/// The config as the last command left the cluster; `list` reads it.
pub fn save_config(state: &Path, config: &Config) -> Result<(), Report> {
    let text = serde_json::to_vec_pretty(config).map_err(|error| Report::new(error.to_string()))?;
    put(state, &Name::Config, &text)
}

/// Whether this phase has been through: the config comes last, and before any node gets a certificate.
pub fn are_made(state: &Path) -> bool {
    Folder::new(state).has(&Name::Config)
}

/// The administrator's certificate anew.
pub fn renew_admin(cluster: &Cluster) -> Result<(), Report> {
    cluster.renew_admin()?;
    write_admin(cluster)
}

fn write_admin(cluster: &Cluster) -> Result<(), Report> {
    let text = cluster.admin_kubeconfig(&cluster.endpoint())?;
    put(&cluster.state, &Name::Admin, text.as_bytes())
}

fn put(state: &Path, name: &Name, bytes: &[u8]) -> Result<(), Report> {
    let state = Folder::new(state);
    let path = state.path(name);
    state.put(name, bytes).map_err(|error| Report::new(format!("cannot write `{}`: {error}", path.display())))
}
