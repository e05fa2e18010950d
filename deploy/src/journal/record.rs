//! The lines of a journal.

use super::JournalError;
use super::chain::FORMAT;
use crate::undo::{Undo, legacy};
use eggo_bundles::Digest;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// A command began.
    Begin {
        command: String,
        version: String,
        bundle: Option<String>,
        /// Of the journal, from here on; none in format 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        format: Option<u32>,
        /// The plan that somebody agreed to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<Approval>,
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
    /// The node is no longer part of the cluster, or was reinstalled.
    Forget {
        node: String,
        at: String,
    },
}

/// Why a line is not read.
pub(super) enum NoRecord {
    Damaged(String),
    /// The format that it is of.
    Newer(u32),
}

impl Record {
    /// A command that begins now.
    pub(crate) fn begin(command: &str, bundle: Option<String>, plan: Option<Approval>) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_string();
        Self::Begin { command: command.into(), version, bundle, format: Some(FORMAT), plan, at: now() }
    }

    /// From a line of a journal. One without a digest may be as 0.1.0 wrote it.
    pub(super) fn read(line: &[u8], has_digest: bool) -> Result<Self, NoRecord> {
        let text = |error: serde_json::Error| NoRecord::Damaged(format!("it is not a record: {error}"));
        let mut value: serde_json::Value = serde_json::from_slice(line).map_err(text)?;
        let format = value["format"].as_u64().and_then(|format| u32::try_from(format).ok());
        if let Some(newer) = format.filter(|format| *format > FORMAT) {
            return Err(NoRecord::Newer(newer));
        }
        if !has_digest {
            legacy::translate(&mut value).map_err(NoRecord::Damaged)?;
        }
        let record: Self = serde_json::from_value(value).map_err(text)?;
        record.check().map_err(|error| match error {
            JournalError::Refused { unsound, .. } => NoRecord::Damaged(unsound.to_string()),
            other => NoRecord::Damaged(other.to_string()),
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

/// A plan that somebody agreed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Of the plan: what is to be done on nodes as they were then.
    pub digest: Digest,
    /// Of what all nodes are to have in the end, wherever they start from.
    pub target: Digest,
}

/// The time in a record.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
