//! A phase is a name, a title, a help text, a condition and its work. An install *is* a literal
//! list of them, so `--skip` and "only this phase" come from the list itself.
//!
//! The lists live with the operations (install, join, …), the work with the rooms that do it.

pub use crate::failure::{Failure, PhaseError};

use crate::events::Event;
use crate::run::Run;
use eggo_errors::{Exit, Explain, Report};
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
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new("unknown-phase")
    }

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
