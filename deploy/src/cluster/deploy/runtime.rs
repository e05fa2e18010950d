//! Container runtimes on the workers.

use crate::cluster::Cluster;
use crate::cluster::context::{Node, require};
use crate::cluster::files::runtime as files;
use crate::cluster::service::Service;
use crate::phases::PhaseError;
use crate::runtimes::{self, CniLinks, RuntimeError, RuntimeKind};
use crate::undo::Undo;
use crate::version::Version;
use eggo_bundles::Role;
use eggo_errors::Report;

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    let workers = cluster.with_role(Role::Worker);
    super::on_each(&cluster.run, &workers, |node| Box::pin(start(cluster, node))).await
}

pub async fn start(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    let config = &cluster.config;
    let facts = node.facts(config).await?;
    let kind = config.runtime.kind;
    let path = require(node, facts, kind.program, Role::Worker)?;
    let kubelet = facts.version("kubelet").unwrap_or(Version::new(1, 20, 0));
    let refused = |error: RuntimeError| {
        let report = Report::new(format!("{}: {error}", node.host.name));
        match error.hint() {
            Some(hint) => report.hinted(hint),
            None => report,
        }
    };
    let files = files::files(config, facts, kubelet).map_err(refused)?;
    // A runtime that came as a bare binary has no unit yet.
    let unit = (!facts.units.contains(kind.service)).then(|| kind.unit(path));
    let version = facts.version(kind.program).map(|version| version.to_string()).unwrap_or_default();
    let links = runtimes::cni_links(&files::scope(config, facts, kubelet));
    let before = links.as_ref().map(|links| links.make.clone());
    Service {
        unit,
        files,
        depends: version + &before.clone().map_or(String::new(), String::from),
        before,
        works: Some(kind.call("works")),
        undo: [links.map(unlink).unwrap_or_default(), leftovers(kind)].concat(),
        ..Service::new(kind.service)
    }
    .ensure(&cluster.run, node)
    .await?;
    Ok(())
}

/// Undone last first.
fn unlink(links: CniLinks) -> Vec<Undo> {
    let CniLinks { folder, others, .. } = links;
    // One right below the root of all files is nobody's to remove.
    let ours = |path: &&str| path.matches('/').count() > 1;
    let above = folder.rsplit_once('/').map(|(above, _)| above);
    let mut undo: Vec<Undo> =
        above.into_iter().chain([folder.as_str()]).filter(ours).map(Undo::folder).collect();
    undo.push(Undo::CniLinks { into: folder, from: others });
    undo
}

/// Undone last first.
fn leftovers(runtime: RuntimeKind) -> Vec<Undo> {
    let mut undo = vec![Undo::RuntimeAsBefore { runtime }, Undo::ContainersOf { runtime }];
    if runtime.containers.link.is_some() {
        undo.push(Undo::RuntimeLink { runtime });
    }
    let folder =
        runtimes::CONTAINERD_SETTINGS.rsplit_once('/').map_or("/etc/containerd", |(folder, _)| folder);
    undo.push(Undo::folder(folder));
    undo
}
