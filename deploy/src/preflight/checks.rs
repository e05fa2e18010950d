//! Facts × config × plan → findings. No I/O.

use super::budget::{Need, budget};
use super::{Circumstances, Level};
use crate::components;
use crate::config;
use crate::facts::{Manager, Module, Protocol};
use crate::node::{Planned, Surveyed};
use crate::nodes::placements;
use crate::packages::{self, PackageError, Transaction};
use crate::store::STORE;
use eggo_bundles::{Item, Kind, Role};
use eggo_errors::Size;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Certificates and etcd's leases suffer beyond this.
const MOST_SKEW: i64 = 30;
const MASTER_MEMORY: u64 = 1700 << 20;
const LEAST_MEMORY: u64 = 600 << 20;
/// Programs without which nothing works.
const NEEDED_TOOLS: [&str; 7] = ["tar", "sha256sum", "systemctl", "cmp", "stat", "awk", "grep"];
/// Services of other ways to run Kubernetes.
const OTHERS: [&str; 2] = ["k3s", "k0scontroller"];

pub(super) struct Found {
    pub(super) level: Level,
    pub(super) message: String,
}

pub(super) fn error(message: impl Into<String>) -> Found {
    Found { level: Level::Error, message: message.into() }
}

pub(super) fn warning(message: impl Into<String>) -> Found {
    Found { level: Level::Warning, message: message.into() }
}

/// An error, if there is a reason for it.
fn error_if(wrong: bool, message: impl FnOnce() -> String) -> Vec<Found> {
    if wrong { vec![error(message())] } else { Vec::new() }
}

pub(super) fn arch(_: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let Surveyed { host, facts, .. } = node.node;
    error_if(facts.arch != Some(host.arch), || {
        format!("it is {}, deploy.yaml says {}", facts.machine, host.arch)
    })
}

pub(super) fn systemd(_: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let init = &node.facts.init;
    error_if(init != "systemd", || format!("the init is `{init}`, not systemd"))
}

pub(super) fn tools(_: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let missing: Vec<&str> = NEEDED_TOOLS.into_iter().filter(|tool| !node.facts.has(tool)).collect();
    error_if(!missing.is_empty(), || format!("not found: {}", missing.join(", ")))
}

pub(super) fn programs(_: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let expected = node.plan.expects.iter().map(String::as_str);
    let absent: Vec<&str> = expected.filter(|program| !node.facts.has(program)).collect();
    if absent.is_empty() {
        return Vec::new();
    }
    vec![warning(format!("neither the bundle nor the node has {}", absent.join(", ")))]
}

pub(super) fn clock(_: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let seconds = node.facts.clock_skew;
    let way = if seconds > 0 { "ahead" } else { "behind" };
    error_if(seconds.abs() > MOST_SKEW, || format!("its clock is {} s {way}", seconds.abs()))
}

pub(super) fn memory(_: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let memory = node.facts.memory;
    if memory < LEAST_MEMORY {
        return vec![error(format!("{} of memory, the minimum is {}", Size(memory), Size(LEAST_MEMORY)))];
    }
    if node.host.has(Role::Master) && memory < MASTER_MEMORY {
        return vec![warning(format!("{} of memory, a master needs {}", Size(memory), Size(MASTER_MEMORY)))];
    }
    Vec::new()
}

pub(super) fn swap(_: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let swap = node.facts.swap;
    error_if(swap > 0 && node.host.has(Role::Worker), || format!("{} of swap is on", Size(swap)))
}

/// What of the plan's packages would be installed; `None` where no package is planned.
fn transaction(node: &Planned<'_>) -> Option<Result<Transaction, PackageError>> {
    let items: Vec<Arc<Item>> = node.plan.of_kind(Kind::Pkg).map(|wanted| wanted.item.clone()).collect();
    (!items.is_empty()).then(|| packages::decide(&node.facts, &items))
}

pub(super) fn package_manager(_: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    match transaction(node) {
        None => Vec::new(),
        Some(Err(reason)) => vec![error(bare(&node.facts.node, &reason.to_string()))],
        Some(Ok(_)) => {
            let dpkg = node.facts.manager == Some(Manager::Dpkg);
            error_if(dpkg && !node.facts.has("apt-get"), || "dpkg is installed, apt-get is not".into())
        }
    }
}

pub(super) fn packages(_: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let Some(Ok(transaction)) = transaction(node) else { return Vec::new() };
    let unmet = packages::unmet(&node.facts, &transaction.install);
    let named = unmet.iter().take(5).map(|packages::Unmet { package, requires }| {
        error(format!("`{package}` needs `{requires}`, which nothing provides"))
    });
    let more = unmet.len().saturating_sub(5);
    named.chain((more > 0).then(|| error(format!("and {more} more")))).collect()
}

/// A message without the node's name, which has a column of its own.
fn bare(node: &str, message: &str) -> String {
    message.strip_prefix(&format!("{node}: ")).unwrap_or(message).to_string()
}

pub(super) fn disk(circumstances: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let Circumstances { config, heads, .. } = circumstances;
    let needs = budget(&node.facts, node.plan, config.runtime.kind, heads);
    let short = needs.iter().filter(|need| need.free < need.needed);
    let message = |need: &Need| {
        format!("`{}` has {} free, {} are needed", need.mount, Size(need.free), Size(need.needed))
    };
    short.map(|need| error(message(need))).collect()
}

pub(super) fn read_only(_: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let mut folders: BTreeSet<&str> = [STORE, "/etc", "/usr"].into();
    let placements = placements(&node.plan.items).unwrap_or_default();
    folders.extend(placements.iter().filter_map(|placement| Some(placement.path.rsplit_once('/')?.0)));
    let mounts = folders.into_iter().filter_map(|folder| node.facts.mount(folder));
    let read_only: BTreeSet<&str> =
        mounts.filter(|mount| mount.read_only).map(|mount| mount.path.as_str()).collect();
    read_only.into_iter().map(|mount| error(format!("`{mount}` is mounted read-only"))).collect()
}

pub(super) fn modules(_: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let missing =
        |name: &str| node.host.has(Role::Worker) && node.facts.modules.get(name) == Some(&Module::Missing);
    let mut found = error_if(missing("br_netfilter"), || "the kernel has no `br_netfilter`".into());
    if missing("overlay") {
        found.push(warning("the kernel has no `overlay`: images will take more room"));
    }
    found
}

pub(super) fn cgroups(_: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let absent = node.host.has(Role::Worker) && node.facts.cgroup.is_none();
    error_if(absent, || "no control groups are mounted".into())
}

pub(super) fn ports(circumstances: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    if circumstances.is_ours(node) {
        return Vec::new();
    }
    // Something on loopback only (a resolver, say) does not block the node's address.
    let listens = |port: &config::Port| {
        let protocol = match port.protocol {
            config::Protocol::Tcp => Protocol::Tcp,
            config::Protocol::Udp => Protocol::Udp,
        };
        node.facts.ports.iter().any(|listening| {
            listening.protocol == protocol && listening.port == port.port && !listening.address.is_loopback()
        })
    };
    let wanted = components::ports(circumstances.config, &node.host);
    let taken = wanted.iter().filter(|port| listens(port));
    taken.map(|port| error(format!("something listens on {port} already"))).collect()
}

pub(super) fn claim(circumstances: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let foreign = node.facts.claim.as_ref().filter(|_| circumstances.foreign.contains(&node.host.name));
    foreign.map_or_else(Vec::new, |claim| match circumstances.take_over {
        // With it, the plan that is approved says which nodes are.
        true => vec![Found { level: Level::Ignored, message: format!("{claim}; it is taken over") }],
        false => vec![error(claim.to_string())],
    })
}

pub(super) fn leftovers(circumstances: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    if circumstances.is_ours(node) {
        return found;
    }
    let facts = &node.facts;
    let ours = components::TABLE.into_iter().filter(|component| component.flags.is_some());
    let services = ours.filter_map(|component| component.name()).chain(OTHERS);
    let running: Vec<&str> = services.filter(|service| facts.runs(service)).collect();
    if !running.is_empty() {
        found.push(error(format!("a Kubernetes runs here: {}", running.join(", "))));
    }
    if !facts.leftovers.is_empty() {
        let shown: Vec<&str> = facts.leftovers.iter().take(3).map(String::as_str).collect();
        let more = facts.leftovers.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        found.push(error(format!("files of another Kubernetes: {}{more}", shown.join(", "))));
    }
    found
}

/// Our unit has the name of the package's, and replaces it.
pub(super) fn load_balancer(circumstances: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    const NGINX: &str = "nginx";
    let Surveyed { host, facts, .. } = node.node;
    let wanted = host.has(Role::Loadbalance) && circumstances.config.load_balancer_port.is_some();
    let state = if facts.runs(NGINX) { "runs" } else { "is enabled" };
    let exists = facts.runs(NGINX) || facts.enabled_services.contains(NGINX);
    error_if(!circumstances.is_ours(node) && wanted && exists, || {
        format!(
            "nginx {state} here already, and would serve nothing but the API: \
             disable and stop it, or choose another load balancer"
        )
    })
}

/// Only `upgrade` brings a cluster that runs to another version, node by node: an install would replace all
/// programs at once, and downgrade a control plane without a word.
pub(super) fn version(circumstances: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    const API_SERVER: &str = "kube-apiserver";
    let running = node.facts.version(API_SERVER).filter(|_| node.facts.runs(API_SERVER));
    let (Some(carried), Some(running)) = (circumstances.kubernetes, running) else { return Vec::new() };
    error_if(running != carried, || {
        format!(
            "running Kubernetes {running}, but the bundle contains {carried}; \
             use eggo-install upgrade to change versions"
        )
    })
}

pub(super) fn hostname(circumstances: &Circumstances<'_>, nodes: &[Planned<'_>]) -> Vec<(String, Found)> {
    let mut found = Vec::new();
    for node in nodes {
        let name = &node.host.name;
        for other in circumstances.config.hosts.iter().filter(|other| other.name != *name) {
            if node.facts.addresses.contains(&other.ip) {
                let message = format!("it has the address {} of `{}` too", other.ip, other.name);
                found.push((name.clone(), error(message)));
            }
        }
        let mark = |node: &Planned<'_>| node.facts.claim.as_ref().map(|claim| claim.mark.clone());
        let own = mark(node);
        let twin = nodes.iter().find(|other| own.is_some() && mark(other) == own && other.host.name < *name);
        if let Some(twin) = twin {
            let message = format!("it is the same machine as `{}`, or a copy of it", twin.host.name);
            found.push((name.clone(), error(message)));
        }
    }
    found
}
