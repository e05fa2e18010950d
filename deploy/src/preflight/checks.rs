//! Facts × config × plan → findings. No I/O.

use super::budget::budget;
use super::{Candidate, Check, Circumstances, Level, this_machine};
use crate::components;
use crate::config::Config;
use crate::facts::{Facts, Module, Protocol};
use crate::nodes::placements;
use crate::packages;
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

pub struct Found {
    pub check: Check,
    pub level: Level,
    pub message: String,
}

pub(super) fn error(check: Check, message: impl Into<String>) -> Found {
    Found { check, level: Level::Error, message: message.into() }
}

pub(super) fn warning(check: Check, message: impl Into<String>) -> Found {
    Found { check, level: Level::Warning, message: message.into() }
}

pub(super) fn judge(circumstances: &Circumstances<'_>, candidate: &Candidate<'_>) -> Vec<Found> {
    let config = circumstances.config;
    let mut found = machine(candidate);
    found.extend(package_checks(candidate));
    found.extend(disks(circumstances, candidate));
    found.extend(kernel(candidate));
    if !candidate.ours {
        found.extend(ports(config, candidate));
        found.extend(leftovers(config, candidate.facts));
        found.extend(load_balancer(config, candidate));
    }
    if candidate.is_this_machine {
        found.extend(this_machine::judge(circumstances, candidate));
    }
    found
}

fn machine(candidate: &Candidate<'_>) -> Vec<Found> {
    let Candidate { host, facts, plan, .. } = candidate;
    let mut found = Vec::new();
    if facts.arch != Some(host.arch) {
        let message = format!("it is {}, deploy.yaml says {}", facts.machine, host.arch);
        found.push(error(Check::Arch, message));
    }
    if facts.init != "systemd" {
        found.push(error(Check::Systemd, format!("the init is `{}`, not systemd", facts.init)));
    }
    let missing: Vec<&str> = NEEDED_TOOLS.into_iter().filter(|tool| !facts.has(tool)).collect();
    if !missing.is_empty() {
        found.push(error(Check::Tools, format!("not found: {}", missing.join(", "))));
    }
    let absent: Vec<&str> =
        plan.expects.iter().map(String::as_str).filter(|program| !facts.has(program)).collect();
    if !absent.is_empty() {
        let message = format!("neither the bundle nor the node has {}", absent.join(", "));
        found.push(warning(Check::Programs, message));
    }
    if facts.clock_skew.abs() > MOST_SKEW {
        let seconds = facts.clock_skew;
        let way = if seconds > 0 { "ahead" } else { "behind" };
        found.push(error(Check::Clock, format!("its clock is {} s {way}", seconds.abs())));
    }
    if facts.memory < LEAST_MEMORY {
        found.push(error(
            Check::Memory,
            format!("{} of memory, {} is the least", Size(facts.memory), Size(LEAST_MEMORY)),
        ));
    } else if host.has(Role::Master) && facts.memory < MASTER_MEMORY {
        let message = format!("{} of memory, a master wants {}", Size(facts.memory), Size(MASTER_MEMORY));
        found.push(warning(Check::Memory, message));
    }
    if facts.swap > 0 && host.has(Role::Worker) {
        found.push(error(Check::Swap, format!("{} of swap is on", Size(facts.swap))));
    }
    found
}

fn package_checks(candidate: &Candidate<'_>) -> Vec<Found> {
    let Candidate { facts, plan, .. } = candidate;
    let items: Vec<Arc<Item>> = plan.of_kind(Kind::Pkg).map(|wanted| wanted.item.clone()).collect();
    if items.is_empty() {
        return Vec::new();
    }
    let transaction = match packages::decide(facts, &items) {
        Ok(transaction) => transaction,
        Err(reason) => return vec![error(Check::PackageManager, bare(&facts.node, &reason.to_string()))],
    };
    let mut found = Vec::new();
    if facts.manager == Some(crate::facts::Manager::Dpkg) && !facts.has("apt-get") {
        found.push(error(Check::PackageManager, "dpkg is there, apt-get is not"));
    }
    let unmet = packages::unmet(facts, &transaction.install);
    for packages::Unmet { package, requires } in unmet.iter().take(5) {
        found.push(error(Check::Packages, format!("`{package}` needs `{requires}`, which nobody has")));
    }
    if unmet.len() > 5 {
        found.push(error(Check::Packages, format!("and {} more", unmet.len() - 5)));
    }
    found
}

/// A message without the node's name, which has a column of its own.
fn bare(node: &str, message: &str) -> String {
    message.strip_prefix(&format!("{node}: ")).unwrap_or(message).to_string()
}

fn disks(circumstances: &Circumstances<'_>, candidate: &Candidate<'_>) -> Vec<Found> {
    let Candidate { facts, plan, .. } = candidate;
    let mut found = Vec::new();
    let Circumstances { config, heads, .. } = circumstances;
    for need in budget(facts, plan, config.runtime.kind, heads) {
        if need.free < need.needed {
            let message =
                format!("`{}` has {} free, {} are needed", need.mount, Size(need.free), Size(need.needed));
            found.push(error(Check::Disk, message));
        }
    }
    let mut folders: BTreeSet<&str> = [STORE, "/etc", "/usr"].into();
    let placements = placements(&plan.items).unwrap_or_default();
    folders.extend(placements.iter().filter_map(|placement| Some(placement.path.rsplit_once('/')?.0)));
    let mounts: BTreeSet<&str> = folders
        .into_iter()
        .filter_map(|folder| facts.mount(folder))
        .filter(|mount| mount.read_only)
        .map(|mount| mount.path.as_str())
        .collect();
    found.extend(
        mounts.into_iter().map(|mount| error(Check::ReadOnly, format!("`{mount}` is mounted read-only"))),
    );
    found
}

fn kernel(candidate: &Candidate<'_>) -> Vec<Found> {
    let Candidate { host, facts, .. } = candidate;
    let mut found = Vec::new();
    if !host.has(Role::Worker) {
        return found;
    }
    let missing = |name: &str| facts.modules.get(name) == Some(&Module::Missing);
    if missing("br_netfilter") {
        found.push(error(Check::Modules, "the kernel has no `br_netfilter`"));
    }
    if missing("overlay") {
        found.push(warning(Check::Modules, "the kernel has no `overlay`: images will take more room"));
    }
    if facts.cgroup.is_none() {
        found.push(error(Check::Cgroups, "no control groups are mounted"));
    }
    found
}

fn ports(config: &Config, candidate: &Candidate<'_>) -> Vec<Found> {
    let Candidate { host, facts, .. } = candidate;
    let mut found = Vec::new();
    for port in components::ports(config, host) {
        let protocol = match port.protocol {
            crate::config::Protocol::Tcp => Protocol::Tcp,
            crate::config::Protocol::Udp => Protocol::Udp,
        };
        // Something on loopback only (a resolver, say) does not stand in the way of the node's address.
        let taken = facts.ports.iter().any(|listening| {
            listening.protocol == protocol && listening.port == port.port && !listening.address.is_loopback()
        });
        if taken {
            found.push(error(Check::Ports, format!("something listens on {port} already")));
        }
    }
    found
}

fn leftovers(config: &Config, facts: &Facts) -> Vec<Found> {
    let mut found = Vec::new();
    if let Some(other) = facts.cluster.as_ref().filter(|cluster| **cluster != config.cluster_id) {
        found.push(error(Check::Leftovers, format!("the node belongs to the cluster `{other}`")));
    }
    let ours = components::TABLE.into_iter().filter(|component| component.flags.is_some());
    let services = ours.filter_map(|component| component.name()).chain(OTHERS);
    let running: Vec<&str> = services.filter(|service| facts.runs(service)).collect();
    if !running.is_empty() {
        found.push(error(Check::Leftovers, format!("a Kubernetes runs here: {}", running.join(", "))));
    }
    if !facts.leftovers.is_empty() {
        let shown: Vec<&str> = facts.leftovers.iter().take(3).map(String::as_str).collect();
        let more = facts.leftovers.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        found.push(error(
            Check::Leftovers,
            format!("files of another Kubernetes: {}{more}", shown.join(", ")),
        ));
    }
    found
}

/// Our unit has the name of the package's, and takes its place.
fn load_balancer(config: &Config, candidate: &Candidate<'_>) -> Option<Found> {
    const NGINX: &str = "nginx";
    let Candidate { host, facts, .. } = candidate;
    let ours = host.has(Role::Loadbalance) && config.load_balancer_port.is_some();
    let state = if facts.runs(NGINX) { "runs" } else { "is enabled" };
    (ours && (facts.runs(NGINX) || facts.enabled_services.contains(NGINX))).then(|| {
        let message = format!(
            "nginx {state} here already, and would serve nothing but the API: \
             disable and stop it, or choose another load balancer"
        );
        error(Check::LoadBalancer, message)
    })
}

/// What only shows when the nodes are looked at side by side.
pub(super) fn judge_together(config: &Config, candidates: &[Candidate<'_>]) -> Vec<(String, Found)> {
    let mut found = Vec::new();
    for candidate in candidates {
        let name = &candidate.host.name;
        for other in config.hosts.iter().filter(|other| other.name != *name) {
            if candidate.facts.addresses.contains(&other.ip) {
                let message = format!("it has the address {} of `{}` too", other.ip, other.name);
                found.push((name.clone(), error(Check::Hostname, message)));
            }
        }
        let mark = candidate.facts.mark.as_ref();
        let twin = candidates
            .iter()
            .find(|other| mark.is_some() && other.facts.mark.as_ref() == mark && other.host.name < *name);
        if let Some(twin) = twin {
            let message = format!("it is the same machine as `{}`, or a copy of it", twin.host.name);
            found.push((name.clone(), error(Check::Hostname, message)));
        }
    }
    found
}
