//! What was done to which node, and how to undo it: one append-only file per cluster, one JSON
//! object a line, on disk before the node is touched. The lines are a chain of digests: damage is found when they are
//! read, and then nothing is done.
//!
//! The journal never holds a secret. It does not know what a step means: [`crate::run`] asks it
//! whether a step is done, [`crate::cleanup`] walks it backwards.

mod chain;
mod record;
mod writer;

pub(crate) use record::now;
pub use record::{Approval, Record};

use chain::Chain;
use record::NoRecord;

use crate::claim::Claim;
use crate::config::Schedule;
use crate::state::{self, Folder, Name};
use crate::undo::{Undo, Unsound};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("another run of this cluster is under way{}", holder(.0))]
    Busy(String),
    #[error("cannot {action} `{}`", .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` line {line}: {why}", .path.display())]
    Damaged { path: PathBuf, line: usize, why: String },
    #[error("`{}` line {line} was written by a newer eggo-install (journal format {format})", .path.display())]
    Newer { path: PathBuf, line: usize, format: u32 },
    #[error("`{step}` on {node} cannot be journaled: {unsound}")]
    Refused { node: String, step: String, unsound: Unsound },
    #[error("the journal could not be written: {0}")]
    Write(String),
}

fn holder(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" (process {text})") }
}

impl eggo_errors::Explain for JournalError {
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new(match self {
            Self::Busy(_) => "journal-busy",
            Self::Damaged { .. } => "journal-damaged",
            Self::Newer { .. } => "journal-newer",
            Self::Refused { .. } => "journal-refused",
            Self::Io { .. } | Self::Write(_) => "journal-failed",
        })
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Busy(_) => Some("wait for it to end, or stop it and run again".into()),
            Self::Damaged { .. } => {
                Some("nothing was done; put journal.jsonl back from a backup of this machine".into())
            }
            Self::Newer { .. } => Some("use the eggo-install that wrote it, or a newer one".into()),
            Self::Refused { .. } => Some("nothing was changed by this step".into()),
            Self::Io { .. } | Self::Write(_) => None,
        }
    }
}

/// A journal as those see it who only look: nothing can be written by it.
pub struct JournalView {
    state: Mutex<State>,
}

/// The journal of a cluster. While it lives, no other process can open it.
pub struct Journal {
    folder: PathBuf,
    view: JournalView,
    writer: writer::Writer,
    _lock: Lock,
}

impl Deref for Journal {
    type Target = JournalView;

    fn deref(&self) -> &JournalView {
        &self.view
    }
}

/// Goes with the process: a killed run leaves none behind.
struct Lock(File);

#[derive(Default)]
struct State {
    /// Every intent that was not undone, in the order of the file.
    entries: BTreeMap<u64, Entry>,
    /// The newest entry of each (node, step).
    newest: HashMap<(String, String), u64>,
    /// The mark that a node was given when it was first touched.
    marks: HashMap<String, String>,
    /// All marks that any node was ever given.
    given: HashSet<String>,
    /// Nodes with an intent, undone or not.
    changed: BTreeSet<String>,
    /// The plan that the last command began with.
    begun: Option<Approval>,
    records: usize,
    next: u64,
}

/// A change to a node that was begun, and not undone since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub node: String,
    pub phase: String,
    pub step: String,
    pub fingerprint: String,
    pub undo: Vec<Undo>,
    pub done: bool,
}

impl Entry {
    /// Whether it is that of a hook around a cleanup, which has nothing to undo.
    pub(crate) fn is_hook(&self) -> bool {
        [Schedule::Precleanup, Schedule::Postcleanup].iter().any(|schedule| self.phase == schedule.as_str())
    }
}

impl Journal {
    /// Whether anything was ever recorded in this folder. One without a record is somebody else's, or new.
    pub fn has_records(folder: &Path) -> bool {
        fs::metadata(Folder::new(folder).path(&Name::Journal)).is_ok_and(|file| file.len() > 0)
    }

    /// The journal as it is now, for those who only look. Works while another process writes it, and
    /// changes nothing: without a journal it is empty, and a line that is being written is left out.
    pub fn read(folder: &Path) -> Result<JournalView, JournalError> {
        let path = Folder::new(folder).path(&Name::Journal);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Vec::new()
            }
            Err(source) => return Err(JournalError::Io { action: "read", path, source }),
        };
        Ok(JournalView { state: Mutex::new(State::parse(&path, &text[..complete(&text)])?.0) })
    }

    /// Opens the journal in the cluster's state folder, making both where needed.
    pub fn open(folder: &Path) -> Result<Self, JournalError> {
        let io = |action, path: &Path| {
            let path = path.to_path_buf();
            move |source| JournalError::Io { action, path, source }
        };
        state::make(folder).map_err(io("make the folder", folder))?;
        let names = Folder::new(folder);
        let lock = lock(&names.path(&Name::Lock))?;
        let path = names.path(&Name::Journal);
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(io("open", &path))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(io("read", &path))?;
        // A run that was killed while writing leaves a line without an end: it never happened.
        let complete = complete(&text);
        let (state, chain) = State::parse(&path, &text[..complete])?;
        let view = JournalView { state: Mutex::new(state) };
        if complete < text.len() {
            file.set_len(complete as u64).map_err(io("shorten", &path))?;
        }
        state::sync(folder).map_err(io("sync", folder))?;
        Ok(Self {
            folder: folder.to_path_buf(),
            view,
            writer: writer::Writer::start(file, chain),
            _lock: lock,
        })
    }

    /// The cluster's state folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a record; returns when it is safe on disk.
    pub async fn append(&self, record: Record) -> Result<(), JournalError> {
        record.check()?;
        let line = serde_json::to_vec(&record).map_err(|error| JournalError::Write(error.to_string()))?;
        self.writer.append(line).await.map_err(JournalError::Write)?;
        self.view.state.lock().expect("no panic while locked").apply(&record);
        Ok(())
    }
}

impl JournalView {
    /// Whether `step` is done on `node` in just this form.
    pub fn is_done(&self, node: &str, step: &str, fingerprint: &str) -> bool {
        self.newest(node, step).is_some_and(|entry| entry.done && entry.fingerprint == fingerprint)
    }

    /// The newest entry of a step, done or only begun.
    pub fn newest(&self, node: &str, step: &str) -> Option<Entry> {
        let state = self.state.lock().expect("no panic while locked");
        let number = state.newest.get(&(node.to_string(), step.to_string()))?;
        state.entries.get(number).cloned()
    }

    /// Everything that was done or begun and not undone, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.state.lock().expect("no panic while locked").entries.values().cloned().collect()
    }

    /// Every node that was ever changed, undone since or not.
    pub fn changed(&self) -> BTreeSet<String> {
        self.state.lock().expect("no panic while locked").changed.clone()
    }

    /// How many records there are: more than before, and something has happened since.
    pub fn records(&self) -> usize {
        self.state.lock().expect("no panic while locked").records
    }

    /// The plan that the last command began with.
    pub fn begun(&self) -> Option<Approval> {
        self.state.lock().expect("no panic while locked").begun
    }

    /// The mark that `node` was given when it was first touched.
    pub fn mark(&self, node: &str) -> Option<String> {
        self.state.lock().expect("no panic while locked").marks.get(node).cloned()
    }

    /// Whether the node that bears this claim, under whatever name, is that of this state folder.
    pub fn holds(&self, claim: &Claim) -> bool {
        self.state.lock().expect("no panic while locked").given.contains(&claim.mark)
    }
}

/// The length without a last line that has no end.
fn complete(text: &[u8]) -> usize {
    text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)
}

impl State {
    fn parse(path: &Path, text: &[u8]) -> Result<(Self, Chain), JournalError> {
        let (mut state, mut chain) = (Self::default(), Chain::default());
        let lines = text.strip_suffix(b"\n").unwrap_or(text).split(|&byte| byte == b'\n');
        for (index, line) in lines.enumerate().filter(|_| !text.is_empty()) {
            let (path, line_number) = (path.to_path_buf(), index + 1);
            let damaged = |why: String| JournalError::Damaged { path: path.clone(), line: line_number, why };
            let (record, chained) = chain.open(line).map_err(|why| damaged(why.into()))?;
            match Record::read(&record, chained) {
                Ok(record) => state.apply(&record),
                Err(NoRecord::Damaged(why)) => return Err(damaged(why)),
                Err(NoRecord::Newer(format)) => {
                    return Err(JournalError::Newer { path, line: line_number, format });
                }
            }
        }
        Ok((state, chain))
    }

    fn apply(&mut self, record: &Record) {
        self.records += 1;
        match record {
            Record::Begin { plan, .. } => self.begun = *plan,
            Record::Mark { node, mark } => {
                self.given.insert(mark.clone());
                if self.marks.insert(node.clone(), mark.clone()).is_some_and(|old| old != *mark) {
                    self.forget(node);
                    self.changed.remove(node);
                }
            }
            Record::Intent { node, phase, step, fingerprint, undo, .. } => {
                self.changed.insert(node.clone());
                let key = (node.clone(), step.clone());
                let (mut phase, mut undo) = (phase.clone(), undo.clone());
                // The same step in another form: what the first form must undo is still to be undone,
                // and in its turn, whoever repeats the step.
                if let Some(old) = self.newest.get(&key).and_then(|number| self.entries.get(number)) {
                    undo.retain(|new| !old.undo.contains(new));
                    undo.splice(0..0, old.undo.iter().cloned());
                    phase.clone_from(&old.phase);
                }
                let number = *self.newest.entry(key).or_insert_with(|| {
                    self.next += 1;
                    self.next
                });
                let entry = Entry {
                    node: node.clone(),
                    phase,
                    step: step.clone(),
                    fingerprint: fingerprint.clone(),
                    undo,
                    done: false,
                };
                self.entries.insert(number, entry);
            }
            Record::Done { node, step, .. } => {
                let number = self.newest.get(&(node.clone(), step.clone()));
                if let Some(entry) = number.and_then(|number| self.entries.get_mut(number)) {
                    entry.done = true;
                }
            }
            Record::Undone { node, step, .. } => {
                if let Some(number) = self.newest.remove(&(node.clone(), step.clone())) {
                    self.entries.remove(&number);
                }
            }
            Record::Forget { node, .. } => self.forget(node),
        }
    }

    fn forget(&mut self, node: &str) {
        self.entries.retain(|_, entry| entry.node != node);
        self.newest.retain(|(name, _), _| name != node);
    }
}

impl Drop for Lock {
    /// Not left to the closing: a process that was just forked holds the file open until it becomes
    /// its own program.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, rustix::fs::FlockOperation::Unlock);
    }
}

fn lock(path: &Path) -> Result<Lock, JournalError> {
    let io = |source| JournalError::Io { action: "lock", path: path.to_path_buf(), source };
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(io)?;
    if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut holder = String::new();
        let _ = file.read_to_string(&mut holder);
        return Err(JournalError::Busy(holder.trim().to_string()));
    }
    file.set_len(0).map_err(io)?;
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    writeln!(file, "{}", std::process::id()).map_err(io)?;
    Ok(Lock(file))
}

/// Reads a journal that anybody may have written. For fuzzing.
pub(crate) fn foreign(bytes: &[u8]) {
    let _ = State::parse(Path::new("journal"), &bytes[..complete(bytes)]);
    // No chance finds the digests that chain the lines.
    for line in bytes.split(|&byte| byte == b'\n') {
        let _ = (Record::read(line, false), Record::read(line, true));
    }
}

#[cfg(test)]
mod tests;
