//! Nothing goes on behind the caller's back: a command that nobody waits for any more is ended on its node.
//!
//! Closing a channel is not enough: sshd leaves what runs on it alone. So every command carries a mark in its
//! environment, by which a second one finds its processes, whatever groups and sessions they are in.

use super::connection::{Connection, Exec};
use crate::remote::Stdin;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) const SCRIPT: &str = include_str!("end.sh");
/// What is ended gets five seconds on the node.
const LIMIT: Duration = Duration::from_secs(12);
/// It prints nothing.
const MOST_OUTPUT: usize = 64 << 10;
const NAME: &str = "EGGO_COMMAND";

/// The commands that run on one node.
pub(super) struct Commands {
    /// Sets our marks apart from those of others.
    prefix: String,
    next: AtomicU64,
    running: Mutex<BTreeMap<String, Arc<Ender>>>,
    ended: AtomicBool,
}

/// How commands of one connection are ended.
pub(super) struct Ender {
    pub(super) connection: Arc<Connection>,
    /// [`SCRIPT`], as root, and what must come first on its standard input.
    pub(super) command: String,
    pub(super) head: Bytes,
}

impl Ender {
    async fn end(&self, marks: &[String]) {
        let marks: String = marks.iter().map(|mark| format!("{NAME}={mark}\n")).collect();
        let (head, stdin) = (self.head.clone(), Stdin::Bytes(marks.into()));
        let ending =
            self.connection.exec(Exec { head, stdin, ..Exec::new(self.command.clone(), MOST_OUTPUT) });
        // On a connection that is gone nothing can be ended; whoever connects next finds the node as it is.
        let _ = tokio::time::timeout(LIMIT, ending).await;
    }
}

impl Commands {
    pub(super) fn new() -> Self {
        let mut bytes = [0; 8];
        // Without random numbers the address of something of ours must do: it is the process's own.
        if getrandom::fill(&mut bytes).is_err() {
            bytes =
                (std::ptr::from_ref(&bytes) as usize as u64 ^ u64::from(std::process::id())).to_le_bytes();
        }
        Self {
            prefix: hex::encode(bytes),
            next: AtomicU64::new(0),
            running: Mutex::default(),
            ended: AtomicBool::new(false),
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// A command is about to run. Dropped before it is [`Underway::done`], it is ended.
    pub(super) fn begin(self: &Arc<Self>, ender: &Arc<Ender>) -> Underway {
        let mark = format!("{}-{}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed));
        self.running.lock().expect("no panic while locked").insert(mark.clone(), ender.clone());
        Underway { commands: self.clone(), mark, gives_up: false }
    }

    /// Ends all of them, and waits for that; no other will begin.
    pub(super) async fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        let running = std::mem::take(&mut *self.running.lock().expect("no panic while locked"));
        let mut by_connection: Vec<(Arc<Ender>, Vec<String>)> = Vec::new();
        for (mark, ender) in running {
            match by_connection.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &ender)) {
                Some((_, marks)) => marks.push(mark),
                None => by_connection.push((ender, vec![mark])),
            }
        }
        let endings = by_connection.iter().map(|(ender, marks)| ender.end(marks));
        futures::future::join_all(endings).await;
    }
}

/// A command under way.
pub(super) struct Underway {
    commands: Arc<Commands>,
    mark: String,
    /// Its connection is good for nothing more.
    gives_up: bool,
}

impl Underway {
    /// What its processes have in their environment.
    pub(super) fn mark(&self) -> String {
        format!("{NAME}={}", self.mark)
    }

    /// Ends it, and closes its connection then: on one, a command that cannot be ended goes on printing.
    pub(super) fn give_up(mut self) {
        self.gives_up = true;
    }

    /// It has ended by itself.
    pub(super) fn done(self) {
        self.commands.running.lock().expect("no panic while locked").remove(&self.mark);
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let ender = self.commands.running.lock().expect("no panic while locked").remove(&self.mark);
        let (Some(ender), Ok(runtime)) = (ender, tokio::runtime::Handle::try_current()) else { return };
        let (mark, gives_up) = (std::mem::take(&mut self.mark), self.gives_up);
        // It lasts a few seconds at most.
        runtime.spawn(async move {
            ender.end(&[mark]).await;
            if gives_up {
                ender.connection.close().await;
            }
        });
    }
}
