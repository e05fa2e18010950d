//! The programs that a node's roles run, as far as the plan does not bring them.

use super::NodePlan;
use crate::components;
use crate::config::{Config, Host};
use eggo_bundles::Kind;

/// By their names: a package may well have the program inside, but nobody looks into it for a plan.
pub(super) fn not_brought(config: &Config, host: &Host, node: &NodePlan) -> Vec<String> {
    let needed = components::needed(config, host).into_iter();
    let absent = needed.filter(|(program, packages)| !brings(node, program, packages));
    absent.map(|(program, _)| program.to_string()).collect()
}

fn brings(node: &NodePlan, program: &str, packages: &[&str]) -> bool {
    let package = |name: &str| {
        let name = name.to_ascii_lowercase();
        packages.iter().any(|word| name.contains(word))
    };
    let in_items = node.items.iter().any(|wanted| match wanted.item.kind {
        Kind::Pkg => package(&wanted.item.name),
        Kind::Dir => true,
        _ => wanted.item.name == program || wanted.item.path.rsplit('/').next() == Some(program),
    });
    in_items || node.repo_packages.iter().any(|name| package(name))
}
