//! Another version of a running cluster: content everywhere, then node by node.

use super::install::{Deployment, Installed};
use super::prepare::Prepared;
use super::request::InstallRequest;
use crate::cluster::deploy::Work;
use crate::cluster::phases::HasCluster;
use crate::cluster::upgrade::{self, Install, Looks, Rolling};
use crate::cluster::{self, Cluster, ClusterView};
use crate::journal::{Approval, Journal};
use crate::node::{Planned, Surveyed};
use crate::nodes::{self, HasNodes, Nodes};
use crate::phases::{Applies, Context, OnFailure, Phase, Scene, run_list};
use crate::version::Version;
use eggo_bundles::{Index, Role};
use eggo_errors::Report;

/// Does what was prepared, under the lock of the journal. A node that does not come back gets its former
/// programs again, unless packages brought them.
pub(super) async fn carry_out(
    request: InstallRequest,
    journal: Journal,
    prepared: Prepared,
    found: Vec<Surveyed>,
    approval: Approval,
) -> Result<Installed, Report> {
    let (to, rolling) = (version(&request.index)?, request.rolling);
    let selection = prepared.options.selection;
    let deployment = Deployment::new(request, journal, found, prepared.plan);
    let run = deployment.nodes.run.clone();
    run.begin("upgrade", Some(to.to_string()), Some(approval)).await?;
    deployment.keep().await?;
    let upgrading = Upgrading { deployment, to, rolling, before: Looks::default() };
    run_list(&phases(), &selection, &upgrading).await?;
    Ok(Installed { nodes: upgrading.deployment.nodes.nodes.len(), changed: run.changed() })
}

/// Which version every node runs. An error if the bundle's may not follow.
pub(super) async fn versions(request: &InstallRequest, found: &[Surveyed]) -> Result<upgrade::Plan, Report> {
    let nodes = found.iter().map(|node| cluster::Node::new(node.host.clone(), node.remote.clone()));
    let limits = request.access.limits().clone();
    let view = ClusterView::new(request.config.clone(), nodes.collect(), request.state.clone(), limits);
    upgrade::plan(&view, version(&request.index)?).await
}

/// An upgrade. Those of its phases that change nodes have names of their own: what is new is undone before all
/// that the install did.
pub fn phases() -> Vec<Phase<Upgrading>> {
    use cluster::phases as cluster;
    use nodes::phases as nodes;
    vec![
        // A node without the new content would be left behind.
        Phase { on_failure: OnFailure::Stop, ..nodes::distribute() },
        nodes::simulate(),
        Phase {
            name: "backup",
            title: "Back up etcd",
            help: "keep a snapshot of etcd on this machine, unless all nodes are up to date",
            applies: Applies::ALWAYS,
            needs: &[],
            run: |context| Box::pin(async { context.rolling().back_up().await }),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "upgrade-control-plane",
            title: "Upgrade the control plane",
            help: "etcd and the masters, one after the other",
            applies: Applies::Hosts(|_, host| host.has(Role::Master) || host.has(Role::Etcd)),
            needs: &["distribute", "backup"],
            run: |context| Box::pin(async { context.rolling().control_plane().await }),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "upgrade-workers",
            title: "Upgrade workers",
            help: "in batches, drained before",
            applies: Applies::Hosts(|_, host| host.has(Role::Worker)),
            needs: &["upgrade-control-plane"],
            run: |context| Box::pin(async { context.rolling().workers().await }),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "upgrade-load-balancer",
            title: "Upgrade the load balancer",
            help: "the load balancer, where it is a node of its own",
            applies: Applies::Hosts(|_, host| upgrade::is_other(host)),
            needs: &["upgrade-control-plane"],
            run: |context| Box::pin(async { context.rolling().others().await }),
            on_failure: OnFailure::Stop,
        },
        // When every node runs the new version, what runs in the cluster follows.
        cluster::dns(),
        cluster::addons(),
        nodes::prune(),
    ]
}

/// What the phases of an upgrade work on.
pub struct Upgrading {
    deployment: Deployment,
    to: Version,
    rolling: upgrade::Options,
    before: Looks,
}

impl Upgrading {
    fn rolling(&self) -> Rolling<'_> {
        let Deployment { nodes, cluster } = &self.deployment;
        Rolling { cluster, installer: nodes, to: self.to, options: self.rolling, before: &self.before }
    }
}

impl HasNodes for Upgrading {
    fn nodes(&self) -> &Nodes {
        &self.deployment.nodes
    }
}

impl HasCluster for Upgrading {
    fn cluster(&self) -> &Cluster {
        &self.deployment.cluster
    }
}

impl Context for Upgrading {
    fn scene(&self) -> Scene<'_> {
        self.deployment.scene()
    }
}

/// The version of Kubernetes in a bundle.
pub(super) fn version(index: &Index) -> Result<Version, Report> {
    let programs = ["kube-apiserver", "kubernetes-master", "kubelet", "kubernetes-node"];
    let items = programs.iter().filter_map(|name| index.items.iter().find(|item| item.name == *name));
    let found = items.map(|item| item.version.as_str()).find_map(|version| version.parse().ok());
    found.ok_or_else(|| {
        Report::new("the bundle does not say which version of Kubernetes it carries")
            .note(format!("neither of {} has a version in its index", programs.join(", ")))
            .hinted("build it from a manifest that gives its binaries a version")
    })
}

/// Puts what was distributed in place, on one node.
impl Install for Nodes {
    fn install<'a>(&'a self, node: &'a cluster::Node) -> Work<'a> {
        Box::pin(async move { nodes::install_node(self, &planned(self, node)?).await })
    }

    fn reopen<'a>(&'a self, node: &'a cluster::Node) -> Work<'a> {
        Box::pin(async move { nodes::reopen(self, &planned(self, node)?).await })
    }

    fn is_in_place(&self, node: &cluster::Node) -> bool {
        planned(self, node).is_ok_and(|planned| nodes::is_in_place(self, &planned))
    }
}

fn planned<'a>(nodes: &'a Nodes, node: &cluster::Node) -> Result<Planned<'a>, Report> {
    let name = &node.host.name;
    let found = nodes.nodes.iter().find(|found| found.host.name == *name).zip(nodes.plan.node(name));
    found
        .map(|(node, plan)| Planned { node, plan })
        .ok_or_else(|| Report::new(format!("{} is not in the plan", node.host.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use eggo_bundles::{Arch, Digest, Item, Kind};

    #[test]
    fn a_bundle_says_which_kubernetes_it_carries() {
        let item = |name: &str, version: &str| Item {
            version: version.into(),
            ..Item::new(Arch::Amd64, Kind::Bin, name, Digest::of(b""), 0)
        };
        let with = |items| version(&Index::new("b", "1", vec![Arch::Amd64]).with_items(items));
        assert_eq!(with(vec![item("kubelet", "v1.21.4")]).unwrap(), "1.21.4".parse().unwrap());
        assert!(with(vec![item("kubelet", "")]).is_err());
    }
}
