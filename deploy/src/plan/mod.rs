//! What each node gets and does: a pure value of config × bundle × what is known of the nodes.
//!
//! Nothing here does I/O. The same plan is printed by `plan`, checked by preflight, carried
//! out by the phases, and can be served by a program without a terminal.

mod catalogue;
mod error;
mod pick;
mod programs;
pub mod reference;
pub(crate) mod shared;
mod wanted;

pub use eggo_bundles::index::PackageFormat;
pub use error::{Missing, PlanError};
pub use wanted::Wanted;

use crate::config::{Config, Hook, Host, Schedule};
use crate::facts::Facts;
use crate::packages::{self, Changes};
use catalogue::Catalogue;
use eggo_bundles::{Arch, Digest, Image, Index, Item, Kind, Role};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// The name of a phase.
pub type Step = String;

/// The phases that a node goes through, in order; the lists of phases are the operations' business.
pub type Steps<'a> = &'a dyn Fn(&Config, &Host, &NodePlan) -> Vec<Step>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The cluster's id.
    pub cluster: String,
    pub nodes: Vec<NodePlan>,
    /// The manifests to apply, in order; they are also among the first master's items.
    pub addons: Vec<Wanted>,
    /// `network.plugin`, where no addon is called so: the pods' network must come from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_without_addon: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePlan {
    pub name: String,
    pub ip: IpAddr,
    pub arch: Arch,
    pub roles: Vec<Role>,
    /// Of all its items; equal content counts once.
    pub bytes: u64,
    /// Of those that the node does not have yet.
    pub bytes_to_send: u64,
    /// Sorted by path.
    pub items: Vec<Wanted>,
    /// The images that its image items make up, sorted by name.
    #[serde(with = "shared")]
    pub images: Vec<Arc<Image>>,
    /// What becomes of its packages; nothing where it gets none, or where nobody knows what it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<Changes>,
    /// Packages that come from the node's own repositories.
    pub repo_packages: Vec<String>,
    pub hooks: Vec<Hook>,
    /// The phases that apply to it, in order.
    pub steps: Vec<Step>,
    /// Programs of its roles that nothing of the above brings: they must be there already.
    pub expects: Vec<String>,
}

/// What is known of a node before the plan is made.
#[derive(Debug, Clone, Default)]
pub struct Known<'a> {
    /// Which packages it can install.
    pub packages: Option<PackageFormat>,
    /// Content that is in its store already.
    pub content: HashSet<Digest>,
    /// What it has.
    pub facts: Option<&'a Facts>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Let `type: repo` items come from the node's own repositories.
    pub node_repos: bool,
}

/// Plans for every host of the config. `known` is by the host's name; a host that is not in it
/// is planned from the config alone.
pub fn plan(
    config: &Config,
    index: &Index,
    known: &BTreeMap<String, Known<'_>>,
    options: Options,
    steps: Steps<'_>,
) -> Result<Plan, PlanError> {
    let archs: Vec<Arch> = config.archs().into_iter().filter(|arch| !index.archs.contains(arch)).collect();
    if let Some(arch) = archs.first() {
        let nodes = config.hosts.iter().filter(|host| host.arch == *arch);
        return Err(PlanError::Arch { arch: *arch, nodes: nodes.map(|host| host.name.clone()).collect() });
    }
    let catalogue = Catalogue::new(index);
    let nothing = Known::default();
    let mut missing = error::Lacks::default();
    let mut nodes = Vec::new();
    let known_of = |name: &str| known.get(name).unwrap_or(&nothing);
    for host in &config.hosts {
        let known = known_of(&host.name);
        let picked = pick::pick(config, host, &catalogue, known, &mut missing)?;
        let mut node = NodePlan::new(config, host, picked, known);
        node.steps = steps(config, host, &node);
        nodes.push(node);
    }
    missing.into_result()?;
    refuse_repos(config, options)?;
    refuse_what_only_the_parent_has(index, &nodes, known_of)?;
    let first = config.first_master();
    let addons = first.map_or_else(Vec::new, |master| pick::addons(config, master.arch, &catalogue));
    let network_without_addon = network_without_addon(config, &addons);
    Ok(Plan { cluster: config.cluster_id.clone(), nodes, addons, network_without_addon })
}

impl Plan {
    pub fn node(&self, name: &str) -> Option<&NodePlan> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// Of all nodes together.
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.bytes).sum()
    }
}

impl NodePlan {
    fn new(config: &Config, host: &Host, picked: pick::Picked, known: &Known<'_>) -> Self {
        let mut seen = HashSet::new();
        let distinct = picked.items.iter().filter(|wanted| seen.insert(wanted.item.sha256));
        let sizes: Vec<(Digest, u64)> =
            distinct.map(|wanted| (wanted.item.sha256, wanted.item.size)).collect();
        let absent = sizes.iter().filter(|(digest, _)| !known.content.contains(digest));
        let mut node = Self {
            name: host.name.clone(),
            ip: host.ip,
            arch: host.arch,
            roles: host.roles.iter().copied().collect(),
            bytes: sizes.iter().map(|(_, size)| size).sum(),
            bytes_to_send: absent.map(|(_, size)| size).sum(),
            items: picked.items,
            images: picked.images,
            packages: None,
            repo_packages: picked.repo_packages,
            hooks: config.hooks.iter().filter(|hook| host.has(hook.role)).cloned().collect(),
            steps: Vec::new(),
            expects: Vec::new(),
        };
        // Where it cannot be decided, a check says why.
        node.packages = known
            .facts
            .filter(|_| node.has_packages())
            .and_then(|facts| packages::changes(facts, &node.package_items()).ok());
        node.expects = programs::not_brought(config, host, &node);
        node
    }

    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    pub fn has_packages(&self) -> bool {
        self.of_kind(Kind::Pkg).next().is_some()
    }

    pub fn package_items(&self) -> Vec<Arc<Item>> {
        self.of_kind(Kind::Pkg).map(|wanted| wanted.item.clone()).collect()
    }

    pub fn has_hook(&self, schedule: Schedule) -> bool {
        self.hooks.iter().any(|hook| hook.schedule == schedule)
    }

    /// The image archives of eggo's tarballs, whose content no index lists.
    pub fn image_archives(&self) -> impl Iterator<Item = &Wanted> {
        self.of_kind(Kind::Image).filter(|_| self.images.is_empty())
    }

    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Wanted> {
        self.items.iter().filter(move |wanted| wanted.item.kind == kind)
    }
}

/// A manifest that is on the first master may have any name.
fn network_without_addon(config: &Config, addons: &[Wanted]) -> Option<String> {
    let plugin = config.network.plugin.as_ref()?;
    let called = |wanted: &Wanted| wanted.item.name.to_lowercase().contains(&plugin.to_lowercase());
    let brought = addons.iter().any(called) || config.network.plugin_args.contains_key("NetworkYamlPath");
    (!brought).then(|| plugin.clone())
}

fn refuse_repos(config: &Config, options: Options) -> Result<(), PlanError> {
    use crate::config::ItemKind;
    let items = config.content.items.iter().filter(|item| item.kind == ItemKind::Repo);
    let asked: Vec<_> = items.map(|item| (item.names.join(", "), item.section, item.line)).collect();
    if asked.is_empty() || options.node_repos { Ok(()) } else { Err(PlanError::NodeRepos(asked)) }
}

/// A delta alone will do where a node has the rest in its store. Manifests and hooks are read here.
fn refuse_what_only_the_parent_has<'a>(
    index: &Index,
    nodes: &[NodePlan],
    known_of: impl Fn(&str) -> &'a Known<'a>,
) -> Result<(), PlanError> {
    let Some(parent) = index.parent else { return Ok(()) };
    let mut items = BTreeSet::new();
    for node in nodes {
        let there = &known_of(&node.name).content;
        let is_hook =
            |item: &Item| node.hooks.iter().any(|hook| item.path.rsplit('/').next() == Some(&hook.name));
        let read_here = |item: &Item| item.kind == Kind::Addon || is_hook(item);
        let lacks = |item: &Item| !index.carries(item) && (!there.contains(&item.sha256) || read_here(item));
        for item in node.items.iter().map(|wanted| &*wanted.item).filter(|item| lacks(item)) {
            items.insert(match item.kind {
                Kind::Image => format!("{} image `{}`", item.arch, item.name),
                _ => item.path.clone(),
            });
        }
    }
    let items = Vec::from_iter(items);
    if items.is_empty() { Ok(()) } else { Err(PlanError::OnlyInParent { parent, items }) }
}

#[cfg(test)]
mod tests;
