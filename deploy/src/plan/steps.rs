//! The phases that apply to a node, in their order.

use super::NodePlan;
use crate::config::{Config, DnsKind, Host, Schedule};
use eggo_bundles::{Kind, Role};

/// The name of a phase.
pub type Step = String;

type Applies = fn(&Config, &Host, &NodePlan) -> bool;

/// In the order of the install's list of phases. What happens on this machine alone, or to the
/// cluster as a whole, is no node's step.
const STEPS: [(&str, Applies); 18] = [
    ("distribute", |_, _, node| !node.items.is_empty()),
    ("simulate", |_, _, node| has(node, Kind::Pkg)),
    ("system", |_, _, _| true),
    ("packages", |_, _, node| has(node, Kind::Pkg) || !node.repo_packages.is_empty()),
    ("files", |_, _, node| node.items.iter().any(|wanted| wanted.dst.is_some())),
    ("runtime", |_, host, _| host.has(Role::Worker)),
    ("images", |_, _, node| has(node, Kind::Image)),
    ("prejoin", |_, _, node| hook(node, Schedule::Prejoin)),
    ("etcd", |_, host, _| host.has(Role::Etcd)),
    ("load-balancer", |_, host, _| host.has(Role::Loadbalance)),
    ("control-plane", |_, host, _| host.has(Role::Master)),
    ("workers", |_, host, _| host.has(Role::Worker)),
    ("labels", |_, host, _| host.has(Role::Master) && host.has(Role::Worker)),
    ("dns", |config, host, _| match config.dns.kind {
        DnsKind::Binary => host.has(Role::Master),
        DnsKind::Pod { .. } => config.first_master() == Some(host),
    }),
    ("addons", |config, host, node| config.first_master() == Some(host) && has(node, Kind::Addon)),
    ("kubelet-serving", |config, host, _| config.kubelet_serving && host.has(Role::Worker)),
    ("postjoin", |_, _, node| hook(node, Schedule::Postjoin)),
    ("prune", |_, _, node| !node.items.is_empty()),
];

fn has(node: &NodePlan, kind: Kind) -> bool {
    node.of_kind(kind).next().is_some()
}

fn hook(node: &NodePlan, schedule: Schedule) -> bool {
    node.hooks.iter().any(|hook| hook.schedule == schedule)
}

pub fn steps(config: &Config, host: &Host, node: &NodePlan) -> Vec<Step> {
    STEPS
        .into_iter()
        .filter(|(_, applies)| applies(config, host, node))
        .map(|(name, _)| name.into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_phases_in_their_order() {
        let phases: Vec<&str> = crate::operation::phases().iter().map(|phase| phase.name).collect();
        let places = STEPS.iter().map(|(step, _)| {
            phases.iter().position(|phase| phase == step).unwrap_or_else(|| panic!("no phase `{step}`"))
        });
        assert!(places.is_sorted_by(|a, b| a < b), "{phases:?}");
    }
}
