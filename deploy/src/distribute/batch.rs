//! Many items in one channel: a tar on the way, a list at its end, and a script that verifies what
//! is listed and gives it its name. Without the list, complete to its last line, nothing is trusted.

use crate::remote::{Command, Output, Script};
use crate::run::Permit;
use crate::store::{INCOMING, INTACT, STORE};
use bytes::Bytes;
use eggo_bundles::Digest;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::mpsc;

/// A batch is closed when it has this much: verifying one goes on while the next is sent.
pub(super) const BATCH_BYTES: u64 = 96 << 20;
pub(super) const BATCH_ITEMS: usize = 400;
const BLOCK: usize = 512;
/// The last line of a list: on a full disk it may be cut anywhere.
const END: &str = "end";

/// The contents of a batch so far.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) items: Vec<Entry>,
    pub(super) bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) digest: Digest,
    /// Continues what is there.
    pub(super) rest: bool,
}

impl Batch {
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.items.len() >= BATCH_ITEMS
    }

    /// The last entry of the tar: what to verify.
    pub(super) fn end(&self, number: u64) -> Bytes {
        let lines =
            self.items.iter().map(|entry| format!("{}{}\n", if entry.rest { "+" } else { "" }, entry.digest));
        let list = lines.collect::<String>() + END + "\n";
        let mut bytes = header(&format!("list.{number}"), list.len() as u64).to_vec();
        bytes.extend_from_slice(list.as_bytes());
        bytes.resize(bytes.len() + padding(list.len() as u64) + 2 * BLOCK, 0);
        bytes.into()
    }
}

/// The tar header of an item's content.
pub(super) fn begin(entry: Entry, size: u64) -> Bytes {
    let name = if entry.rest { format!("{}.rest", entry.digest) } else { entry.digest.to_string() };
    header(&name, size)
}

/// The zeros after it.
pub(super) fn end(size: u64) -> Bytes {
    Bytes::from_static(&[0; BLOCK]).slice(..padding(size))
}

fn padding(size: u64) -> usize {
    (BLOCK - (size % BLOCK as u64) as usize) % BLOCK
}

fn header(name: &str, size: u64) -> Bytes {
    let mut header = tar::Header::new_gnu();
    header.set_path(name).expect("a digest is a short name");
    header.set_size(size);
    header.set_mode(0o600);
    header.set_cksum();
    Bytes::copy_from_slice(header.as_bytes())
}

/// The receiving end on the node.
pub(super) fn command(permit: Permit, number: u64, pieces: mpsc::Receiver<Bytes>) -> Command {
    let script = Script::new([INTACT, include_str!("receive.sh")])
        .set("NUMBER", number.to_string())
        .set("STORE", STORE)
        .set("INCOMING", INCOMING)
        .set("END", END);
    let mut command = Command::change(permit, "receive content", script).stream(pieces).unchecked();
    // The pace is the network's; a dead connection is noticed by itself.
    command.timeout = Duration::from_secs(24 * 3600);
    command
}

/// What the node says about a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// These are what they should be, and have their names.
    Verified { good: BTreeSet<Digest> },
    /// Something on the node went wrong.
    Failed,
}

pub(super) fn answer(output: &Output) -> Answer {
    let text = output.text();
    let good = text.lines().filter_map(|line| line.strip_prefix("good ")?.parse().ok()).collect();
    if output.success() && text.lines().any(|line| line == "verified") {
        Answer::Verified { good }
    } else {
        Answer::Failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::Host as _;
    use crate::remote::local::Local;

    /// What a node says to one item and a list of so many lines.
    async fn told(lines: usize) -> Answer {
        let entry = Entry { digest: Digest::of(b"x"), rest: false };
        let whole = format!("{}\n{END}\n", entry.digest);
        let list: String = whole.split_inclusive('\n').take(lines).collect();
        let mut last = header("list.1", list.len() as u64).to_vec();
        last.extend_from_slice(list.as_bytes());
        last.resize(last.len() + padding(list.len() as u64) + 2 * BLOCK, 0);
        let (sender, receiver) = mpsc::channel(4);
        for piece in [begin(entry, 1), Bytes::from_static(b"x"), end(1), last.into()] {
            sender.send(piece).await.unwrap();
        }
        drop(sender);
        answer(&Local::new("a").run(command(Permit::of_a_test(), 1, receiver)).await.unwrap())
    }

    #[tokio::test]
    async fn a_list_is_believed_only_with_its_end() {
        assert_eq!(told(0).await, Answer::Failed);
        assert_eq!(told(1).await, Answer::Failed);
        assert_eq!(told(2).await, Answer::Verified { good: [Digest::of(b"x")].into() });
    }
}
