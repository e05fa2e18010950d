//! Many items in one channel: a tar on the way, a list at its end, and a script that verifies what
//! is listed and gives it its name. Without the list nothing is believed.

use crate::remote::{Command, Output};
use crate::store::{INCOMING, STORE};
use bytes::Bytes;
use eggo_bundles::Digest;
use std::time::Duration;
use tokio::sync::mpsc;

/// A batch is closed when it has this much: verifying one goes on while the next is sent.
pub(super) const BATCH_BYTES: u64 = 96 << 20;
pub(super) const BATCH_ITEMS: usize = 400;
const BLOCK: usize = 512;

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
        let list: String = lines.collect();
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

/// The receiving end on the node. openssl uses what the processor has for sha256, which many a sha256sum does not.
pub(super) fn command(number: u64, pieces: mpsc::Receiver<Bytes>) -> Command {
    let script = format!(
        "umask 077; mkdir -p {STORE} {INCOMING}; cd {INCOMING}\n\
         tar -x -f - || {{ [ -f list.{number} ] || exit 1; }}\n\
         names=$(while read -r name; do\n\
           case $name in +*) name=${{name#+}}; cat \"$name.rest\" >> \"$name\"; rm -f \"$name.rest\" ;; esac\n\
           echo \"$name\"\n\
         done < list.{number})\n\
         sum='sha256sum -b'; openssl dgst -sha256 -r /dev/null >/dev/null 2>&1 && sum='openssl dgst -sha256 -r'\n\
         good=$($sum $names 2>/dev/null | while read -r digest name; do [ \"*$digest\" != \"$name\" ] || echo \"$digest\"; done)\n\
         bad=$(for name in $names; do case \"$good\" in *$name*) ;; *) echo \"$name\" ;; esac; done)\n\
         if [ -n \"$bad\" ]; then rm -f $bad; printf 'bad %s\\n' $bad; fi\n\
         [ -z \"$good\" ] || mv -f $good {STORE}/\n\
         rm -f list.{number}; echo verified"
    );
    let mut command = Command::sh("receive content", script).stream(pieces).unchecked();
    // The pace is the network's; a dead connection is noticed by itself.
    command.timeout = Duration::from_secs(24 * 3600);
    command
}

/// What the node says about a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Verified, but for these.
    Verified { bad: Vec<Digest> },
    /// Something on the node went wrong.
    Failed,
}

pub(super) fn answer(output: &Output) -> Answer {
    let text = output.text();
    let bad = text.lines().filter_map(|line| line.strip_prefix("bad ")?.parse().ok()).collect();
    if output.success() && text.lines().any(|line| line == "verified") {
        Answer::Verified { bad }
    } else {
        Answer::Failed
    }
}
