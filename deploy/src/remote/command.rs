//! A command for a node, and what came of it.

use super::{RemoteError, Script};
use crate::run::Permit;
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a command may take unless it says otherwise.
const TIMEOUT: Duration = Duration::from_secs(600);
/// How much a command may print unless it says otherwise. Many nodes answer at the same time, and not all of them mean well.
const MOST_OUTPUT: usize = 1 << 20;
/// How much of a command's last words is kept where the rest does not count.
const LAST_OUTPUT: usize = 64 << 10;

/// A POSIX shell script for a node: one that looks, or one that changes it, which takes a [`Permit`]. Secrets are never in the script (everyone on the node can
/// see a command line): they go through standard input or into a file.
#[derive(Debug)]
pub struct Command {
    /// What it is for, as an infinitive: `start etcd`. Messages name it.
    pub title: String,
    script: String,
    kind: Kind,
    pub stdin: Stdin,
    pub timeout: Duration,
    pub who: Who,
    /// Neither the script's output nor its input may be logged or quoted in an error.
    pub secret: bool,
    /// Whether an exit status other than 0 is an error.
    pub checked: bool,
    /// Not run again when the connection breaks half-way.
    pub once: bool,
    /// Receives standard output while it comes, in place of [`Output::stdout`].
    pub stdout: Option<mpsc::Sender<Bytes>>,
    pub keeps: Keeps,
}

/// What a command may do to its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Look,
    /// Nothing that lasts: it writes below a temporary folder alone.
    Scratch,
    Change,
}

/// What is kept of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// All of it. A command that prints more than so many bytes is given up.
    All(usize),
    /// The end of it, at least so many bytes if there are as many.
    Last(usize),
}

/// Who runs the command on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Root,
    /// The user that logged in.
    Login,
}

#[derive(Debug, Default)]
pub enum Stdin {
    #[default]
    Empty,
    Bytes(Bytes),
    /// Pieces as they come; ends when the sender is dropped. Cannot be sent twice, so a lost
    /// connection is the caller's to handle.
    Stream(mpsc::Receiver<Bytes>),
}

impl Command {
    /// A script that leaves the node as it is. Like all, it is run by `sh` as root with `set -eu`, and only constants are
    /// its text: what varies is a variable or an argument of a [`Script`].
    pub fn look(title: impl Into<String>, script: impl Into<Script>) -> Self {
        Self::new(Kind::Look, title.into(), script.into())
    }

    /// A script that writes below a temporary folder alone, and tidies up there itself.
    pub fn scratch(title: impl Into<String>, script: impl Into<Script>) -> Self {
        Self::new(Kind::Scratch, title.into(), script.into())
    }

    /// A script that changes the node, or the cluster by way of it.
    pub fn change(_: Permit, title: impl Into<String>, script: impl Into<Script>) -> Self {
        Self::new(Kind::Change, title.into(), script.into())
    }

    fn new(kind: Kind, title: String, script: Script) -> Self {
        Self {
            title,
            script: script.to_string(),
            kind,
            stdin: Stdin::Empty,
            timeout: TIMEOUT,
            who: Who::Root,
            secret: false,
            checked: true,
            once: false,
            stdout: None,
            keeps: Keeps::All(MOST_OUTPUT),
        }
    }

    /// The text that `sh` runs.
    pub fn script(&self) -> &str {
        &self.script
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn stdin(mut self, bytes: impl Into<Bytes>) -> Self {
        self.stdin = Stdin::Bytes(bytes.into());
        self
    }

    pub fn stream(mut self, pieces: mpsc::Receiver<Bytes>) -> Self {
        self.stdin = Stdin::Stream(pieces);
        self
    }

    pub fn stdout_to(mut self, pieces: mpsc::Sender<Bytes>) -> Self {
        self.stdout = Some(pieces);
        self
    }

    /// It may print so many bytes.
    pub fn at_most(mut self, bytes: usize) -> Self {
        self.keeps = Keeps::All(bytes);
        self
    }

    /// It may print as much as it likes; the end is kept, for people.
    pub fn last_words(mut self) -> Self {
        self.keeps = Keeps::Last(LAST_OUTPUT);
        self
    }

    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub fn as_login(mut self) -> Self {
        self.who = Who::Login;
        self
    }

    pub fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Any exit status is an answer, not an error.
    pub fn unchecked(mut self) -> Self {
        self.checked = false;
        self
    }

    /// Must not run twice.
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }
}

/// What a command left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The exit status; 128 + n for a signal n, as a shell counts.
    pub status: u32,
    pub stdout: Bytes,
    pub stderr: Bytes,
}

impl Output {
    pub fn success(&self) -> bool {
        self.status == 0
    }

    /// Standard output as text, without the newline at its end.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end_matches('\n').to_string()
    }

    pub fn into_error(self, host: &str, title: &str) -> RemoteError {
        RemoteError::failed(host, title, &self, false)
    }
}
