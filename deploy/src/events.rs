//! What happens during a run, told to whoever watches: a terminal now, a server later.
//!
//! Events carry no secret and no terminal control; drawing them is the view's business.

use eggo_errors::Report;
use serde::Serialize;
use std::time::Duration;

/// Receives events, from any thread, and must not block.
pub trait Sink: Send + Sync {
    fn event(&self, event: Event);
}

/// Nobody watches.
pub struct Silent;

impl Sink for Silent {
    fn event(&self, _event: Event) {}
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    PhaseStarted {
        phase: String,
        title: String,
    },
    /// Deselected, or nothing to do for it in this cluster.
    PhaseSkipped {
        phase: String,
        title: String,
    },
    /// It takes long. Said after a while, and then now and then.
    PhaseWaits {
        phase: String,
        title: String,
        seconds: f64,
        /// May be empty: not everything is a step.
        underway: Vec<Underway>,
    },
    PhaseFinished {
        phase: String,
        title: String,
        seconds: f64,
        changed: usize,
        failed: usize,
    },
    StepStarted {
        phase: String,
        node: String,
        step: String,
        title: String,
    },
    StepFinished {
        phase: String,
        node: String,
        step: String,
        title: String,
        seconds: f64,
        changed: bool,
    },
    StepFailed {
        phase: String,
        node: String,
        step: String,
        title: String,
        message: String,
    },
    /// Bytes that reached a node; `total` is what the plan says.
    Progress {
        node: String,
        done: u64,
        total: u64,
        rate: u64,
        seconds_left: Option<u64>,
    },
    /// The connection to a node broke; it is being re-made.
    Reconnecting {
        node: String,
        reason: String,
    },
    Note {
        node: Option<String>,
        text: String,
    },
    Warning {
        node: Option<String>,
        text: String,
    },
}

/// Something that a node is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Underway {
    pub node: String,
    /// As an infinitive: `start kubelet`.
    pub title: String,
}

impl Event {
    pub fn note(node: Option<&str>, text: impl Into<String>) -> Self {
        Self::Note { node: node.map(Into::into), text: text.into() }
    }

    pub fn warning(node: Option<&str>, text: impl Into<String>) -> Self {
        Self::Warning { node: node.map(Into::into), text: text.into() }
    }

    pub(crate) fn failed(phase: &str, node: &str, step: &str, title: &str, report: &Report) -> Self {
        Self::StepFailed {
            phase: phase.into(),
            node: node.into(),
            step: step.into(),
            title: title.into(),
            message: report.message.clone(),
        }
    }
}

pub(crate) fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}
