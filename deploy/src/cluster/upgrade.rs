//! Another version of the same cluster: the control plane one by one, then the workers in batches, then the
//! load balancer, and back to the kept programs on a node that does not come up again.

mod former;

use former::Former;

use super::context::{Cluster, ClusterView, Node};
use super::deploy::{Work, control_plane, dns, etcd, failed_on, load_balancer, on_each, ready, workers};
use super::etcd_data;
use super::kubectl::{Kubectl, drain_script, words};
use crate::components;
use crate::config::{DnsKind, Host};
use crate::events::Event;
use crate::phases::PhaseError;
use crate::remote::Script;
use crate::run::{Outcome, Step, WhenStopped};
use crate::stop::is_stopped;
use crate::version::{Version, check_kubelet, check_upgrade};
use eggo_bundles::Role;
use eggo_errors::Report;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::OnceCell;

/// Puts the new content onto one node: packages, binaries, files, images. What it replaces is kept.
pub trait Install: Send + Sync {
    fn install<'a>(&'a self, node: &'a Node) -> Work<'a>;

    /// Whether all of it is in place already, so that nothing has to stop for it.
    fn is_in_place(&self, node: &Node) -> bool;

    /// Some of it is about to be taken back: from now on not all of it is in place.
    fn reopen<'a>(&'a self, node: &'a Node) -> Work<'a>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Workers that are drained at the same time.
    pub batch: usize,
    pub drain: Duration,
    /// How long a node may take to be Ready again.
    pub ready: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { batch: 1, drain: Duration::from_secs(300), ready: Duration::from_secs(180) }
    }
}

/// What an upgrade would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub to: Version,
    /// In this order.
    pub masters: Vec<Change>,
    pub workers: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub node: String,
    pub from: Version,
}

/// Decides from what every node runs now whether `to` may follow.
pub async fn plan(cluster: &ClusterView, to: Version) -> Result<Plan, Report> {
    let masters = versions(cluster, Role::Master, "kube-apiserver").await?;
    let workers = versions(cluster, Role::Worker, "kubelet").await?;
    decide(to, masters, workers)
}

/// What the nodes of a role run, all asked at the same time.
async fn versions(cluster: &ClusterView, role: Role, program: &str) -> Result<Vec<Change>, Report> {
    let nodes = cluster.with_role(role);
    let asked = nodes.iter().map(|node| async {
        let from = control_plane::known_version(cluster, node, program).await?;
        Ok::<_, Report>(Change { node: node.host.name.clone(), from })
    });
    cluster.limits.each(asked.collect()).await.into_iter().collect()
}

fn decide(to: Version, masters: Vec<Change>, workers: Vec<Change>) -> Result<Plan, Report> {
    let refused =
        |node: &str, reason: String, hint: &str| Err(Report::new(format!("{node}: {reason}")).hinted(hint));
    for change in &masters {
        if let Err(skew) = check_upgrade(change.from, to) {
            return refused(
                &change.node,
                skew.to_string(),
                "go through every minor version in between, one bundle each",
            );
        }
    }
    // While the workers wait for their turn the control plane is already the new one.
    for change in &workers {
        if let Err(skew) = check_kubelet(change.from.min(to), to) {
            return refused(
                &change.node,
                skew.to_string(),
                "upgrade this worker first, to the version of the control plane",
            );
        }
    }
    Ok(Plan { to, masters, workers })
}

/// An upgrade under way. The nodes' content is distributed already; `installer` puts it in place.
pub struct Rolling<'a> {
    pub cluster: &'a Cluster,
    pub installer: &'a dyn Install,
    pub to: Version,
    pub options: Options,
    pub before: &'a Looks,
}

/// What every node was like before any was upgraded. A master that is a worker too gets all of its content
/// as a master, so they are looked at together, first.
#[derive(Default)]
pub struct Looks(OnceCell<BTreeMap<String, Before>>);

impl Rolling<'_> {
    async fn before(&self) -> Result<&BTreeMap<String, Before>, PhaseError> {
        let looks = self.before.0.get_or_try_init(|| async {
            let looks = self.cluster.nodes.iter().map(|node| async {
                let before = Before::of(self.cluster, node, self.installer, self.to).await?;
                Ok::<_, Report>((node.host.name.clone(), before))
            });
            self.cluster.limits.each(looks.collect()).await.into_iter().collect()
        });
        looks.await.map_err(PhaseError::Whole)
    }

    /// A snapshot of etcd, if any node is to change.
    pub async fn back_up(&self) -> Result<(), PhaseError> {
        let waits = self.cluster.run.waits_for(names(&self.cluster.nodes), "say what it runs");
        let done = self.before().await?.values().all(|before| before.through);
        drop(waits);
        if done {
            let text = format!("every node is already up to date with {}", self.to);
            self.cluster.run.event(Event::note(None, text));
            return Ok(());
        }
        etcd_data::backup_before(self.cluster, "upgrade").await.map_err(PhaseError::Whole)
    }

    /// etcd and the control plane, one node after the other.
    pub async fn control_plane(&self) -> Result<(), PhaseError> {
        let masters = self.cluster.with_role(Role::Master);
        let etcds =
            self.cluster.with_role(Role::Etcd).into_iter().filter(|node| !node.host.has(Role::Master));
        for node in etcds.chain(masters) {
            self.cluster.run.stop().check().map_err(PhaseError::Whole)?;
            self.turn(node).await?;
        }
        Ok(())
    }

    /// Workers in batches, drained before.
    pub async fn workers(&self) -> Result<(), PhaseError> {
        let before = self.before().await?;
        let mut failures = Vec::new();
        for batch in self.cluster.with_role(Role::Worker).chunks(self.options.batch.max(1)) {
            self.cluster.run.stop().check().map_err(PhaseError::Whole)?;
            match on_each(&self.cluster.run, batch, |node| self.worker(node, before)).await {
                Ok(()) => {}
                Err(PhaseError::Nodes(more)) => failures.extend(more),
                Err(whole) => return Err(whole),
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(PhaseError::Nodes(failures)) }
    }

    /// Nodes without any of Kubernetes or etcd: a load balancer of its own.
    pub async fn others(&self) -> Result<(), PhaseError> {
        let mut failures = Vec::new();
        for node in self.cluster.nodes.iter().filter(|node| is_other(&node.host)) {
            self.cluster.run.stop().check().map_err(PhaseError::Whole)?;
            match self.turn(node).await {
                Ok(()) => {}
                Err(PhaseError::Nodes(more)) => failures.extend(more),
                Err(whole) => return Err(whole),
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(PhaseError::Nodes(failures)) }
    }

    fn worker<'a>(&'a self, node: &'a Node, before: &'a BTreeMap<String, Before>) -> Work<'a> {
        let before = &before[&node.host.name];
        Box::pin(worker(self.cluster, node, self.installer, before, self.options))
    }

    async fn turn(&self, node: &Node) -> Result<(), PhaseError> {
        turn(self.cluster, node, self.installer, &self.before().await?[&node.host.name]).await
    }
}

/// Whether a host runs nothing that the control plane and the workers' phases upgrade.
pub fn is_other(host: &Host) -> bool {
    ![Role::Master, Role::Etcd, Role::Worker].iter().any(|role| host.has(*role))
}

fn names(nodes: &[Node]) -> impl Iterator<Item = &str> {
    nodes.iter().map(|node| node.host.name.as_str())
}

/// The turn of a node that has no pods to drain, or not yet.
async fn turn(
    cluster: &Cluster,
    node: &Node,
    installer: &dyn Install,
    before: &Before,
) -> Result<(), PhaseError> {
    let name = &node.host.name;
    if !before.through {
        cluster.run.event(Event::note(Some(name), "upgrading"));
    }
    let done = services(cluster, node, installer, &before.former).await;
    done.map_err(|report| failed_on(&cluster.run, name, report))?;
    if !before.through {
        cluster.run.event(Event::note(Some(name), "answers again"));
    }
    if !node.host.has(Role::Worker) {
        Former::forget(cluster, node).await.map_err(PhaseError::Whole)?;
    }
    Ok(())
}

/// etcd, the control plane and the load balancer, whichever a node has.
async fn services(
    cluster: &Cluster,
    node: &Node,
    installer: &dyn Install,
    before: &Former,
) -> Result<(), Report> {
    installer.install(node).await?;
    let fresh = cluster.afresh();
    let node = fresh.node(&node.host.name).ok_or_else(|| Report::new("a node was lost"))?;
    let etcd = restart_etcd(&fresh, node).await;
    // Once it works with its data, a newer etcd refuses to be an older one again.
    let stays = etcd.is_ok() && has_etcd(&fresh, node);
    let stay: Vec<&str> = components::programs_of(Role::Etcd).filter(|_| stays).collect();
    let result = match etcd {
        Ok(()) => restart(&fresh, node).await,
        Err(report) => Err(report),
    };
    let Err(mut cause) = result else { return Ok(()) };
    if is_stopped(&cause) {
        return Err(cause);
    }
    // The next master still runs the old version; this one is rolled back to it.
    let went_back = async {
        installer.reopen(node).await?;
        let lost = before.give_back(cluster, node, &stay).await?;
        cause.notes.extend(no_way_back(&lost));
        let fresh = cluster.afresh();
        let node = fresh.node(&node.host.name).ok_or_else(|| Report::new("a node was lost"))?;
        restart_etcd(&fresh, node).await?;
        restart(&fresh, node).await?;
        Former::forget(cluster, node).await?;
        Ok(lost)
    };
    let lost = match went_back.await {
        Ok(lost) => lost,
        Err(report) => return Err(because(report, &cause)),
    };
    Err(cause.hinted(match (&*lost, &*stay) {
        ([], []) => "this node is back on its former version; the upgrade has stopped",
        ([], _) => {
            "this node is back on its former version, except for etcd, which stays; the upgrade has stopped"
        }
        _ => "this node works again, in part on its former version; the upgrade has stopped",
    }))
}

fn has_etcd(cluster: &Cluster, node: &Node) -> bool {
    node.host.has(Role::Etcd) && cluster.config.etcd.external.is_none()
}

async fn restart_etcd(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    if has_etcd(cluster, node) { etcd::again(cluster, node).await } else { Ok(()) }
}

async fn restart(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    if node.host.has(Role::Master) {
        control_plane::start(cluster, node).await?;
        let kubectl = cluster.kubectl_on(node).await?;
        let waits = cluster.run.waits_for([node.host.name.as_str()], "serve the API again");
        kubectl.until("wait for the API", &["get", "--raw", "/readyz"], Duration::from_secs(120)).await?;
        drop(waits);
        if cluster.config.dns.kind == DnsKind::Binary {
            dns::start(cluster, node).await?;
        }
    }
    if node.host.has(Role::Loadbalance) {
        load_balancer::start(cluster, node).await?;
    }
    Ok(())
}

async fn worker(
    cluster: &Cluster,
    node: &Node,
    installer: &dyn Install,
    before: &Before,
    options: Options,
) -> Result<(), Report> {
    let name = &node.host.name;
    let kubectl = cluster.kubectl().await?;
    if before.through {
        cluster.run.event(Event::note(Some(name), "already up to date: its pods stay"));
    } else if let Err(report) = drain(cluster, &kubectl, name, options.drain).await {
        if !is_stopped(&report) {
            // It still runs what it ran.
            let_pods_in(cluster, &kubectl, name).await.map_err(|error| because(error, &report))?;
        }
        return Err(report);
    }
    let upgraded = async {
        installer.install(node).await?;
        comes_up(cluster, name, options.ready).await
    };
    let result = match upgraded.await {
        Ok(()) => Ok(()),
        Err(cause) if is_stopped(&cause) => return Err(cause),
        Err(mut cause) => {
            cluster.run.event(Event::warning(
                Some(name),
                "it did not come up again; rolling back to the kept programs",
            ));
            // The control plane on this node, if there is one, came up with the new ones.
            let given = async {
                installer.reopen(node).await?;
                let control_plane = [Role::Etcd, Role::Master].into_iter().flat_map(components::programs_of);
                before.former.give_back(cluster, node, &control_plane.collect::<Vec<_>>()).await
            };
            let lost = given.await.map_err(|report| because(report, &cause))?;
            cause.notes.extend(no_way_back(&lost));
            comes_up(cluster, name, options.ready).await.map_err(|report| because(report, &cause))?;
            Err(cause.hinted(match &*lost {
                [] => "this node is back on its former version, and Ready",
                _ => "this node is Ready again, in part on its former version",
            }))
        }
    };
    let opened = async {
        Former::forget(cluster, node).await?;
        let_pods_in(cluster, &kubectl, name).await
    };
    if let Err(report) = opened.await {
        return Err(match &result {
            Ok(()) => report,
            Err(cause) => because(report, cause),
        });
    }
    if !before.through {
        cluster.run.event(Event::note(Some(name), "Ready again, and takes pods"));
    }
    result
}

/// What was done about `cause` failed too: both are told.
fn because(mut report: Report, cause: &Report) -> Report {
    report.notes.push(format!("before that: {}", cause.message));
    report.notes.extend(cause.notes.iter().cloned());
    report
}

fn no_way_back(lost: &[String]) -> Option<String> {
    (!lost.is_empty())
        .then(|| format!("the node has no former {}: programs of packages are not kept", lost.join(", ")))
}

async fn drain(cluster: &Cluster, kubectl: &Kubectl<'_>, name: &str, limit: Duration) -> Result<(), Report> {
    cluster.run.event(Event::note(Some(name), "upgrading: its pods move to other nodes"));
    let work = async |permit| {
        let command = kubectl.change(permit, "drain the node", drain_script(name, limit));
        kubectl.run(command.timeout(limit + Duration::from_secs(60))).await?;
        Ok(Outcome::Changed)
    };
    let step = Step::new("upgrade/drain", "move its pods elsewhere").always();
    cluster.run.step(name, step, work).await.map(|_| ())
}

/// The inverse of [`drain`].
async fn let_pods_in(cluster: &Cluster, kubectl: &Kubectl<'_>, name: &str) -> Result<(), Report> {
    let work = async |permit| {
        let command = kubectl.change(permit, "let pods in again", words(&["uncordon", name]));
        Ok(Outcome::changed_if(!kubectl.run(command).await?.text().contains(" already ")))
    };
    let step = Step::new("upgrade/uncordon", "let pods in again").always().when_stopped(WhenStopped::Done);
    cluster.run.step(name, step, work).await.map(|_| ())
}

/// Starts the node's services as they are now and waits until it is Ready.
async fn comes_up(cluster: &Cluster, name: &str, limit: Duration) -> Result<(), Report> {
    let fresh = cluster.afresh();
    let node = fresh.node(name).ok_or_else(|| Report::new("a node was lost"))?;
    workers::refresh(&fresh, node).await?;
    if node.host.has(Role::Loadbalance) {
        load_balancer::start(&fresh, node).await?;
    }
    // The API may still believe in the kubelet of before: a new one says its own version.
    let version = control_plane::kubernetes_version(&fresh, node, "kubelet").await?;
    let kubectl = fresh.kubectl().await?;
    let reports = ["reports".to_string(), name.to_string(), version.to_string()];
    let script = Script::new([include_str!("upgrade/reports.sh")]);
    let waits = cluster.run.waits_for([name], "report its new version");
    kubectl.repeat("see the kubelet's version", script, reports.into(), limit).await?;
    drop(waits);
    ready::wait(&fresh, &[name], limit).await.map_err(|error| error.report("wait for the node"))
}

/// A node before it is upgraded.
struct Before {
    former: Former,
    /// It has all of the new content and its version: an upgrade that goes on where another was interrupted
    /// leaves its pods alone.
    through: bool,
}

impl Before {
    async fn of(
        cluster: &Cluster,
        node: &Node,
        installer: &dyn Install,
        to: Version,
    ) -> Result<Self, Report> {
        let mut through = installer.is_in_place(node);
        for (role, program) in [(Role::Master, "kube-apiserver"), (Role::Worker, "kubelet")] {
            if through && node.host.has(role) {
                through = control_plane::kubernetes_version(cluster, node, program).await? == to;
            }
        }
        Ok(Self { former: Former::of(cluster, node).await?, through })
    }
}

#[cfg(test)]
mod tests;
