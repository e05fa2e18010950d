//! The phases that apply to a node, in their order.

use super::NodePlan;
use crate::config::{Config, Host, Schedule};
use eggo_bundles::{Kind, Role};

/// The name of a phase.
pub type Step = &'static str;

type Applies = fn(&Config, &Host, &NodePlan) -> bool;

/// In the order of the install's list of phases.
const STEPS: [(Step, Applies); 14] = [
    ("distribute", |_, _, node| !node.items.is_empty()),
    ("system", |_, _, _| true),
    ("packages", |_, _, node| node.of_kind(Kind::Pkg).next().is_some() || !node.repo_packages.is_empty()),
    ("files", |_, _, node| node.items.iter().any(|wanted| wanted.dst.is_some())),
    ("runtime", |_, host, _| host.has(Role::Worker)),
    ("images", |_, _, node| node.of_kind(Kind::Image).next().is_some()),
    ("prejoin", |_, _, node| hook(node, Schedule::Prejoin)),
    ("etcd", |_, host, _| host.has(Role::Etcd)),
    ("loadbalance", |_, host, _| host.has(Role::Loadbalance)),
    ("masters", |_, host, _| host.has(Role::Master)),
    ("workers", |_, host, _| host.has(Role::Worker)),
    ("dns", |config, host, _| config.first_master() == Some(host)),
    ("addons", |config, host, node| {
        config.first_master() == Some(host) && node.of_kind(Kind::Addon).next().is_some()
    }),
    ("postjoin", |_, _, node| hook(node, Schedule::Postjoin)),
];

fn hook(node: &NodePlan, schedule: Schedule) -> bool {
    node.hooks.iter().any(|hook| hook.schedule == schedule)
}

pub fn steps(config: &Config, host: &Host, node: &NodePlan) -> Vec<Step> {
    STEPS.into_iter().filter(|(_, applies)| applies(config, host, node)).map(|(name, _)| name).collect()
}
