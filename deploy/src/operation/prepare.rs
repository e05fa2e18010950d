//! What an operation would do, decided and not begun: one value, which can be shown, kept, sent, and approved by
//! somebody else.

use super::request::Options;
use crate::cluster::upgrade;
use crate::config::{Config, Hook};
use crate::events::Operation;
use crate::journal::Approval;
use crate::packages::Versions;
use crate::plan::{NodePlan, Plan};
use crate::preflight::{Check, Level, Verdict};
use eggo_bundles::digest::Hasher;
use eggo_bundles::{Arch, Digest, Index, Role};
use eggo_errors::Report;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

/// The plan with the packages of every node, what the checks found, and a digest of all that decides what will be
/// done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    #[serde(flatten)]
    pub plan: Plan,
    pub operation: Operation,
    pub options: Options,
    pub made_from: MadeFrom,
    /// Which version every node runs now, where they are to get another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<upgrade::Plan>,
    pub verdict: Verdict,
    /// Of everything above, but for what changes by itself: clocks, free space, how much is still to be sent.
    pub digest: Digest,
}

/// Another deploy.yaml or another bundle is another plan, whatever the difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeFrom {
    /// Its name and version.
    pub bundle: String,
    /// Of all that the bundle lists.
    pub index: Digest,
    /// Of deploy.yaml, without how to log in.
    pub config: Digest,
}

impl Prepared {
    pub(super) fn new(
        options: Options,
        made_from: MadeFrom,
        plan: Plan,
        upgrade: Option<upgrade::Plan>,
        verdict: Verdict,
    ) -> Result<Self, Report> {
        let (operation, digest) = (options.goal.operation(), Digest::of(b""));
        let mut prepared = Self { plan, operation, options, made_from, upgrade, verdict, digest };
        prepared.digest = prepared.approval()?.digest;
        Ok(prepared)
    }

    /// What it means to approve it.
    pub(super) fn approval(&self) -> Result<Approval, Report> {
        let nodes = self.plan.nodes.iter();
        let target = digest_of(&Target {
            operation: self.operation,
            options: &self.options,
            made_from: &self.made_from,
            nodes: nodes.clone().map(Wanted::of).collect(),
        })?;
        let counts = self.verdict.findings.iter().filter(|finding| finding.level != Level::Warning);
        let digest = digest_of(&Way {
            target,
            upgrade: self.upgrade.as_ref(),
            packages: nodes.map(packages).collect(),
            findings: counts.map(|finding| (&*finding.node, finding.check, finding.level)).collect(),
        })?;
        Ok(Approval { digest, target })
    }

    /// An error if it is not as it was written: what somebody has looked at is not what its digest stands for.
    pub fn check(&self) -> Result<(), Report> {
        if self.approval()?.digest == self.digest {
            return Ok(());
        }
        Err(Report::new("the prepared plan does not match its own digest")
            .code("plan-damaged")
            .hinted("prepare it again, and keep it as it was written"))
    }
}

impl MadeFrom {
    pub(super) fn new(config: &Config, index: &Index) -> Result<Self, Report> {
        let mut config = config.clone();
        // Whoever approves may log in by other means than whoever runs it.
        (config.login.user, config.login.private_key) = (String::new(), None);
        for host in &mut config.hosts {
            (host.user, host.private_key, host.host_key, host.jump) = (None, None, None, None);
        }
        let bundle = format!("{} {}", index.name, index.version);
        Ok(Self { bundle, index: digest_of(index)?, config: digest_of(&config)? })
    }
}

/// What is to be in the end, wherever the nodes start from.
#[derive(Serialize)]
struct Target<'a> {
    operation: Operation,
    options: &'a Options,
    made_from: &'a MadeFrom,
    nodes: Vec<Wanted<'a>>,
}

/// The part of a node's plan that does not depend on what the node has.
#[derive(Serialize)]
struct Wanted<'a> {
    name: &'a str,
    ip: IpAddr,
    arch: Arch,
    roles: &'a [Role],
    items: Vec<(&'a str, Digest, Option<&'a str>)>,
    repo_packages: &'a [String],
    hooks: &'a [Hook],
    steps: &'a [String],
}

impl<'a> Wanted<'a> {
    fn of(node: &'a NodePlan) -> Self {
        let items = node.items.iter();
        Self {
            name: &node.name,
            ip: node.ip,
            arch: node.arch,
            roles: &node.roles,
            items: items.map(|one| (&*one.item.path, one.item.sha256, one.dst.as_deref())).collect(),
            repo_packages: &node.repo_packages,
            hooks: &node.hooks,
            steps: &node.steps,
        }
    }
}

/// How the nodes get there from where they are.
#[derive(Serialize)]
struct Way<'a> {
    target: Digest,
    upgrade: Option<&'a upgrade::Plan>,
    /// Of each node: what is new, and what is upgraded. What is kept changes nothing.
    packages: Vec<Option<(&'a [Versions], &'a [Versions])>>,
    /// Without their words, which may have figures in them; warnings change nothing.
    findings: BTreeSet<(&'a str, Check, Level)>,
}

fn packages(node: &NodePlan) -> Option<(&[Versions], &[Versions])> {
    node.packages.as_ref().map(|transaction| (&*transaction.new, &*transaction.upgraded))
}

/// Of a value as JSON.
fn digest_of(value: &impl Serialize) -> Result<Digest, Report> {
    struct Into(Hasher);
    impl io::Write for Into {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut into = Into(Hasher::new());
    serde_json::to_writer(&mut into, value).map_err(|error| Report::new(error.to_string()))?;
    Ok(into.0.finish())
}
