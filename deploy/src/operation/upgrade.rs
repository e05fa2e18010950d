//! Another version of a running cluster: connect → facts → plan → preflight → content everywhere →
//! node by node.

use super::install::{Confirm, InstallRequest, Installed, judge, phases, plan_for, prepared, tell};
use super::survey;
use super::whole::whole;
use crate::cluster;
use crate::cluster::deploy::Work;
use crate::cluster::upgrade::{self, Install};
use crate::events::{Event, Operation};
use crate::journal::Journal;
use crate::nodes::{self, Nodes};
use crate::phases::{Selection, run_list};
use crate::version::Version;
use eggo_bundles::Index;
use eggo_errors::Report;

/// What a bundle needs before any node is touched: its content on all of them, and the package
/// managers' word that it fits.
const FIRST: [&str; 2] = ["distribute", "simulate"];
/// When every node runs the new version: what runs in the cluster follows, too.
const LAST: [&str; 3] = ["dns", "addons", "prune"];

/// Brings the cluster to the version that the bundle carries. A node that does not come back gets
/// its former programs again, unless packages brought them.
pub async fn upgrade(
    request: InstallRequest,
    rolling: upgrade::Options,
    confirm: &dyn Confirm,
) -> Result<Installed, Report> {
    whole(Operation::Upgrade, request, |request| run(request, rolling, confirm)).await
}

async fn run(
    request: InstallRequest,
    rolling: upgrade::Options,
    confirm: &dyn Confirm,
) -> Result<Installed, Report> {
    let to = version(&request.index)?;
    if !request.state.is_dir() {
        return Err(crate::state::none(&request.config, &request.state));
    }
    let journal = Journal::open(&request.state)?;
    let surveyed = survey(&request.config.hosts, &request.access, &request.events).await?;
    let plan = plan_for(&request.config, &request.index, &surveyed, request.options.plan)?;
    let verdict = judge(&request, None, &surveyed, &plan, &journal).await?;
    tell(&verdict, &request.events);
    verdict.decide()?;
    let (events, skip) = (request.events.clone(), request.options.selection.skip.clone());
    let selected = |names: &[&str]| {
        let only = names.iter().map(|name| name.to_string()).collect();
        Selection { skip: skip.clone(), only }
    };
    let deployment = prepared(request, journal, surveyed, plan);
    let changes = upgrade::plan(&deployment.cluster, to).await?;
    for change in changes.masters.iter().chain(&changes.workers).filter(|change| change.from != to) {
        events.event(Event::note(Some(&change.node), format!("{} → {to}", change.from)));
    }
    if !confirm.confirm(&deployment.nodes.plan, &verdict) {
        return Err(Report::new("stopped: nothing was changed").code("declined"));
    }
    let run = deployment.nodes.run.clone();
    run.begin("upgrade", Some(to.to_string())).await?;
    deployment.keep_hooks()?;
    run_list(&phases(), &selected(&FIRST), &run, &deployment).await?;
    let content = Content(&deployment.nodes);
    // A phase of its own: what is new is undone before all that the install did.
    let rolled = run.in_phase("upgrade", "Upgrade", upgrade::run(&deployment.cluster, &content, to, rolling));
    rolled.await.map_err(|error| error.report("Upgrade"))?;
    run_list(&phases(), &selected(&LAST), &run, &deployment).await?;
    Ok(Installed { nodes: deployment.nodes.nodes.len(), changed: run.changed() })
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
struct Content<'a>(&'a Nodes);

impl Content<'_> {
    fn planned(&self, node: &cluster::Node) -> Option<&nodes::Node> {
        self.0.nodes.iter().find(|planned| planned.host.name == node.host.name)
    }

    fn found(&self, node: &cluster::Node) -> Result<&nodes::Node, Report> {
        self.planned(node).ok_or_else(|| Report::new(format!("{} is not in the plan", node.host.name)))
    }
}

impl Install for Content<'_> {
    fn install<'a>(&'a self, node: &'a cluster::Node) -> Work<'a> {
        Box::pin(async move { nodes::install_node(self.0, self.found(node)?).await })
    }

    fn reopen<'a>(&'a self, node: &'a cluster::Node) -> Work<'a> {
        Box::pin(async move { nodes::reopen(self.0, self.found(node)?).await })
    }

    fn is_in_place(&self, node: &cluster::Node) -> bool {
        self.planned(node).is_some_and(|planned| nodes::is_in_place(self.0, planned))
    }
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
