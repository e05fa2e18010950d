//! The lines of a journal.

use super::JournalError;
use crate::undo::{Undo, legacy};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case", deny_unknown_fields)]
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

impl Record {
    /// From a line of a journal; or why it is none.
    pub(super) fn read(line: &[u8]) -> Result<Self, String> {
        let text = |error: serde_json::Error| format!("it is not a record: {error}");
        let mut value = serde_json::from_slice(line).map_err(text)?;
        legacy::translate(&mut value)?;
        let record: Self = serde_json::from_value(value).map_err(text)?;
        record.check().map_err(|error| match error {
            JournalError::Refused { unsound, .. } => unsound.to_string(),
            other => other.to_string(),
        })?;
        Ok(record)
    }

    /// Whether everything that it asks a cleanup to do is sound.
    pub(super) fn check(&self) -> Result<(), JournalError> {
        let Self::Intent { node, step, undo, .. } = self else { return Ok(()) };
        let refused = |unsound| {
            let (node, step) = (node.clone(), step.clone());
            JournalError::Refused { node, step, unsound }
        };
        undo.iter().try_for_each(|undo| undo.check().map_err(refused))
    }
}

/// The time in a record.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
