//! The lines of a journal.

use super::Undo;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// A command began.
    Begin {
        command: String,
        version: String,
        bundle: Option<String>,
        at: String,
    },
    /// The node carries `mark` from now on. Another mark than before means another machine, about
    /// which the journal knows nothing yet.
    Mark {
        node: String,
        mark: String,
    },
    /// `step` is about to change `node`; `undo` is what cleanup will do about it.
    Intent {
        node: String,
        phase: String,
        step: String,
        fingerprint: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        undo: Vec<Undo>,
        at: String,
    },
    Done {
        node: String,
        step: String,
        at: String,
    },
    /// Cleanup has undone `step`.
    Undone {
        node: String,
        step: String,
        at: String,
    },
    /// The node is no longer part of the cluster, or was made anew.
    Forget {
        node: String,
        at: String,
    },
}

/// The time in a record.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
