//! A folder in which scripts really run, with programs of the test's in place of the system's own.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::Command;

pub struct Sandbox(tempfile::TempDir);

/// What a script came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub done: bool,
    pub out: String,
    pub err: String,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Sandbox {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn at(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn has(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// A program that scripts find before the system's own.
    pub fn program(&self, name: &str, text: &str) {
        // Not by this process: another test's child could still hold the file open for writing.
        let write = "mkdir -p \"${0%/*}\"; printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\"; chmod 755 \"$0\"";
        let path = self.at(&format!("bin/{name}"));
        assert!(Command::new("sh").args(["-c", write, &path, text]).status().unwrap().success());
    }

    /// Runs a script as a node would.
    pub fn run(&self, script: impl Display) -> Said {
        self.by(Command::new("sh").args(["-c", &format!("set -eu\n{script}")]))
    }

    /// The same with something on its standard input.
    pub fn feed(&self, script: impl Display, input: &[u8]) -> Said {
        let path = self.path("stdin");
        std::fs::write(&path, input).unwrap();
        let stdin = std::fs::File::open(path).unwrap();
        self.by(Command::new("sh").args(["-c", &format!("set -eu\n{script}")]).stdin(stdin))
    }

    pub fn by(&self, command: &mut Command) -> Said {
        let programs = format!("{}:{}", self.at("bin"), std::env::var("PATH").unwrap());
        let output =
            command.env("PATH", programs).env("LC_ALL", "C").current_dir(self.0.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { done: output.status.success(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// The same for one that must succeed and complain of nothing; what it said.
    pub fn does(&self, script: impl Display) -> String {
        let said = self.run(script);
        assert!(said.done && said.err.is_empty(), "{said:?}");
        said.out
    }
}
