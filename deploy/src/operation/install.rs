//! The install, and a join: prepared before, now the phases.

use super::prepare::Prepared;
use super::request::InstallRequest;
use super::shelf::Shelved;
use crate::blocking::blocking;
use crate::cluster::phases::HasCluster;
use crate::cluster::{self, Cluster};
use crate::config::{Addon, Config};
use crate::events::Operation;
use crate::journal::{Approval, Journal};
use crate::node::Surveyed;
use crate::nodes::{self, HasNodes, Nodes};
use crate::phases::{Context, Phase, Scene, run_list};
use crate::plan::{self, Plan};
use crate::run::Run;
use crate::state;
use eggo_errors::Report;
use std::sync::Arc;

/// What an install came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    pub nodes: usize,
    /// Changes that were made; none: everything was as it should be.
    pub changed: usize,
}

/// What the phases of an install work on.
pub struct Deployment {
    pub(super) nodes: Nodes,
    pub(super) cluster: Cluster,
}

impl Deployment {
    /// Everything that phases work on, out of what was found and decided.
    pub(super) fn new(request: InstallRequest, journal: Journal, found: Vec<Surveyed>, plan: Plan) -> Self {
        let InstallRequest { config, access, index, source, state, operator, options, events, stop, .. } =
            request;
        let config = Arc::new(with_addons(&config, &plan));
        let run = Arc::new(Run::new(journal, events).stopped_by(stop).limited(access.limits().clone()));
        let shelf = Arc::new(Shelved { index, source: source.clone() });
        let nodes = found.iter().map(|node| cluster::Node::new(node.host.clone(), node.remote.clone()));
        Self {
            cluster: Cluster::new(config.clone(), nodes.collect(), run.clone(), shelf, state),
            nodes: Nodes {
                config,
                nodes: found,
                plan: Arc::new(plan),
                run,
                source,
                operator,
                take_over: options.take_over,
            },
        }
    }

    /// What commands need that have no bundle: a cleanup its hooks, `status` the images of each node.
    pub(super) async fn keep(&self) -> Result<(), Report> {
        let Cluster { view, shelf, .. } = &self.cluster;
        let (state, config, shelf) = (view.state.clone(), view.config.clone(), shelf.clone());
        let images = self.nodes.plan.nodes.iter().map(|node| (node.name.clone(), node.images.clone()));
        let images = images.collect();
        blocking(move || {
            state::save_hooks(&state, &config, |name, arch| shelf.file(name, arch))?;
            state::save_images(&state, &images)
        })
        .await
    }
}

impl HasNodes for Deployment {
    fn nodes(&self) -> &Nodes {
        &self.nodes
    }
}

impl HasCluster for Deployment {
    fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}

impl Context for Deployment {
    fn scene(&self) -> Scene<'_> {
        Scene { plan: Some(&self.nodes.plan), ..self.cluster.scene() }
    }
}

/// An install, and a join.
pub fn phases() -> Vec<Phase<Deployment>> {
    use cluster::phases as cluster;
    use nodes::phases as nodes;
    vec![
        nodes::distribute(),
        nodes::simulate(),
        nodes::system(),
        nodes::packages(),
        nodes::files(),
        cluster::runtime(),
        nodes::images(),
        cluster::certificates(),
        cluster::prejoin(),
        cluster::etcd(),
        cluster::load_balancer(),
        cluster::control_plane(),
        cluster::workers(),
        cluster::labels(),
        cluster::dns(),
        cluster::addons(),
        cluster::kubelet_serving(),
        cluster::postjoin(),
        cluster::ready(),
        nodes::prune(),
    ]
}

/// Does what was prepared, under the lock of the journal.
pub(super) async fn carry_out(
    request: InstallRequest,
    journal: Journal,
    prepared: Prepared,
    found: Vec<Surveyed>,
    approval: Approval,
) -> Result<Installed, Report> {
    let (selection, bundle) = (prepared.options.selection, prepared.made_from.bundle);
    let command = if prepared.operation == Operation::Join { "join" } else { "deploy" };
    let deployment = Deployment::new(request, journal, found, prepared.plan);
    let run = deployment.nodes.run.clone();
    run.begin(command, Some(bundle), Some(approval)).await?;
    deployment.keep().await?;
    run_list(&phases(), &selection, &deployment).await?;
    Ok(Installed { nodes: deployment.nodes.nodes.len(), changed: run.changed() })
}

/// deploy.yaml may leave the choice of manifests to the bundle.
fn with_addons(config: &Config, plan: &Plan) -> Config {
    let mut config = config.clone();
    if config.addons.is_empty() {
        let name =
            |wanted: &plan::Wanted| wanted.item.path.rsplit('/').next().unwrap_or_default().to_string();
        config.addons = plan.addons.iter().map(|wanted| Addon { name: name(wanted), line: 0 }).collect();
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::Applies;

    /// Content comes to all nodes before anything needs all of a kind, so that the first failure is the cause.
    #[test]
    fn etcd_the_load_balancer_and_the_control_plane_need_all_their_nodes() {
        let phases = phases();
        let place = |name: &str| phases.iter().position(|phase| phase.name == name).unwrap();
        let together = phases.iter().filter(|phase| matches!(phase.applies, Applies::Together(_)));
        let together: Vec<&str> = together.map(|phase| phase.name).collect();
        assert_eq!(together, ["etcd", "load-balancer", "control-plane"]);
        for name in ["distribute", "packages", "files", "runtime", "images"] {
            assert!(place(name) < place("etcd"), "{name}");
        }
        assert!(place("control-plane") < place("workers"));
    }
}
