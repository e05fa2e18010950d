//! Asking an operation to stop: no further step begins, and those under way are waited for, up to a limit.

use eggo_errors::{Code, Exit, Report};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long steps under way may take to end.
const LIMIT: Duration = Duration::from_secs(60);
/// When no step has been under way for so long, the rest (a wait, a copy that is repeated anyway) is given up.
const SETTLED: Duration = Duration::from_secs(2);
const STOPPED: Code = Code::new("stopped");

/// The handle of one operation. Cheap to clone; all clones are the same handle.
#[derive(Debug, Clone)]
pub struct Stop {
    state: Arc<watch::Sender<State>>,
    limit: Duration,
    settled: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    asked: bool,
    /// Steps under way.
    busy: usize,
}

impl Default for Stop {
    fn default() -> Self {
        Self { state: Arc::default(), limit: LIMIT, settled: SETTLED }
    }
}

impl Stop {
    /// From any thread; asking twice is asking once.
    pub fn ask(&self) {
        self.state.send_modify(|state| state.asked = true);
    }

    pub fn is_asked(&self) -> bool {
        self.state.borrow().asked
    }

    /// An error once it was asked for: called wherever it is safe to end.
    pub(crate) fn check(&self) -> Result<(), Report> {
        if !self.is_asked() {
            return Ok(());
        }
        Err(Report { code: STOPPED, ..Report::new("stopped").exit(Exit::Stopped) })
    }

    /// Until the answer is dropped, something is under way that is better waited for.
    pub(crate) fn busy(&self) -> Busy {
        self.state.send_modify(|state| state.busy += 1);
        Busy(self.clone())
    }

    /// Ends when it is asked for.
    pub(crate) async fn asked(&self) {
        // The sender lives as long as `self`.
        let _ = self.state.subscribe().wait_for(|state| state.asked).await;
    }

    /// Ends when it was asked for and nothing is under way any more, or the limit is over.
    pub(crate) async fn given_up(&self) {
        let mut state = self.state.subscribe();
        // The sender lives as long as `self`: there is always somebody to wait for.
        let _ = state.wait_for(|state| state.asked).await;
        let quiet = async {
            loop {
                let _ = state.wait_for(|state| state.busy == 0).await;
                if timeout(self.settled, state.wait_for(|state| state.busy > 0)).await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(self.limit, quiet).await;
    }

    /// With other times than usual: steps under way may take up to `limit` to end; when none has been for `settled`,
    /// the rest is given up.
    pub fn within(limit: Duration, settled: Duration) -> Self {
        Self { limit, settled, ..Self::default() }
    }
}

/// See [`Stop::busy`].
pub(crate) struct Busy(Stop);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.busy -= 1);
    }
}

/// Whether an error says no more than that it was asked to stop.
pub(crate) fn is_stopped(report: &Report) -> bool {
    report.code == STOPPED
}

/// What is said at the end.
pub(crate) fn stopped(changed: usize, cause: Option<&Report>) -> Report {
    let made = match changed {
        0 => "nothing was changed".to_string(),
        1 => "1 change was made".to_string(),
        n => format!("{n} changes were made"),
    };
    let mut report = Report::new(format!("stopped: {made}"));
    if let Some(cause) = cause.filter(|cause| !is_stopped(cause)) {
        report.notes.push(cause.message.clone());
        report.notes.extend(cause.notes.iter().cloned());
    }
    let report = report.hinted("run the same command again: it goes on where it stopped");
    Report { code: STOPPED, ..report.exit(Exit::Stopped) }
}
