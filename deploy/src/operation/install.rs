//! The install: connect → facts → plan → preflight → phases → report.

use super::whole::whole;
use super::{Access, Surveyed, is_this_machine, survey, upgrade};
use crate::cluster::context::{Cluster, Shelf};
use crate::cluster::phases::HasCluster;
use crate::cluster::{self};
use crate::config::{Addon, Config};
use crate::content::Content;
use crate::distribute::Source;
use crate::events::{Event, Operation, Sink};
use crate::facts::Manager;
use crate::journal::{Journal, JournalView};
use crate::nodes::{self, HasNodes, Nodes};
use crate::phases::{Phase, Selection, run_list};
use crate::plan::{self, Known, PackageFormat, Plan};
use crate::preflight::{self, Candidate, Check, Circumstances, Heads, Level, Verdict};
use crate::run::Run;
use crate::state;
use crate::stop::Stop;
use crate::version::Version;
use eggo_bundles::{Arch, Index, Item, Kind};
use eggo_errors::Report;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

/// Everything that an install needs to know.
pub struct InstallRequest {
    pub config: Arc<Config>,
    pub access: Access,
    pub index: Arc<Index>,
    pub source: Arc<dyn Source>,
    /// The cluster's folder on this machine.
    pub state: PathBuf,
    pub options: Options,
    pub events: Arc<dyn Sink>,
    pub stop: Stop,
}

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Checks whose errors do not count.
    pub ignore: BTreeSet<Check>,
    pub selection: Selection,
    pub plan: plan::Options,
    /// Nodes come to a cluster that is there.
    pub joining: bool,
}

/// Asked once, when everything is known and nothing is changed yet.
pub trait Confirm: Send + Sync {
    fn confirm(&self, plan: &Plan, verdict: &Verdict) -> bool;
}

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
    /// A cleanup will have no bundle at hand.
    pub(super) fn keep_hooks(&self) -> Result<(), Report> {
        let Cluster { view, shelf, .. } = &self.cluster;
        state::save_hooks(&view.state, &view.config, |name, arch| shelf.file(name, arch))
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

/// The programme of an install.
pub fn phases() -> Vec<Phase<Deployment>> {
    let mut list = nodes::phases();
    list.push(cluster::phases::runtime());
    list.push(nodes::images_phase());
    list.extend(cluster::phases::deploy());
    list.push(nodes::prune_phase());
    list
}

/// Runs it.
pub async fn install(request: InstallRequest, confirm: &dyn Confirm) -> Result<Installed, Report> {
    let operation = if request.options.joining { Operation::Join } else { Operation::Install };
    whole(operation, request, |request| run(request, confirm)).await
}

async fn run(request: InstallRequest, confirm: &dyn Confirm) -> Result<Installed, Report> {
    let phases = phases();
    let InstallRequest { config, access, index, state, options, events, .. } = &request;
    options.selection.check(&phases)?;
    let journal = Journal::open(state)?;
    let surveyed = survey(&config.hosts, access, events).await?;
    let plan = plan_for(config, index, &surveyed, options.plan)?;
    let verdict = judge(&request, kubernetes(&request), &surveyed, &plan, &journal).await?;
    tell(&verdict, events);
    verdict.decide()?;
    if !confirm.confirm(&plan, &verdict) {
        return Err(Report::new("stopped: nothing was changed").code("declined"));
    }
    let joining = options.joining;
    let (selection, bundle) = (options.selection.clone(), format!("{} {}", index.name, index.version));
    let deployment = prepared(request, journal, surveyed, plan);
    let run = deployment.nodes.run.clone();
    run.begin(if joining { "join" } else { "deploy" }, Some(bundle)).await?;
    deployment.keep_hooks()?;
    run_list(&phases, &selection, &run, &deployment).await?;
    Ok(Installed { nodes: deployment.nodes.nodes.len(), changed: run.changed() })
}

/// Everything that phases work on, out of what was found and decided.
pub(super) fn prepared(
    request: InstallRequest,
    journal: Journal,
    surveyed: Vec<Surveyed>,
    plan: Plan,
) -> Deployment {
    let InstallRequest { config, index, source, state, events, stop, .. } = request;
    let config = Arc::new(with_addons(&config, &plan));
    let run = Arc::new(Run::new(journal, events).stopped_by(stop));
    let shelf = Arc::new(Shelved { index, source: source.clone() });
    let cluster_nodes =
        surveyed.iter().map(|node| cluster::Node::new(node.host.clone(), node.remote.clone())).collect();
    Deployment {
        cluster: Cluster::new(config.clone(), cluster_nodes, run.clone(), shelf, state),
        nodes: Nodes { config, nodes: with_plans(surveyed, &plan), plan: Arc::new(plan), run, source },
    }
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

/// Preflight alone: nothing is changed.
pub async fn check(request: InstallRequest) -> Result<Verdict, Report> {
    let InstallRequest { config, access, index, state, options, events, .. } = &request;
    let surveyed = survey(&config.hosts, access, events).await?;
    let plan = plan_for(config, index, &surveyed, options.plan)?;
    let journal = Journal::read(state)?;
    judge(&request, kubernetes(&request), &surveyed, &plan, &journal).await
}

/// The plan for nodes as they were found.
pub fn plan_for(
    config: &Config,
    index: &Index,
    surveyed: &[Surveyed],
    options: plan::Options,
) -> Result<Plan, Report> {
    let known = surveyed.iter().map(|node| {
        let packages = node.facts.manager.map(|manager| match manager {
            Manager::Dpkg => PackageFormat::Deb,
            Manager::Rpm => PackageFormat::Rpm,
        });
        let content = node.facts.store.whole.keys().copied().collect();
        (node.host.name.clone(), Known { packages, content })
    });
    let known: BTreeMap<String, Known> = known.collect();
    Ok(plan::plan(config, index, &known, options)?)
}

/// Every check on every node.
pub(super) async fn judge(
    request: &InstallRequest,
    kubernetes: Option<Version>,
    surveyed: &[Surveyed],
    plan: &Plan,
    journal: &JournalView,
) -> Result<Verdict, Report> {
    let InstallRequest { config, source, state, options, .. } = request;
    let entries = journal.entries();
    let candidates: Vec<Candidate<'_>> = surveyed
        .iter()
        .filter_map(|node| {
            let name = &node.host.name;
            let same = node.facts.mark.is_some() && journal.mark(name) == node.facts.mark;
            Some(Candidate {
                host: &node.host,
                remote: node.remote.clone(),
                facts: &node.facts,
                plan: plan.node(name)?,
                ours: same && entries.iter().any(|entry| entry.node == *name),
                is_this_machine: is_this_machine(node.host.ip),
            })
        })
        .collect();
    preflight::check_archs(plan, &**source)?;
    let heads = Heads::read(plan, &**source)?;
    let circumstances = Circumstances { config, state, heads: &heads, kubernetes };
    Ok(preflight::check(&circumstances, &candidates, &options.ignore).await)
}

/// The Kubernetes in the bundle, where a cluster exists that only an upgrade may bring to it.
fn kubernetes(request: &InstallRequest) -> Option<Version> {
    let carried = upgrade::version(&request.index).ok().filter(Version::is_known);
    carried.filter(|_| state::was_made(&request.state))
}

/// What does not stop the install is still said.
pub(super) fn tell(verdict: &Verdict, events: &Arc<dyn Sink>) {
    for finding in verdict.findings.iter().filter(|finding| finding.level != Level::Error) {
        events.event(Event::warning(
            Some(&finding.node),
            format!("{}: {}", finding.check.as_str(), finding.message),
        ));
    }
}

fn with_plans(surveyed: Vec<Surveyed>, plan: &Plan) -> Vec<nodes::Node> {
    let node = |Surveyed { host, remote, facts }| {
        let plan = plan.node(&host.name)?.clone();
        Some(nodes::Node { host, remote, facts, plan })
    };
    surveyed.into_iter().filter_map(node).collect()
}

/// The bundle as the cluster sees it.
struct Shelved {
    index: Arc<Index>,
    source: Arc<dyn Source>,
}

impl Shelved {
    fn find(&self, kinds: &[Kind], name: &str, arch: Option<Arch>) -> Result<Option<Vec<u8>>, Report> {
        let named = |path: &str| path.rsplit('/').next() == Some(name);
        let item = self.index.items.iter().find(|item| {
            kinds.contains(&item.kind)
                && (item.name == name || named(&item.path))
                && arch.is_none_or(|arch| item.arch == arch)
        });
        let Some(item) = item else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = self.source.read(item).and_then(|mut content| content.read_to_end(&mut bytes));
        read.map_err(|error| Report::new(format!("cannot read `{}` from the bundle: {error}", item.path)))?;
        Ok(Some(bytes))
    }
}

impl Shelf for Shelved {
    fn addon(&self, name: &str) -> Result<Option<String>, Report> {
        let Some(bytes) = self.find(&[Kind::Addon, Kind::File], name, None)? else { return Ok(None) };
        let text = String::from_utf8(bytes)
            .map_err(|_| Report::new(format!("the manifest `{name}` is not UTF-8")))?;
        Ok(Some(text))
    }

    fn file(&self, name: &str, arch: Arch) -> Result<Option<Vec<u8>>, Report> {
        self.find(&[Kind::File, Kind::Bin], name, Some(arch))
    }

    fn images(&self) -> Vec<String> {
        let names: BTreeSet<String> = self.index.images.iter().map(|image| image.name.clone()).collect();
        names.into_iter().collect()
    }
}

impl Source for Content {
    fn read(&self, item: &Item) -> io::Result<Box<dyn Read + Send>> {
        Content::read(self, item)
    }
}
