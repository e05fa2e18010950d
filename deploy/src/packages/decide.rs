//! Facts × packages of the bundle → what is to be installed.

use super::PackageError;
use crate::facts::{Facts, Listed, Manager};
use eggo_bundles::{Item, version};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is to become of the packages of one node: decided once, shown, and carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    pub manager: Manager,
    /// Those that are there in no version.
    pub new: Vec<Versions>,
    /// Those that are there in an older version.
    pub upgraded: Vec<Versions>,
    /// Equal or newer on the node: left alone.
    pub kept: Vec<Versions>,
}

/// The same with the files to install: what a package manager is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    pub manager: Manager,
    pub install: Vec<Arc<Item>>,
    /// The names of those that are there in no version.
    pub new: Vec<String>,
}

/// A package of the bundle, and what the node has of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<String>,
    pub bundled: String,
}

/// A package that nobody provides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    pub package: String,
    pub requires: String,
}

impl Changes {
    /// The files of these packages, out of all that the node is to have.
    pub fn transaction(&self, items: &[Arc<Item>]) -> Transaction {
        let of = |list: &[Versions], item: &Item| {
            list.iter().any(|one| one.name == item.name && one.bundled == item.version)
        };
        let install = items.iter().filter(|item| of(&self.new, item) || of(&self.upgraded, item));
        Transaction {
            manager: self.manager,
            install: install.cloned().collect(),
            new: self.new.iter().map(|one| one.name.clone()).collect(),
        }
    }
}

impl Transaction {
    pub fn nothing(manager: Manager) -> Self {
        Self { manager, install: Vec::new(), new: Vec::new() }
    }
}

impl Versions {
    fn of(item: &Item, package: Option<Listed<'_>>) -> Self {
        let installed = package.map(|package| package.version.to_string());
        Self { name: item.name.clone(), installed, bundled: item.version.clone() }
    }
}

/// What becomes of a node's packages when it gets these.
pub fn changes(facts: &Facts, items: &[Arc<Item>]) -> Result<Changes, PackageError> {
    let node = || facts.node.clone();
    let manager = facts.manager.ok_or_else(|| PackageError::NoManager { node: node() })?;
    let installed = by_name(facts);
    let mut changes = Changes { manager, new: Vec::new(), upgraded: Vec::new(), kept: Vec::new() };
    for item in items {
        if !item.path.ends_with(manager.extension()) {
            return Err(PackageError::WrongFormat { node: node(), package: item.name.clone() });
        }
        let newest = installed
            .get(item.name.as_str())
            .into_iter()
            .flatten()
            .filter(|package| fits(manager, item, package));
        let newest = newest.max_by(|a, b| manager.compare(a.version, b.version)).copied();
        let list = match newest {
            None => &mut changes.new,
            Some(package) if manager.compare(package.version, &item.version).is_lt() => &mut changes.upgraded,
            Some(_) => &mut changes.kept,
        };
        list.push(Versions::of(item, newest));
    }
    Ok(changes)
}

pub fn decide(facts: &Facts, items: &[Arc<Item>]) -> Result<Transaction, PackageError> {
    Ok(changes(facts, items)?.transaction(items))
}

/// What the packages need of each other that is neither in the transaction nor on the node. A cheap
/// look before anything is sent; the package manager knows better, once the files are there.
pub fn unmet(facts: &Facts, items: &[Arc<Item>]) -> Vec<Unmet> {
    let mut there: BTreeSet<&str> = facts.packages.iter().map(|package| package.name).collect();
    there.extend(items.iter().map(|item| item.name.as_str()));
    let lacks = |item: &Arc<Item>| {
        let missing = item.requires.iter().filter(|name| !there.contains(name.as_str()));
        missing.map(|name| Unmet { package: item.name.clone(), requires: name.clone() }).collect::<Vec<_>>()
    };
    items.iter().flat_map(lacks).collect()
}

fn by_name(facts: &Facts) -> BTreeMap<&str, Vec<Listed<'_>>> {
    let mut map: BTreeMap<&str, Vec<Listed<'_>>> = BTreeMap::new();
    for package in facts.packages.iter() {
        map.entry(package.name).or_default().push(package);
    }
    map
}

/// Whether an installed package is of the architecture that the bundled one is for. A package
/// without one (`all`, `noarch`) stands for any.
fn fits(manager: Manager, item: &Item, package: &Listed<'_>) -> bool {
    let (native, any) = match manager {
        Manager::Dpkg => (item.arch.as_str(), "all"),
        Manager::Rpm => (item.arch.machine(), "noarch"),
    };
    package.arch == native || package.arch == any
}

impl Manager {
    pub fn extension(self) -> &'static str {
        match self {
            Self::Dpkg => ".deb",
            Self::Rpm => ".rpm",
        }
    }

    pub fn compare(self, left: &str, right: &str) -> Ordering {
        match self {
            Self::Dpkg => version::deb::compare(left, right),
            Self::Rpm => version::rpm::compare(left, right),
        }
    }
}
