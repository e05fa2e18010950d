//! Puts lines on disk, on a thread of its own, so that a slow disk does not hold the network.
//! Lines that arrive while the disk is busy share the next fsync.

use std::fs::File;
use std::io::Write;
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

type Job = (Vec<u8>, oneshot::Sender<Result<(), String>>);

pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(file: File) -> Self {
        let (jobs, queue) = mpsc::channel();
        let thread = std::thread::spawn(move || write(file, &queue));
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

fn write(mut file: File, queue: &mpsc::Receiver<Job>) {
    while let Ok((mut lines, first)) = queue.recv() {
        let mut waiting = vec![first];
        while let Ok((line, next)) = queue.try_recv() {
            lines.extend_from_slice(&line);
            waiting.push(next);
        }
        let result =
            file.write_all(&lines).and_then(|()| file.sync_data()).map_err(|error| error.to_string());
        for done in waiting {
            let _ = done.send(result.clone());
        }
    }
}
