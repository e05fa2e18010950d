//! Puts lines on disk, on a thread of its own, so that a slow disk does not hold the network.
//! Lines that arrive while the disk is busy share the next fsync.

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
    pub(super) fn start(mut file: File) -> Self {
        Self::through(move |lines| file.write_all(lines).and_then(|()| file.sync_data()))
    }

    fn through(put: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static) -> Self {
        let (jobs, queue) = mpsc::channel();
        let thread = std::thread::spawn(move || write(put, &queue));
        Self { jobs: Some(jobs), thread: Some(thread) }
    }

    pub(super) async fn append(&self, line: Vec<u8>) -> Result<(), String> {
        let (done, answer) = oneshot::channel();
        let gone = || "its writer has stopped".to_string();
        self.jobs.as_ref().ok_or_else(gone)?.send((line, done)).map_err(|_| gone())?;
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

/// After a failure nothing more is written: a line may have been cut short, and the next one would be glued to it.
fn write(mut put: impl FnMut(&[u8]) -> io::Result<()>, queue: &mpsc::Receiver<Job>) {
    let mut result = Ok(());
    while let Ok((mut lines, first)) = queue.recv() {
        let mut waiting = vec![first];
        while let Ok((line, next)) = queue.try_recv() {
            lines.extend_from_slice(&line);
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
        let writer = Writer::through(move |_| match std::mem::take(&mut full) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        });
        let told = writer.append(b"first\n".to_vec()).await.unwrap_err();
        assert_eq!(writer.append(b"second\n".to_vec()).await, Err(told));
    }
}
