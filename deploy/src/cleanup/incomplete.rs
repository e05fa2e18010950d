//! A journal that cannot be complete. What it lacks would stay on the nodes, and the keys to them would go.

use eggo_errors::{Code, Exit, Explain};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Incomplete {
    #[error("the journal of the cluster `{cluster}` is incomplete: it has no change to any node, but `{}` has more than a journal", folder.display())]
    NoChange { cluster: String, folder: PathBuf },
    #[error("the journal of the cluster `{cluster}` is incomplete: it has nothing to undo on {}, which belong to that cluster", nodes.join(", "))]
    Marked { cluster: String, folder: PathBuf, nodes: Vec<String> },
}

impl Explain for Incomplete {
    fn code(&self) -> Code {
        Code::new("journal-incomplete")
    }

    fn notes(&self) -> Vec<String> {
        let folder = match self {
            Self::NoChange { folder, .. } | Self::Marked { folder, .. } => folder.display(),
        };
        vec![format!("`{folder}` stays as it is, with the cluster's keys")]
    }

    fn hint(&self) -> Option<String> {
        let hint = "put journal.jsonl back from a backup of this machine and run it again; without one, remove the \
                    cluster from its nodes by hand, then move the folder away";
        Some(hint.into())
    }

    fn exit(&self) -> Exit {
        match self {
            Self::NoChange { .. } => Exit::User,
            Self::Marked { .. } => Exit::SomeHosts,
        }
    }
}
