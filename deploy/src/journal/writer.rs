//! Puts records on disk as the lines of a chain, on a thread of its own, so that a slow disk does not hold the network.
//! Lines that arrive while the disk is busy share the next fsync.

use super::chain::Chain;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

type Job = (Vec<u8>, oneshot::Sender<Result<(), String>>);

pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Lines that continue a chain.
    pub(super) fn start(mut file: File, chain: Chain) -> Self {
        Self::through(chain, move |lines| file.write_all(lines).and_then(|()| file.sync_data()))
    }

    fn through(chain: Chain, put: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static) -> Self {
        let (jobs, queue) = mpsc::channel();
        let thread = std::thread::spawn(move || write(chain, put, &queue));
        Self { jobs: Some(jobs), thread: Some(thread) }
    }

    pub(super) async fn append(&self, record: Vec<u8>) -> Result<(), String> {
        let (done, answer) = oneshot::channel();
        let gone = || "its writer has stopped".to_string();
        self.jobs.as_ref().ok_or_else(gone)?.send((record, done)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// After a failure nothing more is written: a line may have been written in part, and the next one would be glued to it.
fn write(mut chain: Chain, mut put: impl FnMut(&[u8]) -> io::Result<()>, queue: &mpsc::Receiver<Job>) {
    let mut result = Ok(());
    while let Ok((record, first)) = queue.recv() {
        let (mut lines, mut waiting) = (chain.seal(&record), vec![first]);
        lines.push(b'\n');
        while let Ok((record, next)) = queue.try_recv() {
            lines.extend(chain.seal(&record));
            lines.push(b'\n');
            waiting.push(next);
        }
        if result.is_ok() {
            result = put(&lines).map_err(|error| error.to_string());
        }
        for done in waiting {
            let _ = done.send(result.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_follows_a_line_that_may_have_been_cut_short() {
        let mut full = true;
        let writer = Writer::through(Chain::default(), move |_| match std::mem::take(&mut full) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        });
        let told = writer.append(b"{}".to_vec()).await.unwrap_err();
        assert_eq!(writer.append(b"{}".to_vec()).await, Err(told));
    }
}
