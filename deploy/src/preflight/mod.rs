//! Whether the nodes are fit: every check on every node, all findings in one table, then a decision.
//! Each check can be ignored by its name. Nothing here changes a node.

mod archs;
mod budget;
mod checks;
mod heads;
mod reach;
mod rehearsal;
mod this_machine;

pub use archs::check as check_archs;
pub use budget::{Need, budget};
pub use checks::Found;
pub use heads::Heads;

use crate::config::{self, Config};
use crate::facts::Facts;
use crate::plan::NodePlan;
use crate::remote::Host;
use eggo_errors::{Count, Exit, Explain};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// A node to be judged.
pub struct Candidate<'a> {
    pub host: &'a config::Host,
    pub remote: Arc<dyn Host>,
    pub facts: &'a Facts,
    pub plan: &'a NodePlan,
    /// The journal has done something on just this machine before: ports in use and files there
    /// are our own.
    pub ours: bool,
    /// It is the machine that we run on.
    pub is_this_machine: bool,
}

/// What all nodes are judged by.
pub struct Circumstances<'a> {
    pub config: &'a Config,
    /// The cluster's folder on the machine that we run on.
    pub state: &'a Path,
    pub heads: &'a Heads,
}

/// The checks, in the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    Arch,
    Systemd,
    Tools,
    Programs,
    PackageManager,
    Packages,
    Transaction,
    Clock,
    Disk,
    ReadOnly,
    Memory,
    Swap,
    Modules,
    Cgroups,
    Ports,
    Leftovers,
    LoadBalancer,
    Hostname,
    ThisMachine,
    Reach,
    Version,
}

impl Check {
    pub const ALL: [Check; 21] = [
        Check::Arch,
        Check::Systemd,
        Check::Tools,
        Check::Programs,
        Check::PackageManager,
        Check::Packages,
        Check::Transaction,
        Check::Clock,
        Check::Disk,
        Check::ReadOnly,
        Check::Memory,
        Check::Swap,
        Check::Modules,
        Check::Cgroups,
        Check::Ports,
        Check::Leftovers,
        Check::LoadBalancer,
        Check::Hostname,
        Check::ThisMachine,
        Check::Reach,
        Check::Version,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Check::Arch => "arch",
            Check::Systemd => "systemd",
            Check::Tools => "tools",
            Check::Programs => "programs",
            Check::PackageManager => "package-manager",
            Check::Packages => "packages",
            Check::Transaction => "transaction",
            Check::Clock => "clock",
            Check::Disk => "disk",
            Check::ReadOnly => "read-only",
            Check::Memory => "memory",
            Check::Swap => "swap",
            Check::Modules => "modules",
            Check::Cgroups => "cgroups",
            Check::Ports => "ports",
            Check::Leftovers => "leftovers",
            Check::LoadBalancer => "load-balancer",
            Check::Hostname => "hostname",
            Check::ThisMachine => "this-machine",
            Check::Reach => "reach",
            Check::Version => "version",
        }
    }

    /// What it looks at, for the help.
    pub fn help(self) -> &'static str {
        match self {
            Check::Arch => "the node's architecture is the one in deploy.yaml",
            Check::Systemd => "systemd is the init",
            Check::Tools => "tar, sha256sum and the other programs that the installer runs are there",
            Check::Programs => "what the node's roles run comes with the bundle or is there",
            Check::PackageManager => "dpkg with apt-get, or rpm, is there if packages are to be installed",
            Check::Packages => "every package that a bundled package needs is bundled or installed",
            Check::Transaction => "the node's package manager would install the packages",
            Check::Clock => "the node's clock agrees with this machine's",
            Check::Disk => "every file system has room for what the plan brings",
            Check::ReadOnly => "no file system that is written to is read-only",
            Check::Memory => "there is enough memory for the node's roles",
            Check::Swap => "swap is off, as the kubelet wants it",
            Check::Modules => "the kernel modules that Kubernetes uses are there",
            Check::Cgroups => "control groups are mounted",
            Check::Ports => "the ports of the node's components are free",
            Check::Leftovers => "no other cluster's files or services are there",
            Check::LoadBalancer => "no other nginx serves on the load balancer",
            Check::Hostname => "no two names of deploy.yaml are the same machine",
            Check::ThisMachine => "a node that is this machine itself is safe from its own cleanup",
            Check::Reach => "the nodes reach the masters, etcd members and load balancer",
            Check::Version => "install and join: a cluster that runs has the bundle's version of Kubernetes",
        }
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
        Some(format!("mend them; or, if you know better: --ignore-preflight {}", self.checks.join(",")))
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
        Some(format!("checks: {}", Check::ALL.map(Check::as_str).join(", ")))
    }

    fn exit(&self) -> Exit {
        Exit::Usage
    }
}

/// Reads the names that people give to `--ignore`.
pub fn parse_checks<S: AsRef<str>>(
    names: impl IntoIterator<Item = S>,
) -> Result<BTreeSet<Check>, UnknownCheck> {
    let find = |name: &str| Check::ALL.into_iter().find(|check| check.as_str() == name);
    names
        .into_iter()
        .map(|name| find(name.as_ref()).ok_or_else(|| UnknownCheck(name.as_ref().into())))
        .collect()
}

/// Runs all checks on all nodes.
pub async fn check(
    circumstances: &Circumstances<'_>,
    candidates: &[Candidate<'_>],
    ignore: &BTreeSet<Check>,
) -> Verdict {
    let mut found = Vec::new();
    for candidate in candidates {
        let judged = checks::judge(circumstances, candidate).into_iter();
        found.extend(judged.map(|found| (candidate.host.name.clone(), found)));
    }
    found.extend(checks::judge_together(circumstances.config, candidates));
    found.extend(rehearsal::check(circumstances.heads, candidates).await);
    found.extend(reach::check(circumstances.config, candidates).await);
    let mut findings: Vec<Finding> = found
        .into_iter()
        .map(|(node, Found { check, level, message })| {
            let level = if level == Level::Error && ignore.contains(&check) { Level::Ignored } else { level };
            Finding { node, check, level, message }
        })
        .collect();
    findings.sort_by(|a, b| (a.level, &a.node, a.check).cmp(&(b.level, &b.node, b.check)));
    Verdict { nodes: candidates.len(), findings }
}

#[cfg(test)]
mod tests;
