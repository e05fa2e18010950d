//! The user's scripts around a cleanup. There is no bundle then: the install kept them on this machine.
//!
//! What is still to run is in the journal before anything is undone, so that a cleanup that is cut
//! off runs every hook when it is repeated, and none twice.

use super::Cleaning;
use crate::blocking::blocking;
use crate::config::{self, Hook, Schedule};
use crate::hooks::{Hooks, step_id};
use crate::journal::{Entry, Record, now};
use crate::node::Node;
use crate::phases::PhaseError;
use crate::run::Named;
use crate::state;
use eggo_errors::Report;

impl Cleaning {
    /// Before anything is undone.
    pub(super) async fn precleanup(&self) -> Result<(), PhaseError> {
        self.note_hooks().await.map_err(PhaseError::Whole)?;
        self.run_hooks(Schedule::Precleanup, &self.nodes(|entries| !entries.is_empty())).await
    }

    /// On nodes of which nothing is left but their hooks.
    pub(super) async fn postcleanup(&self) -> Result<(), PhaseError> {
        let nodes = self.nodes(only_hooks);
        let result = self.run_hooks(Schedule::Postcleanup, &nodes).await;
        if self.run.stop().is_asked() {
            return result;
        }
        for node in nodes.iter().filter(|node| !self.run.has_failed(node.name())) {
            self.strike(node.name()).await.map_err(PhaseError::Whole)?;
        }
        result
    }

    /// Notes which hooks are to run when all else is undone.
    pub(super) async fn note_hooks(&self) -> Result<(), Report> {
        for node in self.nodes(|entries| !entries.is_empty()) {
            for hook in self.following(&node.host) {
                self.note(&node.host, hook).await?;
            }
        }
        Ok(())
    }

    /// Where nothing is left but the records of hooks, and none is still to run, these go as well.
    pub(super) async fn strike_hooks(&self) -> Result<(), Report> {
        for node in self.reached.keys().filter(|node| self.concerns(node) && !self.run.has_failed(node)) {
            let host = self.config.host(node);
            let more = host.is_some_and(|host| self.following(host).next().is_some());
            if !more && only_hooks(&self.entries(node)) {
                self.strike(node).await?;
            }
        }
        Ok(())
    }

    async fn strike(&self, node: &str) -> Result<(), Report> {
        for entry in self.entries(node) {
            let record = Record::Undone { node: entry.node, step: entry.step, at: now() };
            self.run.journal().append(record).await?;
        }
        Ok(())
    }

    fn entries(&self, node: &str) -> Vec<Entry> {
        self.run.journal().entries().into_iter().filter(|entry| entry.node == node).collect()
    }

    /// The nodes of deploy.yaml that were reached and whose entries are as asked.
    fn nodes(&self, asked: impl Fn(&[Entry]) -> bool) -> Vec<Node> {
        let node = |host: &config::Host| {
            let remote = self.reached.get(&host.name)?;
            let meant = self.concerns(&host.name) && asked(&self.entries(&host.name));
            meant.then(|| Node::new(host.clone(), remote.clone()))
        };
        self.config.hosts.iter().filter_map(node).collect()
    }

    fn of<'a>(&'a self, schedule: Schedule, host: &'a config::Host) -> impl Iterator<Item = &'a Hook> {
        self.config.hooks.iter().filter(move |hook| hook.schedule == schedule && host.has(hook.role))
    }

    fn following<'a>(&'a self, host: &'a config::Host) -> impl Iterator<Item = &'a Hook> {
        self.of(Schedule::Postcleanup, host).filter(|_| self.hooks_follow)
    }

    async fn note(&self, host: &config::Host, hook: &Hook) -> Result<(), Report> {
        let (journal, step) = (self.run.journal(), step_id(hook));
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

    async fn run_hooks(&self, schedule: Schedule, nodes: &[Node]) -> Result<(), PhaseError> {
        self.run.on_each(nodes, |node| self.run_on(schedule, node)).await
    }

    async fn run_on(&self, schedule: Schedule, node: &Node) -> Result<(), Report> {
        let hooks = Hooks { config: &self.config, run: &self.run, operator: self.operator };
        for hook in self.of(schedule, &node.host) {
            let (state, name, arch) = (self.state.clone(), hook.name.clone(), node.host.arch);
            let script = blocking(move || state::hook(&state, &name, arch)).await?.ok_or_else(|| {
                Report::new(format!("the hook `{}` was not kept by the install", hook.name))
                    .note(format!("named in deploy.yaml line {}", hook.line))
                    .hinted("go on without hooks: --skip-hooks")
            })?;
            let run = hooks.run_on(&node.host, &*node.remote, hook, script).await;
            run.map_err(|report| {
                report.hinted("fix it and run again, or go on without hooks: --skip-hooks")
            })?;
        }
        Ok(())
    }
}

fn only_hooks(entries: &[Entry]) -> bool {
    !entries.is_empty() && entries.iter().all(Entry::is_hook)
}
