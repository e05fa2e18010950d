//! This machine as a node, with a folder in place of the installer's own: the scripts really run,
//! and the way to it can be slow or cut.

use super::{Command, Host, Output, RemoteError, Stdin};
use crate::store::ROOT;
use futures::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

pub struct Local {
    name: String,
    root: tempfile::TempDir,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Streamed bytes after which the connection breaks, once.
    cut_after: Option<u64>,
    pause: Duration,
    runs: usize,
}

impl Local {
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), root: tempfile::tempdir().unwrap(), state: Mutex::default() }
    }

    /// The connection breaks after so many bytes of a stream.
    pub fn cut_after(self, bytes: u64) -> Self {
        self.state.lock().unwrap().cut_after = Some(bytes);
        self
    }

    /// Every piece of a stream takes so long.
    pub fn slow(self, pause: Duration) -> Self {
        self.state.lock().unwrap().pause = pause;
        self
    }

    /// Where `path` of the installer's own folder is on this machine.
    pub fn path(&self, path: &str) -> PathBuf {
        let inside = Path::new(path).strip_prefix(ROOT).unwrap();
        self.root.path().join(inside)
    }

    /// How many commands ran.
    pub fn runs(&self) -> usize {
        self.state.lock().unwrap().runs
    }

    async fn go(&self, command: Command) -> Result<Output, RemoteError> {
        self.state.lock().unwrap().runs += 1;
        let script = format!("set -eu\n{}", command.script());
        let script = script.replace(ROOT, self.root.path().to_str().unwrap());
        let mut child = tokio::process::Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let sending = async {
            match command.stdin {
                Stdin::Empty => {}
                Stdin::Bytes(bytes) => drop(stdin.write_all(&bytes).await),
                Stdin::Stream(mut pieces) => {
                    while let Some(piece) = pieces.recv().await {
                        let (cut, pause) = {
                            let mut state = self.state.lock().unwrap();
                            let left = state.cut_after.map(|left| left.saturating_sub(piece.len() as u64));
                            state.cut_after = left.filter(|left| *left > 0);
                            (left == Some(0), state.pause)
                        };
                        if cut {
                            let _ = stdin.write_all(&piece[..piece.len() / 2]).await;
                            return false;
                        }
                        tokio::time::sleep(pause).await;
                        if stdin.write_all(&piece).await.is_err() {
                            break;
                        }
                    }
                }
            }
            drop(stdin);
            true
        };
        let (whole, output) = tokio::join!(sending, child.wait_with_output());
        if !whole {
            let (host, title) = (self.name.clone(), command.title);
            return Err(RemoteError::Lost { host, title, reason: "cut".into() });
        }
        let output = output.unwrap();
        let status = output.status.code().unwrap_or(255) as u32;
        let output = Output { status, stdout: output.stdout.into(), stderr: output.stderr.into() };
        if command.checked && !output.success() {
            return Err(RemoteError::failed(&self.name, &command.title, &output, command.secret));
        }
        Ok(output)
    }
}

impl Host for Local {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&self, command: Command) -> BoxFuture<'_, Result<Output, RemoteError>> {
        Box::pin(self.go(command))
    }
}
