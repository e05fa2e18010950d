//! The inverse of the journal: what was done is undone, the last first, and nothing else is touched.
//! A node that cannot be reached does not stop it: its entries stay in the journal for the next time.

mod guard;
mod hooks;
mod incomplete;
pub mod phases;

pub use guard::removed_folder;
pub use incomplete::Incomplete;

use crate::claim::{Claim, HELD, MARK};
use crate::config::Config;
use crate::events::Event;
use crate::journal::{Entry, Record, now};
use crate::phases::{Failure, PhaseError};
use crate::remote::{Command, Host, Script};
use crate::run::{BegunStep, Run, Step};
use crate::undo::{self, Undo};
use eggo_errors::{Count, Exit, Report};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(1800);

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Loaded images go too.
    pub images: bool,
    /// Nodes that cannot be reached, or are another's by now, are removed from the journal: they will not come back.
    pub forget_gone: bool,
    /// Nodes that are the machine that we run on.
    pub this_machine: BTreeSet<String>,
    /// Only these nodes; empty: all.
    pub only: BTreeSet<String>,
}

/// What the phases of this room work on.
pub struct Cleaning {
    pub config: Arc<Config>,
    pub run: Arc<Run>,
    /// The cluster's folder on this machine.
    pub state: PathBuf,
    pub reached: Reached,
    pub options: Options,
    /// The command that the user gave: cleanup, delete.
    pub operator: &'static str,
    /// The phase of the postcleanup hooks comes later: what is still to run then is noted in the journal.
    pub hooks_follow: bool,
    /// The titles of the phases that the journal names.
    pub titles: Titles,
    /// Changes that were undone so far.
    pub undone: AtomicUsize,
}

/// By the names of phases.
pub type Titles = BTreeMap<&'static str, &'static str>;

/// The nodes that can be asked, by name.
pub type Reached = BTreeMap<String, Arc<dyn Host>>;

impl Cleaning {
    /// Undoes everything in the journal, but for nodes that have failed before.
    pub(super) async fn undo(&self) -> Result<(), PhaseError> {
        self.note_hooks().await.map_err(PhaseError::Whole)?;
        let gone = self.gone();
        let mut failures: Vec<Failure> = Vec::new();
        let wanted = |entry: &Entry| self.concerns(&entry.node) && !entry.is_hook();
        for (phase, entries) in backwards(self.run.journal().entries().into_iter().filter(wanted).collect()) {
            let mut jobs = Vec::new();
            for (node, entries) in entries {
                if let Some(host) = self.reached.get(&node).filter(|_| !self.run.has_failed(&node)) {
                    jobs.push(self.undo_on(host, &phase, node, entries));
                }
            }
            let results = self.run.limits().each(jobs).await;
            let failed: Vec<Failure> = results.into_iter().filter_map(Result::err).collect();
            self.run.leave_out(&failed);
            failures.extend(failed);
        }
        self.strike_hooks().await.map_err(PhaseError::Whole)?;
        if self.options.forget_gone {
            for node in gone {
                self.run.event(Event::warning(Some(&node), "not reached, and removed from the journal"));
                self.run.journal().append(Record::Forget { node, at: now() }).await?;
            }
        } else {
            let hint = "run it again when they are back, or with `--forget-gone` if they will not come back";
            let unreached = |node| Failure {
                node,
                report: Report::new("it cannot be reached").exit(Exit::SomeHosts).hinted(hint),
            };
            let unreached: Vec<Failure> = gone.into_iter().map(unreached).collect();
            self.run.leave_out(&unreached);
            failures.extend(unreached);
        }
        failures.sort_by(|a, b| a.node.cmp(&b.node));
        if failures.is_empty() { Ok(()) } else { Err(PhaseError::Nodes(failures)) }
    }

    fn concerns(&self, node: &str) -> bool {
        self.options.only.is_empty() || self.options.only.contains(node)
    }

    /// Nodes with something to undo that cannot be reached.
    fn gone(&self) -> BTreeSet<String> {
        let nodes = self.run.journal().entries().into_iter().map(|entry| entry.node);
        nodes.filter(|node| self.concerns(node) && !self.reached.contains_key(node)).collect()
    }

    /// All entries of one phase on one node, and whoever watches is told.
    async fn undo_on(
        &self,
        host: &Arc<dyn Host>,
        phase: &str,
        node: String,
        entries: Vec<Entry>,
    ) -> Result<(), Failure> {
        if let Err(report) = self.run.stop().check() {
            return Err(Failure { node, report });
        }
        let title = self.titles.get(phase).map_or_else(|| phase.to_string(), |title| format!("`{title}`"));
        let title = format!("undo {title}: {}", Count(entries.len(), "change", "changes"));
        let begun = BegunStep::new(&self.run, &self.run.phase(), &node, &Step::new(phase, title));
        let (undone, failure) = undo_all(&self.run, host, &node, &entries, &self.options).await;
        self.undone.fetch_add(undone, Ordering::Relaxed);
        self.run.count_changes(undone);
        match failure {
            None => {
                begun.finish(undone > 0);
                Ok(())
            }
            Some(report) if self.options.forget_gone && report.code == HELD => {
                begun.finish(undone > 0);
                let text = format!("{}, and removed from the journal", report.message);
                self.run.event(Event::warning(Some(&node), text));
                self.run.mark_failed(&node);
                let forgotten = Record::Forget { node: node.clone(), at: now() };
                let forgotten = self.run.journal().append(forgotten).await;
                forgotten.map_err(|error| Failure { node, report: error.into() })
            }
            Some(report) => {
                begun.fail(&report);
                Err(Failure { node, report })
            }
        }
    }
}

type ByNode = BTreeMap<String, Vec<Entry>>;

/// Phases in the order in which they first began, the last one first; within each, every node's entries
/// with the last one first.
fn backwards(entries: Vec<Entry>) -> Vec<(String, ByNode)> {
    let mut phases: Vec<(String, ByNode)> = Vec::new();
    for entry in &entries {
        if !phases.iter().any(|(phase, _)| *phase == entry.phase) {
            phases.insert(0, (entry.phase.clone(), ByNode::new()));
        }
    }
    for entry in entries.into_iter().rev() {
        if let Some((_, nodes)) = phases.iter_mut().find(|(phase, _)| *phase == entry.phase) {
            nodes.entry(entry.node.clone()).or_default().push(entry);
        }
    }
    phases
}

/// In one round trip. How many are undone, and what went wrong with the others.
async fn undo_all(
    run: &Run,
    host: &Arc<dyn Host>,
    node: &str,
    entries: &[Entry],
    options: &Options,
) -> (usize, Option<Report>) {
    if options.this_machine.contains(node)
        && let Err(report) = guard::refuse_own_state(entries, run.journal().folder())
    {
        return (0, Some(report));
    }
    let work = async |permit| {
        let own_mark = run.journal().mark(node).unwrap_or_default();
        let script = script(entries, options).after(include_str!("held.sh")).set("CLAIM", MARK);
        let script = script.set("OWN_MARK", own_mark);
        let command = Command::change(permit, "undo changes", script).timeout(TIMEOUT);
        let output = match host.run(command).await {
            Ok(output) => output,
            Err(error) => return (Vec::new(), Some(error.into())),
        };
        let text = output.text();
        if let Some(claim) = text.strip_prefix("@held\n") {
            return (Vec::new(), Some(held(claim)));
        }
        let failed: BTreeSet<usize> =
            text.lines().filter_map(|line| line.strip_prefix("@failed ")?.parse().ok()).collect();
        let undone = entries.iter().enumerate().filter(|(at, _)| !failed.contains(at));
        let undone = undone.map(|(_, entry)| entry.step.clone()).collect();
        let failure = (!failed.is_empty()).then(|| {
            let steps: Vec<&str> =
                failed.iter().filter_map(|at| Some(entries.get(*at)?.step.as_str())).collect();
            let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
            let report = Report::new(format!("could not undo {}", steps.join(", "))).exit(Exit::SomeHosts);
            if said.is_empty() { report } else { report.note(said) }
        });
        (undone, failure)
    };
    run.undo(node, work).await
}

/// Another has taken the node over, or has claimed it after it was reinstalled.
fn held(claim: &str) -> Report {
    let claim = Claim::parse(&claim.lines().collect::<Vec<_>>()).unwrap_or_default();
    let hint = "what it has is not removed; run it again when the node is yours, or with `--forget-gone` to leave it to its holder";
    let mut report = Report::new(format!("now {claim}")).exit(Exit::SomeHosts).hinted(hint);
    report.code = HELD;
    report
}

/// The actions of each entry, the last one first.
fn script(entries: &[Entry], options: &Options) -> Script {
    let wanted = |undo: &&Undo| options.images || !matches!(undo, Undo::Images { .. });
    let merged: Vec<Vec<Undo>> = entries.iter().map(|entry| together(&entry.undo)).collect();
    undo::undoing(merged.iter().map(|undo| undo.iter().rev().filter(wanted).collect()))
}

/// With all packages in one: those of a later run may need those of an earlier one, and the other way about.
fn together(undo: &[Undo]) -> Vec<Undo> {
    let mut merged: Vec<Undo> = Vec::new();
    for one in undo {
        let known = merged.iter_mut().find_map(|known| match (known, one) {
            (Undo::Packages { manager, names }, Undo::Packages { manager: same, names: more })
                if manager == same =>
            {
                Some((names, more))
            }
            _ => None,
        });
        match known {
            Some((names, more)) => names.extend(more.iter().cloned()),
            None => merged.push(one.clone()),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
