//! What all of some nodes are sure to have, as `eggo-bundle` takes it for the `baseline` of a manifest.

use super::{Facts, Listed, Package};
use eggo_bundles::Arch;
use eggo_errors::Explain;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Baseline {
    pub arch: Arch,
    /// Where it was captured.
    pub nodes: Vec<String>,
    /// Those that every node has, each in the oldest version among them.
    pub packages: Vec<Package>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoBaseline {
    #[error("no node has reported its packages")]
    Nothing,
    #[error("these nodes are too different for one baseline")]
    Different { kinds: BTreeMap<String, Vec<String>> },
}

impl Explain for NoBaseline {
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new("no-baseline")
    }

    fn notes(&self) -> Vec<String> {
        let Self::Different { kinds } = self else { return Vec::new() };
        kinds.iter().map(|(kind, nodes)| format!("{kind}: {}", nodes.join(", "))).collect()
    }

    fn hint(&self) -> Option<String> {
        let Self::Different { kinds } = self else { return None };
        let first = kinds.values().next()?;
        Some(format!("capture one for each kind: eggo-install facts {} --baseline", first.join(" ")))
    }
}

/// Which nodes have a package, and its oldest version there.
#[derive(Default)]
struct Found<'a> {
    nodes: BTreeSet<&'a str>,
    oldest: Option<&'a str>,
}

impl Baseline {
    pub fn of(facts: &[Facts]) -> Result<Self, NoBaseline> {
        let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for node in facts {
            let manager = node.manager.map_or("no packages", |manager| manager.extension());
            kinds.entry(format!("{} {manager}", node.machine)).or_default().push(node.node.clone());
        }
        if kinds.len() > 1 {
            return Err(NoBaseline::Different { kinds });
        }
        let first = facts.first().ok_or(NoBaseline::Nothing)?;
        let (Some(manager), Some(arch)) = (first.manager, first.arch) else {
            return Err(NoBaseline::Nothing);
        };
        let mut found: BTreeMap<(&str, &str), Found<'_>> = BTreeMap::new();
        for node in facts {
            for Listed { name, version, arch } in node.packages.iter() {
                let found = found.entry((name, arch)).or_default();
                found.nodes.insert(&node.node);
                let older = found.oldest.is_none_or(|oldest| manager.compare(version, oldest).is_lt());
                found.oldest = if older { Some(version) } else { found.oldest };
            }
        }
        let everywhere = found.into_iter().filter(|(_, found)| found.nodes.len() == facts.len());
        let packages = everywhere.filter_map(|((name, arch), found)| {
            Some(Package { name: name.into(), version: found.oldest?.into(), arch: arch.into() })
        });
        Ok(Self {
            arch,
            nodes: facts.iter().map(|node| node.node.clone()).collect(),
            packages: packages.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Manager;

    fn node(name: &str, manager: Manager, packages: &[(&str, &str)]) -> Facts {
        let package = |(name, version): &(&str, &str)| Package {
            name: name.to_string(),
            version: version.to_string(),
            arch: "amd64".into(),
        };
        Facts {
            node: name.into(),
            arch: Some(Arch::Amd64),
            machine: "x86_64".into(),
            manager: Some(manager),
            packages: packages.iter().map(package).collect(),
            ..Facts::default()
        }
    }

    #[test]
    fn what_every_node_has_in_the_oldest_version() {
        let a = node("a", Manager::Dpkg, &[("libc6", "2.36-9"), ("curl", "7.88"), ("vim", "9")]);
        let b = node("b", Manager::Dpkg, &[("libc6", "2.36-10"), ("curl", "7.9")]);
        let baseline = Baseline::of(&[a, b]).unwrap();
        let seen: Vec<_> =
            baseline.packages.iter().map(|found| (found.name.as_str(), found.version.as_str())).collect();
        assert_eq!(seen, [("curl", "7.9"), ("libc6", "2.36-9")]);
        assert_eq!(baseline.nodes, ["a", "b"]);
    }

    #[test]
    fn nodes_of_different_kinds_have_no_common_one() {
        let (a, b) = (node("a", Manager::Dpkg, &[]), node("b", Manager::Rpm, &[]));
        let error = Baseline::of(&[a, b]).unwrap_err();
        assert_eq!(error.notes(), ["x86_64 .deb: a", "x86_64 .rpm: b"]);
        assert_eq!(error.hint().unwrap(), "capture one for each kind: eggo-install facts a --baseline");
        assert_eq!(Baseline::of(&[]).unwrap_err(), NoBaseline::Nothing);
    }
}
