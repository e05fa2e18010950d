//! A run: the journal and the events around every change to a node.
//!
//! [`Run::step`] is the one way to change a node: the intent and its undo are on disk before the
//! work begins, a step that is done in the same form is skipped, and whoever watches is told. [`Run::undo`]
//! is its inverse. Only their work has a [`Permit`], without which no command changes a node.

mod begun;
mod permit;
mod underway;

pub(crate) use begun::BegunStep;
pub use permit::Permit;

use crate::events::{Event, Sink};
use crate::failure::{Failure, PhaseError};
use crate::journal::{Approval, Entry, Journal, JournalError, Record, now};
use crate::limits::Limits;
use crate::stop::{Stop, is_stopped};
use crate::undo::Undo;
use eggo_errors::{Exit, Report};
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// What the journal and the watchers see of one run of the program.
pub struct Run {
    journal: Journal,
    events: Arc<dyn Sink>,
    stop: Stop,
    limits: Limits,
    board: underway::Board,
    phase: Mutex<String>,
    failed: Mutex<BTreeSet<String>>,
    changed: AtomicUsize,
    command: OnceLock<&'static str>,
}

/// A change to one node, small enough to be repeated whole when it was interrupted.
#[derive(Debug, Clone)]
pub struct Step {
    /// Unique per node: `etcd/unit`.
    pub id: String,
    /// As an infinitive: `write the etcd unit`.
    pub title: String,
    /// Everything the outcome depends on; another fingerprint runs the step again.
    pub fingerprint: String,
    pub undo: Vec<Undo>,
    /// Whether the journal's word suffices to skip it. If not, the work looks itself and says
    /// whether it changed anything.
    pub trusts_journal: bool,
    pub when_stopped: WhenStopped,
}

/// What becomes of a step when a stop is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenStopped {
    /// It does not begin; under way, it is waited for.
    Usual,
    /// It does not begin, and is given up where it is: what it has done counts, and it goes on there.
    GivenUp,
    /// It begins nevertheless: it takes back what an earlier one did for a while.
    Done,
}

impl Step {
    pub fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            fingerprint: String::new(),
            undo: Vec::new(),
            trusts_journal: true,
            when_stopped: WhenStopped::Usual,
        }
    }

    pub fn fingerprint(mut self, fingerprint: impl Into<String>) -> Self {
        self.fingerprint = fingerprint.into();
        self
    }

    /// The digest of everything in `parts` as fingerprint. Safe to journal even if a part is secret.
    pub fn fingerprint_of<T: AsRef<[u8]>>(mut self, parts: impl IntoIterator<Item = T>) -> Self {
        let mut hasher = eggo_bundles::digest::Hasher::new();
        for part in parts {
            let part = part.as_ref();
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        self.fingerprint = hasher.finish().hex();
        self
    }

    pub fn undo(mut self, undo: Undo) -> Self {
        self.undo.push(undo);
        self
    }

    pub fn undo_all(mut self, undo: impl IntoIterator<Item = Undo>) -> Self {
        self.undo.extend(undo);
        self
    }

    /// The work always runs and finds out itself whether there is anything to do.
    pub fn always(mut self) -> Self {
        self.trusts_journal = false;
        self
    }

    pub fn when_stopped(mut self, what: WhenStopped) -> Self {
        self.when_stopped = what;
        self
    }
}

/// Whether a step changed its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Changed,
    Unchanged,
}

impl Outcome {
    pub fn changed_if(changed: bool) -> Self {
        if changed { Self::Changed } else { Self::Unchanged }
    }
}

impl Run {
    pub fn new(journal: Journal, events: Arc<dyn Sink>) -> Self {
        Self {
            journal,
            events,
            stop: Stop::default(),
            limits: Limits::default(),
            board: underway::Board::default(),
            phase: Mutex::default(),
            failed: Mutex::default(),
            changed: AtomicUsize::new(0),
            command: OnceLock::new(),
        }
    }

    /// The same, that ends early when `stop` is asked to.
    pub fn stopped_by(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// The same, within these limits.
    pub fn limited(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    pub fn into_journal(self) -> Journal {
        self.journal
    }

    pub fn event(&self, event: Event) {
        self.board.see(&event);
        self.events.event(event);
    }

    pub fn events(&self) -> &Arc<dyn Sink> {
        &self.events
    }

    /// How many changes were made so far: steps that changed a node, and what was made on this machine.
    pub fn changed(&self) -> usize {
        self.changed.load(Ordering::Relaxed)
    }

    /// Work outside of steps that made so many changes.
    pub fn count_changes(&self, changes: usize) {
        self.changed.fetch_add(changes, Ordering::Relaxed);
    }

    /// Whether an earlier phase failed on `node`; later ones leave it alone.
    pub fn has_failed(&self, node: &str) -> bool {
        self.failed.lock().expect("no panic while locked").contains(node)
    }

    pub fn mark_failed(&self, node: &str) {
        self.failed.lock().expect("no panic while locked").insert(node.to_string());
    }

    /// Later phases leave the failed nodes alone; one that was only asked to stop has not failed.
    pub(crate) fn leave_out(&self, failures: &[Failure]) {
        for failure in failures.iter().filter(|failure| !is_stopped(&failure.report)) {
            self.mark_failed(&failure.node);
        }
    }

    fn enter(&self, phase: &str) {
        *self.phase.lock().expect("no panic while locked") = phase.to_string();
    }

    pub(crate) fn phase(&self) -> String {
        self.phase.lock().expect("no panic while locked").clone()
    }

    /// Does `work` on `node`, unless the journal says that it is done in the same form.
    pub async fn step<F, W>(&self, node: &str, step: Step, work: F) -> Result<Outcome, Report>
    where
        F: FnOnce(Permit) -> W,
        W: Future<Output = Result<Outcome, Report>>,
    {
        let known = self.journal.is_done(node, &step.id, &step.fingerprint);
        if known && step.trusts_journal {
            return Ok(Outcome::Unchanged);
        }
        if step.when_stopped != WhenStopped::Done {
            self.stop.check()?;
        }
        let phase = self.phase();
        let begun = BegunStep::new(self, &phase, node, &step);
        let done = async {
            let (id, node) = (step.id, node.to_string());
            if !known {
                let (step, fingerprint, undo) = (id.clone(), step.fingerprint, step.undo);
                let intent = Record::Intent { node: node.clone(), phase, step, fingerprint, undo, at: now() };
                self.journal.append(intent).await?;
            }
            let outcome = work(Permit::granted()).await?;
            if !known {
                self.journal.append(Record::Done { node, step: id, at: now() }).await?;
            }
            Ok(outcome)
        };
        match done.await {
            Ok(outcome) => {
                let changed = outcome == Outcome::Changed;
                self.changed.fetch_add(usize::from(changed), Ordering::Relaxed);
                begun.finish(changed);
                Ok(outcome)
            }
            Err(report) => {
                begun.fail(&report);
                Err(report)
            }
        }
    }

    /// A step that is also asked for what it says, and therefore always runs.
    pub async fn step_for<T, F, W>(&self, node: &str, step: Step, work: F) -> Result<T, Report>
    where
        F: FnOnce(Permit) -> W,
        W: Future<Output = Result<(Outcome, T), Report>>,
    {
        let mut said = None;
        let saying = async |permit| {
            let (outcome, answer) = work(permit).await?;
            said = Some(answer);
            Ok(outcome)
        };
        self.step(node, step.always(), saying).await?;
        said.ok_or_else(|| Report::new("a step ended without a word").exit(Exit::Bug))
    }

    /// The inverse of steps. `work` undoes some on `node`, and returns the ids of those that it undid, with what went
    /// wrong with the others. The undone ones are removed from the journal; returns how many those are.
    pub async fn undo<F, W>(&self, node: &str, work: F) -> (usize, Option<Report>)
    where
        F: FnOnce(Permit) -> W,
        W: Future<Output = (Vec<String>, Option<Report>)>,
    {
        let (steps, failure) = work(Permit::granted()).await;
        let mut undone = 0;
        for step in steps {
            let record = Record::Undone { node: node.into(), step, at: now() };
            if let Err(error) = self.journal.append(record).await {
                return (undone, Some(error.into()));
            }
            undone += 1;
        }
        (undone, failure)
    }

    /// What `step` did on `node` is about to change by other means: it counts as begun, so that the next
    /// run does it again and a cleanup still undoes it.
    pub async fn reopen(&self, node: &str, step: &str) -> Result<(), JournalError> {
        let Some(entry) = self.journal.newest(node, step) else { return Ok(()) };
        let Entry { node, phase, step, fingerprint, undo, .. } = entry;
        self.journal.append(Record::Intent { node, phase, step, fingerprint, undo, at: now() }).await
    }

    /// Does `work` for every one of `nodes` that has not failed yet, as many at once as the limits say.
    /// One node's failure does not stop the others; all failures come back together.
    pub async fn on_each<'a, T, F, W>(&self, nodes: &'a [T], work: F) -> Result<(), PhaseError>
    where
        T: Named,
        F: Fn(&'a T) -> W,
        W: Future<Output = Result<(), Report>>,
    {
        // Collected, because a lazy iterator held over an await confuses the compiler about `Send`.
        let mut jobs = Vec::new();
        for node in nodes.iter().filter(|node| !self.has_failed(node.name())) {
            let (name, work) = (node.name().to_string(), work(node));
            jobs.push(async move { work.await.map_err(|report| Failure { node: name, report }) });
        }
        let results = self.limits.each(jobs).await;
        let mut failures: Vec<Failure> = results.into_iter().filter_map(Result::err).collect();
        if failures.is_empty() {
            return Ok(());
        }
        failures.sort_by(|a, b| a.node.cmp(&b.node));
        self.leave_out(&failures);
        Err(PhaseError::Nodes(failures))
    }

    /// The command that the user gave: deploy, join, upgrade.
    pub fn command(&self) -> &'static str {
        self.command.get().copied().unwrap_or("deploy")
    }

    /// A record that a command begins that installs something. Hooks around an earlier cleanup, which was cut
    /// off then, have yet to run again when the next one comes.
    pub async fn begin(
        &self,
        command: &'static str,
        bundle: Option<String>,
        plan: Option<Approval>,
    ) -> Result<(), JournalError> {
        self.command.get_or_init(|| command);
        for Entry { node, step, .. } in self.journal.entries().into_iter().filter(Entry::is_hook) {
            self.journal.append(Record::Undone { node, step, at: now() }).await?;
        }
        self.journal.append(Record::begin(command, bundle, plan)).await
    }
}

/// Something with a node's name.
pub trait Named {
    fn name(&self) -> &str;
}

impl<T: Named + ?Sized> Named for &T {
    fn name(&self) -> &str {
        (**self).name()
    }
}

impl<T: Named + ?Sized> Named for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }
}
