//! Errors as people read them, and the exit code that goes with each.

use crate::{printable_lines, printable_message};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// Why the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// Something the user can fix: a file, a flag's value, a full disk.
    User = 1,
    Usage = 2,
    /// The bundle is not to be trusted; nothing was touched.
    Untrusted = 3,
    /// Some hosts failed; the others are done.
    SomeHosts = 4,
    /// Our bug.
    Bug = 101,
    /// Asked to stop, as a shell counts a program that Ctrl-C ended.
    Stopped = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Names a kind of error for programs: `journal-busy`. It stays the same when the message gets better.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Code(Cow<'static, str>);

impl Code {
    /// Nobody has given this error a name yet.
    pub const FAILED: Self = Self::new("failed");

    pub const fn new(code: &'static str) -> Self {
        Self(Cow::Borrowed(code))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An error that can say more than its message.
pub trait Explain: Error {
    fn code(&self) -> Code {
        Code::FAILED
    }

    /// Who asked, and what was found: one line each, printed indented below the message.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// One thing to do about it.
    fn hint(&self) -> Option<String> {
        None
    }

    fn exit(&self) -> Exit {
        Exit::User
    }
}

/// A finished explanation, ready to print, to store or to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub code: Code,
    pub message: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    pub exit: Exit,
}

impl Report {
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: Code::FAILED, message: message.into(), notes: Vec::new(), hint: None, exit: Exit::User }
    }

    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Code::new(code);
        self
    }

    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }
}

/// The message, the chain of sources, the notes and the hint of an error.
impl<E: Explain> From<E> for Report {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Transparent wrappers repeat their cause word for word.
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            source = cause.source();
        }
        Self { code: error.code(), message, notes: error.notes(), hint: error.hint(), exit: error.exit() }
    }
}

/// As a terminal may show it, whoever the words are from.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", printable_message(&self.message))?;
        for note in &self.notes {
            for line in note.lines() {
                write!(f, "\n  {}", printable_lines(line))?;
            }
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n\nhint: {}", printable_message(hint))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_message_notes_and_hint() {
        let report = Report::new("no version of `kubelet` satisfies `>= 1.30`")
            .note("found: 1.29.4 in repo `everything`")
            .hinted("add a repo that carries 1.30");
        assert_eq!(
            report.to_string(),
            "error: no version of `kubelet` satisfies `>= 1.30`\n  found: 1.29.4 in repo `everything`\n\n\
             hint: add a repo that carries 1.30"
        );
    }

    #[test]
    fn shows_what_a_terminal_would_obey() {
        let report =
            Report::new("w1: \u{1b}[2Jx\nhint: run rm").note("\u{1b}]0;t\u{7}\nerror: y").hinted("a\rb");
        assert_eq!(
            report.to_string(),
            "error: w1: \\u{1b}[2Jx\n  hint: run rm\n  \\u{1b}]0;t\\u{7}\n  error: y\n\nhint: a\\rb"
        );
    }

    #[test]
    fn is_written_and_read_back() {
        let report = Report::new("no space").code("disk-full").note("/var: 0 B free").exit(Exit::SomeHosts);
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(
            text,
            r#"{"code":"disk-full","message":"no space","notes":["/var: 0 B free"],"exit":"some-hosts"}"#
        );
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
