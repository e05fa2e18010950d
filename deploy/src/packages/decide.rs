//! Facts × packages of the bundle → what is to be installed.

use super::PackageError;
use crate::facts::{Facts, Manager, Package};
use eggo_bundles::{Item, version};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is to happen on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    pub manager: Manager,
    /// Missing or older on the node.
    #[serde(with = "crate::plan::shared")]
    pub install: Vec<Arc<Item>>,
    /// The names of those that were not there in any version.
    pub new: Vec<String>,
    /// Those that were there in an older version.
    pub upgraded: Vec<Versions>,
    /// Equal or newer on the node: left alone.
    pub kept: Vec<Versions>,
}

/// A package in two versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    pub name: String,
    pub installed: String,
    pub bundled: String,
}

/// A package that nobody provides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    pub package: String,
    pub requires: String,
}

impl Transaction {
    pub fn nothing(manager: Manager) -> Self {
        Self { manager, install: Vec::new(), new: Vec::new(), upgraded: Vec::new(), kept: Vec::new() }
    }
}

impl Versions {
    fn of(item: &Item, package: &Package) -> Self {
        let (installed, bundled) = (package.version.clone(), item.version.clone());
        Self { name: item.name.clone(), installed, bundled }
    }
}

pub fn decide(facts: &Facts, items: &[Arc<Item>]) -> Result<Transaction, PackageError> {
    let node = || facts.node.clone();
    let manager = facts.manager.ok_or_else(|| PackageError::NoManager { node: node() })?;
    let installed = by_name(facts);
    let mut transaction = Transaction::nothing(manager);
    for item in items {
        if !item.path.ends_with(manager.extension()) {
            return Err(PackageError::WrongFormat { node: node(), package: item.name.clone() });
        }
        let newest = installed
            .get(item.name.as_str())
            .into_iter()
            .flatten()
            .filter(|package| fits(manager, item, package));
        let newest = newest.max_by(|a, b| manager.compare(&a.version, &b.version));
        match newest {
            None => {
                transaction.new.push(item.name.clone());
                transaction.install.push(item.clone());
            }
            Some(package) if manager.compare(&package.version, &item.version).is_lt() => {
                transaction.upgraded.push(Versions::of(item, package));
                transaction.install.push(item.clone());
            }
            Some(package) => transaction.kept.push(Versions::of(item, package)),
        }
    }
    Ok(transaction)
}

/// What the packages need of each other that is neither in the transaction nor on the node. A cheap
/// look before anything is sent; the package manager knows better, once the files are there.
pub fn unmet(facts: &Facts, items: &[Arc<Item>]) -> Vec<Unmet> {
    let mut there: BTreeSet<&str> = facts.packages.iter().map(|package| package.name.as_str()).collect();
    there.extend(items.iter().map(|item| item.name.as_str()));
    let lacks = |item: &Arc<Item>| {
        let missing = item.requires.iter().filter(|name| !there.contains(name.as_str()));
        missing.map(|name| Unmet { package: item.name.clone(), requires: name.clone() }).collect::<Vec<_>>()
    };
    items.iter().flat_map(lacks).collect()
}

fn by_name(facts: &Facts) -> BTreeMap<&str, Vec<&Package>> {
    let mut map: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in &facts.packages {
        map.entry(&package.name).or_default().push(package);
    }
    map
}

/// Whether an installed package is of the architecture that the bundled one is for. A package
/// without one (`all`, `noarch`) stands for any.
fn fits(manager: Manager, item: &Item, package: &Package) -> bool {
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
