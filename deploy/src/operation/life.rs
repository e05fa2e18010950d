//! What is asked of a cluster that runs: its status, certificates, etcd's data.

use super::Access;
use super::cleanup::refuse_marked;
use super::survey::on_this_machine;
use super::whole::whole;
use crate::cleanup::{self, CleanupHooks};
use crate::cluster::certs::{self, Line};
use crate::cluster::context::Bare;
use crate::cluster::delete;
use crate::cluster::etcd_data::{self, Backup};
use crate::cluster::status::{self, Status};
use crate::cluster::{Cluster, ClusterView, Node};
use crate::config::Config;
use crate::events::{Operation, Sink};
use crate::hooks::Hooks;
use crate::journal::Journal;
use crate::phases::{Failure, PhaseError};
use crate::remote::{Command, Host};
use crate::run::Run;
use crate::state;
use crate::stop::Stop;
use eggo_errors::{Count, Exit, Report};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A cluster that was installed from this machine.
pub struct LifeRequest {
    pub config: Arc<Config>,
    pub access: Access,
    /// The cluster's folder on this machine.
    pub state: PathBuf,
    pub events: Arc<dyn Sink>,
    pub stop: Stop,
}

impl LifeRequest {
    /// An install that has not come to the cluster itself has none to ask about.
    pub fn is_installed(&self) -> Result<(), Report> {
        if state::load(&self.state)?.is_some() {
            return Ok(());
        }
        Err(state::none(&self.config, &self.state))
    }

    /// Nodes by their names. Told without asking any: there is no such cluster, or no such node in it.
    pub fn named(&self, words: &[String]) -> Result<Vec<String>, Report> {
        self.is_installed()?;
        Ok(self.config.named(words)?)
    }

    /// The cluster without any content to install. Nodes are connected to when they are first needed,
    /// so that one that is gone does not hide the others.
    fn cluster(self) -> Result<Cluster, Report> {
        self.is_installed()?;
        let (journal, nodes) = (Journal::open(&self.state)?, self.nodes()?);
        let LifeRequest { config, access, state, events, stop } = self;
        let run = Arc::new(Run::new(journal, events).stopped_by(stop).limited(access.limits().clone()));
        Ok(Cluster::new(config, nodes, run, Arc::new(Bare), state))
    }

    /// The same for those who only look: an install may be running meanwhile.
    fn view(&self) -> Result<ClusterView, Report> {
        self.is_installed()?;
        let limits = self.access.limits().clone();
        Ok(ClusterView::new(self.config.clone(), self.nodes()?, self.state.clone(), limits))
    }

    fn nodes(&self) -> Result<Vec<Node>, Report> {
        let hosts = self.config.hosts.iter();
        hosts.map(|host| Ok(Node::new(host.clone(), self.access.host(host, &self.events)?))).collect()
    }
}

pub async fn status(request: LifeRequest) -> Result<Status, Report> {
    status::gather(&request.view()?).await
}

pub async fn certificates(request: LifeRequest) -> Result<Vec<Line>, Report> {
    let view = request.view()?;
    certs::status(&view, &view.nodes.iter().collect::<Vec<_>>()).await
}

/// Renews the certificates of `nodes`, or of all; one node after the other.
pub async fn renew(request: LifeRequest, nodes: &[String]) -> Result<(), Report> {
    let title = "Renew certificates";
    let work = async |request: LifeRequest| {
        let cluster = request.cluster()?;
        let names = cluster.config.named(nodes)?;
        let renewed = cluster.run.in_phase("renew", title, certs::renew(&cluster, &names)).await;
        renewed.map_err(|error| error.report(title))
    };
    whole(Operation::Renew, request, work).await
}

pub async fn backup(request: LifeRequest) -> Result<Backup, Report> {
    let title = "Back up etcd";
    let work = async |request: LifeRequest| {
        let cluster = request.cluster()?;
        let backup = async { etcd_data::backup(&cluster, "asked").await.map_err(PhaseError::Whole) };
        cluster.run.in_phase("backup", title, backup).await.map_err(|error| error.report(title))
    };
    whole(Operation::Backup, request, work).await
}

pub async fn restore(request: LifeRequest, snapshot: &Path) -> Result<(), Report> {
    let title = "Restore etcd";
    let work = async |request: LifeRequest| {
        let cluster = request.cluster()?;
        let restore = async { etcd_data::restore(&cluster, snapshot).await.map_err(PhaseError::Whole) };
        cluster.run.in_phase("restore", title, restore).await.map_err(|error| error.report(title))
    };
    whole(Operation::Restore, request, work).await
}

/// Takes nodes out of the cluster, then everything of ours off them. One that cannot be reached is refused
/// before anything is changed, or forgotten on request: it may be back in a minute, with all that it has.
pub async fn delete(request: LifeRequest, names: &[String], options: delete::Options) -> Result<(), Report> {
    whole(Operation::Delete, request, |request| take_out(request, names, options)).await
}

async fn take_out(request: LifeRequest, names: &[String], options: delete::Options) -> Result<(), Report> {
    let state = request.state.clone();
    let cluster = request.cluster()?;
    delete::check(&cluster, names).await?;
    let mut hosts: BTreeMap<String, Arc<dyn Host>> = BTreeMap::new();
    let mut gone = Vec::new();
    for node in cluster.nodes.iter().filter(|node| names.contains(&node.host.name)) {
        let name = node.host.name.clone();
        match node.remote.run(Command::look("see whether it answers", "true")).await {
            Ok(_) => drop(hosts.insert(name, node.remote.clone())),
            Err(error) => gone.push(Failure { node: name, report: error.into() }),
        }
    }
    if !gone.is_empty() && !options.forget_gone {
        return Err(not_reached(&gone));
    }
    // What the journal does not know would stay on them.
    let known = cluster.run.journal().changed();
    let unknown = cluster.nodes.iter().filter(|node| !known.contains(&node.host.name));
    let unknown = unknown.filter_map(|node| Some((node.host.clone(), hosts.get(&node.host.name)?.clone())));
    refuse_marked(&cluster.config, &state, unknown.collect(), cluster.run.limits()).await?;
    let hooks = Hooks { config: &cluster.config, run: &cluster.run, operator: "delete" };
    let hooks = CleanupHooks { hooks, state: &state, skip: options.skip_hooks };
    let failures = hooks.before(&hosts).await?;
    if !failures.is_empty() {
        return Err(PhaseError::Nodes(failures).report("Run precleanup hooks"));
    }
    let title = "Delete nodes";
    let deleted = cluster.run.in_phase("delete", title, delete::run(&cluster, names, options));
    let remaining = deleted.await.map_err(|error| error.report(title))?;
    state::save(&state, &remaining)?;
    let only = names.iter().cloned().collect();
    let this_machine = on_this_machine(&cluster.config);
    let forget_gone = options.forget_gone;
    let options = cleanup::Options { images: true, forget_gone, only, this_machine, ..Default::default() };
    let mut cleaned = cleanup::cleanup(&cluster.run, &hosts, &options).await?;
    cleaned.failures.extend(hooks.after(&hosts).await?);
    cleaned.report()
}

fn not_reached(gone: &[Failure]) -> Report {
    let nodes = Count(gone.len(), "node", "nodes");
    let mut report =
        Report::new(format!("{nodes} cannot be reached: nothing was changed")).code("nodes-not-reached");
    for failure in gone {
        report = report.note(failure.line());
        report.notes.extend(failure.report.notes.iter().cloned());
    }
    report
        .exit(Exit::SomeHosts)
        .hinted("run it again when they are back, or with `--forget-gone` if they will not come back")
}
