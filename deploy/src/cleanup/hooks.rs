//! The user's scripts around a cleanup. No bundle is at hand then: the install kept them on this
//! machine.
//!
//! What is still to run is in the journal before anything is undone, so that a cleanup that is cut
//! off runs every hook when it is repeated, and none twice.

use super::Reached;
use crate::config::{self, Hook, Schedule};
use crate::hooks::{Hooks, step_id};
use crate::journal::{Entry, Record, now};
use crate::phases::{Failure, PhaseError};
use crate::remote::Host;
use crate::run::Named;
use crate::state;
use eggo_errors::Report;
use std::path::Path;

pub struct CleanupHooks<'a> {
    pub hooks: Hooks<'a>,
    /// The cluster's folder on this machine.
    pub state: &'a Path,
    /// None of them runs.
    pub skip: bool,
}

struct Node<'a> {
    host: &'a config::Host,
    remote: &'a dyn Host,
}

impl Named for Node<'_> {
    fn name(&self) -> &str {
        &self.host.name
    }
}

impl CleanupHooks<'_> {
    /// Before anything is undone. A node on which a hook fails is left as it is.
    pub async fn before(&self, hosts: &Reached) -> Result<Vec<Failure>, Report> {
        let nodes = self.nodes(hosts, |entries| !entries.is_empty());
        for node in &nodes {
            for hook in self.of(Schedule::Postcleanup, node.host) {
                self.owe(node.host, hook).await?;
            }
        }
        self.run(Schedule::Precleanup, &nodes).await
    }

    /// On nodes of which nothing is left but their hooks.
    pub async fn after(&self, hosts: &Reached) -> Result<Vec<Failure>, Report> {
        let nodes = self.nodes(hosts, |entries| !entries.is_empty() && entries.iter().all(Entry::is_hook));
        let failures = self.run(Schedule::Postcleanup, &nodes).await?;
        let journal = self.hooks.run.journal();
        for node in nodes.iter().filter(|node| !self.hooks.run.has_failed(node.name())) {
            for entry in journal.entries().into_iter().filter(|entry| entry.node == node.name()) {
                let record = Record::Undone { node: entry.node, step: entry.step, at: now() };
                journal.append(record).await?;
            }
        }
        Ok(failures)
    }

    /// The nodes of deploy.yaml that were reached and whose entries are as asked.
    fn nodes<'a>(&'a self, hosts: &'a Reached, asked: impl Fn(&[Entry]) -> bool) -> Vec<Node<'a>> {
        let entries = self.hooks.run.journal().entries();
        let node = |host: &'a config::Host| {
            let remote = &**hosts.get(&host.name)?;
            let own: Vec<Entry> = entries.iter().filter(|entry| entry.node == host.name).cloned().collect();
            asked(&own).then_some(Node { host, remote })
        };
        self.hooks.config.hosts.iter().filter_map(node).collect()
    }

    fn of<'a>(&'a self, schedule: Schedule, host: &'a config::Host) -> impl Iterator<Item = &'a Hook> {
        let hooks = self.hooks.config.hooks.iter();
        hooks.filter(move |hook| !self.skip && hook.schedule == schedule && host.has(hook.role))
    }

    async fn owe(&self, host: &config::Host, hook: &Hook) -> Result<(), Report> {
        let (journal, step) = (self.hooks.run.journal(), step_id(hook));
        if journal.newest(&host.name, &step).is_some() {
            return Ok(());
        }
        let intent = Record::Intent {
            node: host.name.clone(),
            phase: hook.schedule.to_string(),
            step,
            fingerprint: String::new(),
            undo: Vec::new(),
            at: now(),
        };
        Ok(journal.append(intent).await?)
    }

    async fn run(&self, schedule: Schedule, nodes: &[Node<'_>]) -> Result<Vec<Failure>, Report> {
        let run = self.hooks.run;
        if nodes.iter().all(|node| self.of(schedule, node.host).next().is_none()) {
            return Ok(Vec::new());
        }
        let (phase, title) = (schedule.to_string(), format!("Run {schedule} hooks"));
        let hooks = run.on_each(nodes, |node| self.run_on(schedule, node));
        match run.in_phase(&phase, &title, hooks).await {
            Ok(()) => Ok(Vec::new()),
            Err(PhaseError::Nodes(failures)) if !run.stop().is_asked() => Ok(failures),
            Err(error) => Err(error.report(&title)),
        }
    }

    async fn run_on(&self, schedule: Schedule, node: &Node<'_>) -> Result<(), Report> {
        for hook in self.of(schedule, node.host) {
            let script = state::hook(self.state, &hook.name, node.host.arch)?.ok_or_else(|| {
                Report::new(format!("the hook `{}` was not kept by the install", hook.name))
                    .note(format!("named in deploy.yaml line {}", hook.line))
                    .hinted("go on without hooks: --skip-hooks")
            })?;
            let run = self.hooks.run_on(node.host, node.remote, hook, script).await;
            run.map_err(|report| {
                report.hinted("mend it and run again, or go on without hooks: --skip-hooks")
            })?;
        }
        Ok(())
    }
}
