//! What the control machine keeps of a cluster: authorities and leaves, the administrator's
//! kubeconfig, and the config, without its password.

use crate::cluster::Cluster;
use crate::phases::PhaseError;
use crate::pki::folder::Reuse;
use crate::state::{self, Folder, Name, State};
use eggo_errors::Report;
use std::path::Path;

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    cluster.on_disk(make).await.map_err(PhaseError::Whole)
}

fn make(cluster: &Cluster) -> Result<(), Report> {
    for node in &cluster.nodes {
        for row in cluster.rows(&node.host) {
            cluster.leaf(&node.host, row.path)?;
        }
    }
    write_admin(cluster, Reuse::WhenGood)?;
    state::save(&cluster.state, &cluster.config)
}

/// A new certificate of the administrator.
pub async fn renew_admin(cluster: &Cluster) -> Result<(), Report> {
    cluster.on_disk(|cluster| write_admin(cluster, Reuse::Never)).await
}

fn write_admin(cluster: &Cluster, reuse: Reuse) -> Result<(), Report> {
    cluster.keep_admin(reuse)?;
    let text = cluster.admin_kubeconfig(&cluster.endpoint())?;
    put(&cluster.state, &Name::Admin, text.as_bytes())
}

fn put(state: &Path, name: &Name, bytes: &[u8]) -> Result<(), Report> {
    let state = Folder::new(state);
    let path = state.path(name);
    state.put(name, bytes).map_err(|error| Report::new(format!("cannot write `{}`: {error}", path.display())))
}
