//! nginx before the apiservers.

use super::failed_on;
use crate::cluster::context::{Node, require};
use crate::cluster::files::nginx;
use crate::cluster::service::Service;
use crate::cluster::{Cluster, paths};
use crate::phases::PhaseError;
use crate::remote::RemoteFile;
use eggo_bundles::Role;
use eggo_errors::Report;

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    for node in cluster.with_role(Role::Loadbalance) {
        start(cluster, node).await.map_err(|report| failed_on(&cluster.run, &node.host.name, report))?;
    }
    Ok(())
}

/// Brings it to the form that it should have now, if there is one.
pub async fn start(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    let Some(port) = cluster.config.load_balancer_port else { return Ok(()) };
    let facts = node.facts(&cluster.config).await?;
    let program = require(node, facts, "nginx", Role::Loadbalance)?;
    Service {
        unit: Some(nginx::unit(program)),
        files: vec![RemoteFile::new(paths::NGINX, nginx::config(&cluster.config, port, facts))],
        reloads: true,
        works: Some(super::control_plane::listens(port)),
        ..Service::new("nginx")
    }
    .ensure(&cluster.run, node)
    .await?;
    Ok(())
}
