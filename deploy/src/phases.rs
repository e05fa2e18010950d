//! A phase is a name, a title, a help text, what it applies to, and its work. An operation *is* a literal
//! list of them: `--skip` and `--only`, their help, the steps of each node's plan, and what is shown of a
//! run all come from the list itself.
//!
//! The lists live with the operations (install, upgrade, …), the work with the rooms that do it.

pub use crate::failure::{Failure, PhaseError};

use crate::config::{Config, Host};
use crate::events::Event;
use crate::plan::{NodePlan, Plan, Step};
use crate::run::Run;
use eggo_errors::{Exit, Explain, Report};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One entry of the list; `C` is what all phases of a list work on.
pub struct Phase<C> {
    /// For `--skip` and `--only`: `packages`.
    pub name: &'static str,
    /// A verb: `Install packages`.
    pub title: &'static str,
    pub help: &'static str,
    /// Where there is nothing that it applies to, it is skipped.
    pub applies: Applies,
    /// Phases before it that it relies on: it cannot be selected without them.
    pub needs: &'static [&'static str],
    pub run: for<'a> fn(&'a C) -> BoxFuture<'a, Result<(), PhaseError>>,
    /// What the failure of some nodes means for the phases after it.
    pub on_failure: OnFailure,
}

/// What a phase applies to. What is decided here is also what the plan names as a node's steps.
#[derive(Clone, Copy)]
pub enum Applies {
    /// This machine, or the cluster as a whole, if this is so: no node's step.
    Cluster(fn(&Config) -> bool),
    /// Each host for which this is so.
    Hosts(fn(&Config, &Host) -> bool),
    /// Each host for which this is so, and none without the others: once one of them has failed, the phase is not run.
    Together(fn(&Config, &Host) -> bool),
    /// Each node for whose plan this is so.
    Content(fn(&Config, &NodePlan) -> bool),
}

impl Applies {
    /// Whatever the cluster is like.
    pub const ALWAYS: Self = Self::Cluster(|_| true);
    /// Every node.
    pub const EVERYWHERE: Self = Self::Hosts(|_, _| true);

    fn to_node(self, config: &Config, host: &Host, plan: Option<&NodePlan>) -> bool {
        match self {
            Self::Cluster(_) => false,
            Self::Hosts(applies) | Self::Together(applies) => applies(config, host),
            Self::Content(applies) => plan.is_some_and(|plan| applies(config, plan)),
        }
    }

    /// Whether there is anything to do for it.
    fn to_any(self, scene: Scene<'_>) -> bool {
        if let Self::Cluster(applies) = self {
            return applies(scene.config);
        }
        let plan = |host: &Host| scene.plan?.node(&host.name);
        scene.hosts.iter().any(|host| self.to_node(scene.config, host, plan(host)))
    }

    /// The nodes that it cannot do without, and that have failed.
    fn missing<'a>(self, scene: Scene<'a>) -> Vec<&'a str> {
        let Self::Together(applies) = self else { return Vec::new() };
        let hosts = scene.hosts.iter().filter(|host| applies(scene.config, host));
        hosts.map(|host| host.name.as_str()).filter(|name| scene.run.has_failed(name)).collect()
    }
}

/// What all phases of a list work on.
pub trait Context {
    fn scene(&self) -> Scene<'_>;
}

/// What is asked of a context to decide which phases apply, and to tell of them.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub run: &'a Run,
    pub config: &'a Config,
    /// The hosts that the operation is about.
    pub hosts: &'a [Host],
    /// What they are to get, if they get anything.
    pub plan: Option<&'a Plan>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing after it can work.
    Stop,
    /// The phases after it go on without the failed nodes.
    GoOn,
}

/// Which phases of the list to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    pub skip: BTreeSet<String>,
    /// Empty: all.
    pub only: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    #[error("there is no phase `{name}`")]
    Unknown { name: String, known: Vec<&'static str> },
    #[error("the phase `{name}` needs {}, which would be left out", quoted(.needs))]
    Needs { name: &'static str, needs: Vec<&'static str> },
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

impl Explain for SelectionError {
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new(match self {
            Self::Unknown { .. } => "unknown-phase",
            Self::Needs { .. } => "phase-needed",
        })
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { known, .. } => format!("phases, in order: {}", known.join(", ")),
            Self::Needs { name, needs } => {
                format!("select {} too, or leave `{name}` out as well", quoted(needs))
            }
        })
    }

    fn exit(&self) -> Exit {
        Exit::Usage
    }
}

impl Selection {
    pub fn wants(&self, name: &str) -> bool {
        !self.skip.contains(name) && (self.only.is_empty() || self.only.contains(name))
    }

    /// Refuses names that no phase has, and a phase without another that it needs.
    pub fn check<C>(&self, phases: &[Phase<C>]) -> Result<(), SelectionError> {
        let known: Vec<&'static str> = phases.iter().map(|phase| phase.name).collect();
        if let Some(name) = self.skip.union(&self.only).find(|name| !known.contains(&name.as_str())) {
            return Err(SelectionError::Unknown { name: name.clone(), known });
        }
        for phase in phases.iter().filter(|phase| self.wants(phase.name)) {
            let missing = phase.needs.iter().copied().filter(|name| !self.wants(name));
            let needs: Vec<&'static str> = missing.collect();
            if !needs.is_empty() {
                return Err(SelectionError::Needs { name: phase.name, needs });
            }
        }
        Ok(())
    }
}

/// The names of the phases that one node goes through, in order.
pub fn steps<C>(
    phases: &[Phase<C>],
    selection: &Selection,
    config: &Config,
    host: &Host,
    plan: &NodePlan,
) -> Vec<Step> {
    let wanted = phases.iter().filter(|phase| selection.wants(phase.name));
    let own = wanted.filter(|phase| phase.applies.to_node(config, host, Some(plan)));
    own.map(|phase| phase.name.to_string()).collect()
}

/// What a person reads of a list: each name and what it does.
pub fn described<C>(phases: &[Phase<C>]) -> Vec<(&'static str, &'static str)> {
    phases.iter().map(|phase| (phase.name, phase.help)).collect()
}

/// The title of each phase, by its name.
pub fn titles_of<C>(phases: &[Phase<C>]) -> impl Iterator<Item = (&'static str, &'static str)> {
    phases.iter().map(|phase| (phase.name, phase.title))
}

/// Runs the list in order. Nodes that fail in a phase that goes on are left out of the rest and
/// reported at the end. A phase that cannot do without one of them ends the list.
pub async fn run_list<C: Context>(
    phases: &[Phase<C>],
    selection: &Selection,
    context: &C,
) -> Result<(), Report> {
    selection.check(phases)?;
    let scene = context.scene();
    let run = scene.run;
    let mut first: Option<Report> = None;
    for phase in phases {
        let (name, title) = (phase.name.to_string(), phase.title.to_string());
        if !selection.wants(phase.name) || !phase.applies.to_any(scene) {
            run.event(Event::PhaseSkipped { phase: name, title });
            continue;
        }
        let missing = phase.applies.missing(scene);
        if let Some(first) = first.take_if(|_| !missing.is_empty()) {
            return Err(first.note(format!("`{title}` did not begin: it needs {}", missing.join(", "))));
        }
        let result = run.in_phase(phase.name, phase.title, (phase.run)(context)).await;
        if let Err(error) = result {
            let report = error.report(phase.title);
            let hopeless = matches!(error, PhaseError::Whole(_))
                || report.exit == Exit::Untrusted
                || run.stop().is_asked();
            let joined = join(first, report);
            if phase.on_failure == OnFailure::Stop || hopeless {
                return Err(joined);
            }
            first = Some(joined);
        }
    }
    first.map_or(Ok(()), Err)
}

/// The first failure is the headline, for later ones may follow from it. Only a bundle that is not to be trusted, and
/// a stop that was asked for, come before all others.
fn join(first: Option<Report>, later: Report) -> Report {
    let Some(first) = first else { return later };
    let (mut headline, word, other) = match later.exit {
        Exit::Untrusted | Exit::Stopped => (later, "earlier", first),
        _ => (first, "later", later),
    };
    headline.notes.push(format!("{word}: {}", other.message));
    headline.notes.extend(other.notes);
    headline
}

#[cfg(test)]
mod tests;
