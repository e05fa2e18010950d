//! Work that blocks (large reads, fsyncs) is done off the threads that serve connections.

use std::panic::resume_unwind;
use tokio::task::spawn_blocking;

/// Does `work` on a thread of its own. Once begun it goes on to its end, whoever still waits for it.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        // Nothing cancels it: it can only have panicked.
        Err(error) => resume_unwind(error.into_panic()),
    }
}
