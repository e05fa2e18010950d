//! How long work tells how far it is, without knowing who watches.

/// Receives the progress of work that may run on several threads.
pub trait Progress: Send + Sync {
    /// A task begins; `total` is its size in bytes, where known.
    fn start(&self, label: &str, total: Option<u64>) -> Task;
    /// `task` has done `bytes` more.
    fn advance(&self, task: Task, bytes: u64);
    fn finish(&self, task: Task);
    /// A line worth keeping on the screen.
    fn note(&self, line: &str);
}

/// Names a task between [`Progress::start`] and [`Progress::finish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Task(pub u64);

/// Nobody watches.
pub struct Silent;

impl Progress for Silent {
    fn start(&self, _label: &str, _total: Option<u64>) -> Task {
        Task(0)
    }
    fn advance(&self, _task: Task, _bytes: u64) {}
    fn finish(&self, _task: Task) {}
    fn note(&self, _line: &str) {}
}
