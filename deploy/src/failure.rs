//! What went wrong: on one node, or altogether.

use crate::stop::is_stopped;
use eggo_errors::{Count, Exit, Explain, Report};

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
                let mut report = Report::new(format!("`{title}` failed on {nodes}"))
                    .code("nodes-failed")
                    .exit(Exit::SomeHosts);
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
                    "fix what is named above and run the same command again: it goes on where it stopped"
                        .into()
                }))
            }
        }
    }
}
