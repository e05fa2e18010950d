//! A host that writes down what it is asked and answers from a script of its own. It proves which
//! commands would run; only a real host proves that they work.

use super::{Command, Host, Output, RemoteError, RemoteFile, Stdin, Written};
use crate::run::Permit;
use bytes::Bytes;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

type Answer = Box<dyn Fn(&str) -> Option<Output> + Send>;

pub struct Fake {
    name: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    files: BTreeMap<String, RemoteFile>,
    answers: Vec<Answer>,
}

/// Something that the host was asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    Run { title: String, script: String, stdin: Bytes },
    Write(RemoteFile),
    Read(String),
}

impl Fake {
    /// A host on which every command succeeds and prints nothing.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), state: Mutex::default() }
    }

    /// Scripts (or titles) that contain `part` print `stdout`. The first answer that fits is taken.
    pub fn on(self, part: &str, stdout: &str) -> Self {
        self.answer(part, Output { status: 0, stdout: stdout.to_string().into(), stderr: Bytes::new() })
    }

    /// Scripts (or titles) that contain `part` fail with `stderr`.
    pub fn fails(self, part: &str, status: u32, stderr: &str) -> Self {
        self.answer(part, Output { status, stdout: Bytes::new(), stderr: stderr.to_string().into() })
    }

    /// The first script (or title) that contains `part` fails with `stderr`.
    pub fn fails_once(self, part: &str, stderr: &str) -> Self {
        let (part, left) = (part.to_string(), AtomicBool::new(true));
        let output = Output { status: 1, stdout: Bytes::new(), stderr: stderr.to_string().into() };
        let answer = move |script: &str| {
            (script.contains(&part) && left.swap(false, Ordering::Relaxed)).then(|| output.clone())
        };
        self.state.lock().unwrap().answers.push(Box::new(answer));
        self
    }

    fn answer(self, part: &str, output: Output) -> Self {
        let part = part.to_string();
        let answer = move |script: &str| script.contains(&part).then(|| output.clone());
        self.state.lock().unwrap().answers.push(Box::new(answer));
        self
    }

    /// A file that is already there.
    pub fn file(self, path: &str, content: &str) -> Self {
        let file = RemoteFile::new(path, content.to_string());
        self.state.lock().unwrap().files.insert(path.into(), file);
        self
    }

    pub fn calls(&self) -> Vec<Call> {
        self.state.lock().unwrap().calls.clone()
    }

    /// The titles of what ran and the paths of what was written, in order.
    pub fn story(&self) -> Vec<String> {
        let calls = self.calls();
        let line = |call: &Call| match call {
            Call::Run { title, .. } => title.clone(),
            Call::Write(file) => format!("write {}", file.path),
            Call::Read(path) => format!("read {path}"),
        };
        calls.iter().map(line).collect()
    }

    /// Every script that ran, in order.
    pub fn scripts(&self) -> Vec<String> {
        let script = |call| match call {
            Call::Run { script, .. } => Some(script),
            _ => None,
        };
        self.calls().into_iter().filter_map(script).collect()
    }

    /// What `path` holds now.
    pub fn content(&self, path: &str) -> Option<String> {
        let state = self.state.lock().unwrap();
        state.files.get(path).map(|file| String::from_utf8_lossy(&file.content).into_owned())
    }

    pub fn written(&self, path: &str) -> Option<RemoteFile> {
        self.state.lock().unwrap().files.get(path).cloned()
    }
}

impl Host for Fake {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&self, command: Command) -> BoxFuture<'_, Result<Output, RemoteError>> {
        Box::pin(async move {
            let script = command.script().to_string();
            let stdin = match command.stdin {
                Stdin::Empty => Bytes::new(),
                Stdin::Bytes(bytes) => bytes,
                Stdin::Stream(mut pieces) => {
                    let mut all = Vec::new();
                    while let Some(piece) = pieces.recv().await {
                        all.extend_from_slice(&piece);
                    }
                    all.into()
                }
            };
            let output = {
                let mut state = self.state.lock().unwrap();
                let both = format!("{}\n{script}", command.title);
                state.calls.push(Call::Run { title: command.title.clone(), script, stdin });
                state.answers.iter().find_map(|answer| answer(&both)).unwrap_or_default()
            };
            if command.checked && !output.success() {
                return Err(RemoteError::failed(&self.name, &command.title, &output, command.secret));
            }
            if let Some(pieces) = command.stdout {
                let _ = pieces.send(output.stdout.clone()).await;
            }
            Ok(output)
        })
    }

    fn write_files(
        &self,
        _: Permit,
        files: Vec<RemoteFile>,
    ) -> BoxFuture<'_, Result<Vec<Written>, RemoteError>> {
        let mut state = self.state.lock().unwrap();
        let mut written = Vec::new();
        for file in files {
            let same = state.files.get(&file.path) == Some(&file);
            written.push(if same { Written::Unchanged } else { Written::Changed });
            state.calls.push(Call::Write(file.clone()));
            state.files.insert(file.path.clone(), file);
        }
        Box::pin(async move { Ok(written) })
    }

    fn read_file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, RemoteError>> {
        let mut state = self.state.lock().unwrap();
        state.calls.push(Call::Read(path.into()));
        let content = state.files.get(path).map(|file| file.content.clone());
        Box::pin(async move { Ok(content) })
    }
}
