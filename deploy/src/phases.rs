//! A phase is a name, a title, a help text, a condition and its work. An install *is* a literal
//! list of them, so `--skip` and "only this phase" come from the list itself.
//!
//! The lists live with the operations (install, join, …), the work with the rooms that do it.

use crate::events::Event;
use crate::run::Run;
use crate::stop::is_stopped;
use eggo_errors::{Count, Exit, Explain, Report};
use futures::future::BoxFuture;
use std::collections::BTreeSet;

/// One entry of the list; `C` is what all phases of a list work on.
pub struct Phase<C> {
    /// For `--skip` and `--only`: `packages`.
    pub name: &'static str,
    /// A verb: `Install packages`.
    pub title: &'static str,
    pub help: &'static str,
    /// Whether there is anything to do for it in this cluster.
    pub run_if: fn(&C) -> bool,
    pub run: for<'a> fn(&'a C) -> BoxFuture<'a, Result<(), PhaseError>>,
    /// What the failure of some nodes means for the phases after it.
    pub on_failure: OnFailure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing after it can work.
    Stop,
    /// The phases after it go on without the failed nodes.
    GoOn,
}

/// What failed on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub node: String,
    pub report: Report,
}

impl Failure {
    /// What happened, the node first.
    pub fn line(&self) -> String {
        let prefix = format!("{}: ", self.node);
        let message = &self.report.message;
        if message.starts_with(&prefix) { message.clone() } else { prefix + message }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PhaseError {
    /// Not the fault of any one node.
    Whole(Report),
    Nodes(Vec<Failure>),
}

impl<E: Explain> From<E> for PhaseError {
    fn from(error: E) -> Self {
        Self::Whole(error.into())
    }
}

impl PhaseError {
    /// One report for all: one line per node, the node first.
    pub fn report(&self, title: &str) -> Report {
        match self {
            Self::Whole(report) => report.clone(),
            Self::Nodes(failures) => {
                // Then it is the bundle that failed, on whichever nodes it showed.
                if let Some(refused) = failures.iter().find(|failure| failure.report.exit == Exit::Untrusted)
                {
                    return refused.report.clone();
                }
                // The others were only asked to stop.
                let failures: Vec<&Failure> = match failures.iter().find(|one| !is_stopped(&one.report)) {
                    Some(_) => failures.iter().filter(|one| !is_stopped(&one.report)).collect(),
                    None => match failures.first() {
                        Some(stopped) => return stopped.report.clone(),
                        None => Vec::new(),
                    },
                };
                let nodes = Count(failures.len(), "node", "nodes");
                let mut report = Report::new(format!("`{title}` failed on {nodes}")).exit(Exit::SomeHosts);
                for failure in &failures {
                    report = report.note(failure.line());
                    for note in &failure.report.notes {
                        report = report.note(
                            note.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"),
                        );
                    }
                }
                let hint = failures.iter().find_map(|failure| failure.report.hint.clone());
                report.hinted(hint.unwrap_or_else(|| {
                    "mend what is named above and run the same command again: it goes on where it stopped"
                        .into()
                }))
            }
        }
    }
}

/// Which phases of the list to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    pub skip: BTreeSet<String>,
    /// Empty: all.
    pub only: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no phase `{name}`")]
pub struct UnknownPhase {
    name: String,
    known: Vec<&'static str>,
}

impl Explain for UnknownPhase {
    fn hint(&self) -> Option<String> {
        Some(format!("phases, in order: {}", self.known.join(", ")))
    }

    fn exit(&self) -> Exit {
        Exit::Usage
    }
}

impl Selection {
    fn wants(&self, name: &str) -> bool {
        !self.skip.contains(name) && (self.only.is_empty() || self.only.contains(name))
    }

    /// Refuses names that no phase has.
    pub fn check<C>(&self, phases: &[Phase<C>]) -> Result<(), UnknownPhase> {
        let known: Vec<&'static str> = phases.iter().map(|phase| phase.name).collect();
        match self.skip.union(&self.only).find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(UnknownPhase { name: name.clone(), known }),
            None => Ok(()),
        }
    }
}

/// Runs the list in order. Nodes that fail in a phase that goes on are left out of the rest and
/// reported at the end.
pub async fn run_list<C>(
    phases: &[Phase<C>],
    selection: &Selection,
    run: &Run,
    context: &C,
) -> Result<(), Report> {
    selection.check(phases)?;
    let mut earlier: Option<Report> = None;
    for phase in phases {
        let (name, title) = (phase.name.to_string(), phase.title.to_string());
        if !selection.wants(phase.name) || !(phase.run_if)(context) {
            run.event(Event::PhaseSkipped { phase: name, title });
            continue;
        }
        let result = run.in_phase(phase.name, phase.title, (phase.run)(context)).await;
        if let Err(error) = result {
            let report = error.report(phase.title);
            let hopeless = matches!(error, PhaseError::Whole(_))
                || report.exit == Exit::Untrusted
                || run.stop().is_asked();
            if phase.on_failure == OnFailure::Stop || hopeless {
                return Err(join(earlier, report));
            }
            earlier = Some(join(earlier, report));
        }
    }
    earlier.map_or(Ok(()), Err)
}

/// Nodes that failed earlier are not forgotten over the later failure.
fn join(earlier: Option<Report>, mut report: Report) -> Report {
    let Some(earlier) = earlier else { return report };
    report.notes.push(format!("earlier: {}", earlier.message));
    report.notes.extend(earlier.notes);
    report
}

#[cfg(test)]
mod tests;
