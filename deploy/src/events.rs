//! What happens during a run, told to whoever watches: a terminal now, a server later.
//!
//! Events carry no secret and no terminal control; drawing them is the view's business.

mod history;
mod stamp;

pub use history::{History, Missed};
pub(crate) use stamp::Stamped;

use eggo_errors::Report;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Receives events, from any thread, and must not block.
pub trait Sink: Send + Sync {
    fn event(&self, event: Event);

    /// An event of an operation. Who cares only for the event itself leaves this as it is.
    fn told(&self, told: Told) {
        self.event(told.event);
    }
}

/// An event with its place: whose it is, which one, and when it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Every operation has another one.
    pub run: String,
    pub cluster: String,
    /// From 1, without gaps.
    pub number: u64,
    /// RFC 3339, in UTC.
    pub time: String,
    #[serde(flatten)]
    pub event: Event,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    Install,
    Join,
    Upgrade,
    Delete,
    Renew,
    Backup,
    Restore,
    Cleanup,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    Done,
    Failed,
    /// It was asked to stop.
    Stopped,
}

/// Nobody watches.
pub struct Silent;

impl Sink for Silent {
    fn event(&self, _event: Event) {}
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The first one.
    OperationStarted {
        operation: Operation,
    },
    /// The last one.
    OperationFinished {
        operation: Operation,
        outcome: Ending,
        /// Changes to nodes that were made.
        changed: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Report>,
    },
    /// It was asked to stop: no further step begins, and those under way are waited for.
    Stopping {},
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
}

pub(crate) fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests;
