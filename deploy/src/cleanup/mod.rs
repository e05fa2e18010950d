//! The inverse of the journal: what was done is undone, the last first, and nothing else is touched.
//! A node that cannot be reached does not stop it: its entries stay in the journal for the next time.
//! The user's hooks around it are those of [`CleanupHooks`].

mod guard;
mod hooks;
mod incomplete;

pub use guard::removed_folder;
pub use hooks::CleanupHooks;
pub use incomplete::Incomplete;

use crate::events::Event;
use crate::journal::{Entry, Record, now};
use crate::phases::Failure;
use crate::remote::{Command, Host, Script};
use crate::run::{BegunPhase, BegunStep, Run, Step};
use crate::undo::{self, Undo};
use eggo_errors::{Count, Exit, Report};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(1800);

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Loaded images go too.
    pub images: bool,
    /// Nodes that cannot be reached are struck from the journal: they will not come back.
    pub forget_gone: bool,
    /// The user's precleanup and postcleanup hooks do not run.
    pub skip_hooks: bool,
    /// Nodes that are the machine that we run on.
    pub this_machine: BTreeSet<String>,
    /// Only these nodes; empty: all.
    pub only: BTreeSet<String>,
}

/// What a cleanup came to.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Changes that were undone.
    pub undone: usize,
    pub failures: Vec<Failure>,
}

impl Cleaned {
    pub fn report(&self) -> Result<(), Report> {
        if self.failures.is_empty() {
            return Ok(());
        }
        let nodes: BTreeSet<&str> = self.failures.iter().map(|failure| failure.node.as_str()).collect();
        let nodes = Count(nodes.len(), "node", "nodes");
        let mut report = Report::new(format!("{nodes} could not be cleaned up")).code("nodes-failed");
        for failure in &self.failures {
            report = report.note(failure.line());
            report.notes.extend(failure.report.notes.iter().cloned());
        }
        let hint = self.failures.iter().find_map(|failure| failure.report.hint.clone());
        Err(report.exit(Exit::SomeHosts).hinted(hint.unwrap_or_else(|| {
            "run it again when they are back, or with --forget-gone if they will not come back".into()
        })))
    }
}

/// The nodes that can be asked, by name.
pub type Reached = BTreeMap<String, Arc<dyn Host>>;

/// Undoes everything in the journal, but for nodes that have failed before.
pub async fn cleanup(run: &Run, hosts: &Reached, options: &Options) -> Result<Cleaned, Report> {
    let mut cleaned = Cleaned::default();
    let wanted = |entry: &Entry| {
        let chosen = options.only.is_empty() || options.only.contains(&entry.node);
        let ours = !entry.is_hook() || !hosts.contains_key(&entry.node);
        chosen && ours && !run.has_failed(&entry.node)
    };
    for (phase, entries) in backwards(run.journal().entries().into_iter().filter(wanted).collect()) {
        let title = format!("Undo {phase}");
        let begun = BegunPhase::new(run, &phase, &title).map_err(|error| error.report(&title))?;
        let before = cleaned.failures.len();
        let mut jobs = Vec::new();
        for (node, entries) in entries.into_iter().filter(|(node, _)| !run.has_failed(node)) {
            jobs.push(undo_on(run, hosts.get(&node), &phase, node, entries, options));
        }
        let results = run.patiently(&phase, &title, run.limits().each(jobs)).await;
        for (node, undone, failure) in results {
            cleaned.undone += undone;
            run.count_changes(undone);
            if let Some(report) = failure {
                run.mark_failed(&node);
                cleaned.failures.push(Failure { node, report });
            }
        }
        begun.finish(cleaned.failures.len() - before);
    }
    cleaned.failures.sort_by(|a, b| a.node.cmp(&b.node));
    if options.forget_gone {
        let gone: BTreeSet<String> = cleaned
            .failures
            .extract_if(.., |failure| !hosts.contains_key(&failure.node))
            .map(|failure| failure.node)
            .collect();
        for node in gone {
            run.event(Event::warning(Some(&node), "not reached, and struck from the journal"));
            run.journal().append(Record::Forget { node, at: now() }).await?;
        }
    }
    Ok(cleaned)
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

/// All entries of one phase on one node, and whoever watches is told.
async fn undo_on(
    run: &Run,
    host: Option<&Arc<dyn Host>>,
    phase: &str,
    node: String,
    entries: Vec<Entry>,
    options: &Options,
) -> (String, usize, Option<Report>) {
    let Some(host) = host else {
        return (node, 0, Some(Report::new("it cannot be reached").exit(Exit::SomeHosts)));
    };
    if let Err(stopped) = run.stop().check() {
        return (node, 0, Some(stopped));
    }
    let title = format!("undo {}", Count(entries.len(), "change", "changes"));
    let begun = BegunStep::new(run, phase, &node, &Step::new("undo", title));
    let (undone, failure) = undo_all(run, host, &node, &entries, options).await;
    match &failure {
        Some(report) => begun.fail(report),
        None => begun.finish(undone > 0),
    }
    (node, undone, failure)
}

/// In one round trip. Returns how many are undone, and what went wrong with the others.
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
        let command = Command::change(permit, "undo changes", script(entries, options)).timeout(TIMEOUT);
        let output = match host.run(command).await {
            Ok(output) => output,
            Err(error) => return (Vec::new(), Some(error.into())),
        };
        let text = output.text();
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
