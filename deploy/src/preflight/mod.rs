//! Whether the nodes are fit: every check on every node, all findings in one table, then a decision.
//! Each check can be ignored by its name. Nothing here changes a node.

mod archs;
mod budget;
mod checks;
mod heads;
mod reach;
mod rehearsal;
mod table;
mod this_machine;

pub use archs::check as check_archs;
pub use budget::{Need, budget};
pub use heads::Heads;

use crate::claim::TAKE_OVER;
use crate::config::Config;
use crate::limits::Limits;
use crate::node::Planned;
use crate::run::Named as _;
use crate::version::Version;
use checks::Found;
use eggo_errors::{Count, Exit, Explain};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use table::{CLAIM, Judge, TABLE};

/// What all nodes are judged by.
pub struct Circumstances<'a> {
    pub config: &'a Config,
    /// The cluster's folder on the machine that we run on.
    pub state: &'a Path,
    pub heads: &'a Heads,
    /// On these machines the journal has done something before: ports in use and files there are our own.
    pub ours: BTreeSet<String>,
    /// These are claimed, and not by the journal's state folder.
    pub foreign: BTreeSet<String>,
    /// They are to become ours.
    pub take_over: bool,
    /// These are the machine that we run on.
    pub this_machine: BTreeSet<String>,
    pub limits: &'a Limits,
    /// The Kubernetes in the bundle, if nothing but an upgrade may bring the cluster to it.
    pub kubernetes: Option<Version>,
}

impl Circumstances<'_> {
    fn is_ours(&self, node: &Planned<'_>) -> bool {
        self.ours.contains(node.name())
    }
}

/// One of the checks, by its place in their table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Check(usize);

impl Check {
    /// All of them, in the order in which their findings are shown.
    pub fn all() -> impl Iterator<Item = Check> {
        (0..TABLE.len()).map(Check)
    }

    /// The one that people call so.
    pub fn named(name: &str) -> Result<Self, UnknownCheck> {
        Self::all().find(|check| check.as_str() == name).ok_or_else(|| UnknownCheck(name.into()))
    }

    pub fn as_str(self) -> &'static str {
        TABLE[self.0].name
    }

    /// What must be so, for the help.
    pub fn help(self) -> &'static str {
        TABLE[self.0].help
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Check> for String {
    fn from(check: Check) -> Self {
        check.as_str().into()
    }
}

impl TryFrom<String> for Check {
    type Error = UnknownCheck;

    fn try_from(name: String) -> Result<Self, UnknownCheck> {
        Self::named(&name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Error,
    Warning,
    /// Would be an error, but was asked to be ignored.
    Ignored,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Ignored => "ignored",
        }
    }
}

/// Something that a check found on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub node: String,
    pub check: Check,
    pub level: Level,
    pub message: String,
}

/// All findings, and what follows from them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub nodes: usize,
    pub findings: Vec<Finding>,
}

impl Verdict {
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.level == Level::Error).count()
    }

    /// `Err` if any check failed that was not to be ignored.
    pub fn decide(&self) -> Result<(), Unfit> {
        let failed = |finding: &&Finding| finding.level == Level::Error;
        let checks: BTreeSet<Check> =
            self.findings.iter().filter(failed).map(|finding| finding.check).collect();
        if checks.is_empty() {
            return Ok(());
        }
        let lines = self.findings.iter().filter(failed);
        let lines =
            lines.map(|finding| format!("{}: {}: {}", finding.node, finding.check.as_str(), finding.message));
        Err(Unfit { lines: lines.collect(), checks: checks.into_iter().map(Check::as_str).collect() })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the nodes are not fit for the install: {}", Count(.lines.len(), "problem", "problems"))]
pub struct Unfit {
    pub lines: Vec<String>,
    checks: Vec<&'static str>,
}

impl Explain for Unfit {
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new("preflight-failed")
    }

    fn notes(&self) -> Vec<String> {
        self.lines.clone()
    }

    fn hint(&self) -> Option<String> {
        let others: Vec<&str> = self.checks.iter().copied().filter(|check| *check != CLAIM).collect();
        let ignored = format!("fix them; or, if you know better: --ignore-preflight {}", others.join(","));
        Some(match (self.checks.contains(&CLAIM), others.as_slice()) {
            (true, []) => TAKE_OVER.into(),
            (true, _) => format!("{TAKE_OVER}; the others: {ignored}"),
            (false, _) => ignored,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no check `{0}`")]
pub struct UnknownCheck(String);

impl Explain for UnknownCheck {
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new("unknown-check")
    }

    fn hint(&self) -> Option<String> {
        Some(format!("checks: {}", Check::all().map(Check::as_str).collect::<Vec<_>>().join(", ")))
    }

    fn exit(&self) -> Exit {
        Exit::Usage
    }
}

/// Reads the names that people give to `--ignore-preflight`.
pub fn parse_checks<S: AsRef<str>>(
    names: impl IntoIterator<Item = S>,
) -> Result<BTreeSet<Check>, UnknownCheck> {
    names.into_iter().map(|name| Check::named(name.as_ref())).collect()
}

/// Runs all checks on all nodes.
pub async fn check(
    circumstances: &Circumstances<'_>,
    nodes: &[Planned<'_>],
    ignore: &BTreeSet<Check>,
) -> Verdict {
    let mut findings = Vec::new();
    for check in Check::all() {
        let found = match TABLE[check.0].judge {
            Judge::Node(judge) => {
                let judged = nodes.iter().map(|node| {
                    let found = judge(circumstances, node).into_iter();
                    found.map(|found| (node.host.name.clone(), found))
                });
                judged.flatten().collect()
            }
            Judge::Together(judge) => judge(circumstances, nodes),
            Judge::Ask(ask) => ask(circumstances, nodes).await,
        };
        findings.extend(found.into_iter().map(|(node, Found { level, message })| {
            let level = if level == Level::Error && ignore.contains(&check) { Level::Ignored } else { level };
            Finding { node, check, level, message }
        }));
    }
    findings.sort_by(|a, b| (a.level, &a.node, a.check).cmp(&(b.level, &b.node, b.check)));
    Verdict { nodes: nodes.len(), findings }
}

#[cfg(test)]
mod tests;
