//! Why a plan cannot be made.

use crate::config::{Host, Section};
use eggo_bundles::{Arch, Digest, dst::BadDst};
use eggo_errors::{Count, Explain};
use std::collections::BTreeMap;

/// How many things are named where all of them lack for the same reason.
const EXAMPLES: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("the bundle has nothing for {arch}, which {} needs", nodes.join(", "))]
    Arch { arch: Arch, nodes: Vec<String> },
    #[error("the bundle lacks {} of what deploy.yaml names", .0.len())]
    Missing(Vec<Missing>),
    #[error("`{name}`: {error}")]
    Dst { name: String, error: BadDst },
    #[error("`{0}` has no destination")]
    NoDst(String),
    #[error("deploy.yaml takes packages from the nodes' own repositories, but this install is offline")]
    NodeRepos(Vec<(String, Section, usize)>),
    #[error("the bundle is a delta: {} only in its parent {parent}", Count(.items.len(), "of what the nodes need is", "of what the nodes need are"))]
    OnlyInParent { parent: Digest, items: Vec<String> },
}

/// Something that a node needs and the bundle does not have for its arch.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Missing {
    pub name: String,
    /// `pkg`, `bin`, `image`, `addon`…
    pub kind: String,
    /// `install.etcd (line 12)`, `pause-image`…
    pub asked_by: String,
    /// Per arch, the nodes that need it.
    pub needed: BTreeMap<Arch, Vec<String>>,
    /// What the bundle has instead.
    pub found: Option<String>,
}

impl Explain for PlanError {
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new(match self {
            Self::Arch { .. } => "bundle-lacks-arch",
            Self::Missing(_) => "bundle-lacks-items",
            Self::Dst { .. } | Self::NoDst(_) => "bad-destination",
            Self::NodeRepos(_) => "node-repos-not-allowed",
            Self::OnlyInParent { .. } => "delta-needs-base",
        })
    }

    fn notes(&self) -> Vec<String> {
        match self {
            Self::Missing(list) => list.iter().map(Missing::line).collect(),
            Self::NodeRepos(asked) => {
                let line = |(names, section, line): &_| format!("`{names}` of `{section}` (line {line})");
                asked.iter().map(line).collect()
            }
            Self::OnlyInParent { items, .. } => {
                let mut notes: Vec<String> = items.iter().take(EXAMPLES).cloned().collect();
                if items.len() > EXAMPLES {
                    notes.push(format!("and {} more", items.len() - EXAMPLES));
                }
                notes
            }
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Arch { arch, .. } => format!("build the bundle with `--arch {arch}` among its archs"),
            Self::Missing(_) => {
                "add them to the bundle's manifest and build it again, or take them out of deploy.yaml".into()
            }
            Self::Dst { error, .. } => error.hint(),
            Self::NoDst(_) => "give the item a `dst` in deploy.yaml".into(),
            Self::NodeRepos(_) => {
                "bundle the packages and write `type: pkg`, or allow the nodes' repositories with `--node-repos`"
                    .into()
            }
            Self::OnlyInParent { .. } => "give the parent with `--base`".into(),
        })
    }
}

impl Missing {
    fn line(&self) -> String {
        let nodes = |(arch, nodes): (&Arch, &Vec<String>)| format!("{arch} ({})", nodes.join(", "));
        let needed = self.needed.iter().map(nodes).collect::<Vec<_>>().join(" and ");
        let found = self.found.as_ref().map(|found| format!("; the bundle has {found}")).unwrap_or_default();
        format!("{} `{}`, asked for by `{}`, for {needed}{found}", self.kind, self.name, self.asked_by)
    }
}

/// What is missing, gathered over all nodes.
#[derive(Default)]
pub(super) struct Lacks(BTreeMap<(String, String, String), Missing>);

impl Lacks {
    pub(super) fn add(
        &mut self,
        kind: &str,
        name: &str,
        asked_by: String,
        host: &Host,
        found: Option<String>,
    ) {
        let key = (asked_by.clone(), kind.to_string(), name.to_string());
        let missing = self.0.entry(key).or_insert_with(|| Missing {
            name: name.to_string(),
            kind: kind.to_string(),
            asked_by,
            needed: BTreeMap::new(),
            found,
        });
        let nodes = missing.needed.entry(host.arch).or_default();
        if !nodes.contains(&host.name) {
            nodes.push(host.name.clone());
        }
    }

    pub(super) fn into_result(self) -> Result<(), PlanError> {
        let list: Vec<Missing> = self.0.into_values().collect();
        if list.is_empty() { Ok(()) } else { Err(PlanError::Missing(list)) }
    }
}
