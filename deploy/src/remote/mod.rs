//! What the installer can ask of a node: run a script, write files, read a file.
//!
//! [`Host`] is the one trait that effects go through. The real one lives in `ssh`; the tests
//! have a recording fake. Nothing here decides what to run.

mod command;
mod error;
#[cfg(test)]
pub mod fake;
mod files;
#[cfg(test)]
pub mod local;
#[cfg(test)]
pub mod sandbox;

pub use crate::script::{CALL, COMMON, KEPT, RemoteFile, Script, quote, words};
pub use command::{Command, Keeps, Kind, Output, Stdin, Who};
pub use error::RemoteError;
pub use files::Written;

use crate::run::Permit;
use bytes::Bytes;
use futures::future::BoxFuture;

/// A node that can be reached.
///
/// An implementation re-makes a lost connection by itself and runs the command again, unless the
/// command says [`Command::once`] or reads a stream: every script is written so that running it
/// twice does no harm.
pub trait Host: Send + Sync {
    /// The node's name in deploy.yaml; goes first in every message.
    fn name(&self) -> &str;

    /// Makes sure that the node can be reached. Commands do so by themselves when needed; this is for saying
    /// early who cannot be.
    fn connect(&self) -> BoxFuture<'_, Result<(), RemoteError>> {
        Box::pin(async { Ok(()) })
    }

    /// Ends, on the node, every command that is under way, and waits for that; no other begins.
    fn end_commands(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Runs a command to its end. An exit status other than 0 is an error, unless the command
    /// is [`Command::unchecked`].
    fn run(&self, command: Command) -> BoxFuture<'_, Result<Output, RemoteError>>;

    /// Puts files in place, each written beside and renamed, in one round trip; says of each
    /// whether anything changed. What was there before is kept for cleanup and rollback.
    fn write_files(
        &self,
        permit: Permit,
        files: Vec<RemoteFile>,
    ) -> BoxFuture<'_, Result<Vec<Written>, RemoteError>> {
        Box::pin(async move {
            if files.is_empty() {
                return Ok(Vec::new());
            }
            let output = self.run(files::command(permit, &files)).await?;
            files::parse(self.name(), &files, &output)
        })
    }

    fn write_file(&self, permit: Permit, file: RemoteFile) -> BoxFuture<'_, Result<Written, RemoteError>> {
        Box::pin(async move { Ok(self.write_files(permit, vec![file]).await?.remove(0)) })
    }

    /// The whole file, or `None` if there is none. For small files.
    fn read_file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, RemoteError>> {
        Box::pin(async move {
            let script = Script::new([include_str!("read.sh")]).set("FILE", path);
            let output = self.run(Command::look("read a file", script).unchecked().secret()).await?;
            match output.status {
                44 => Ok(None),
                0 => Ok(Some(output.stdout)),
                _ => Err(output.into_error(self.name(), &format!("read {path}"))),
            }
        })
    }
}
