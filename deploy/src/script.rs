//! A script of ours: files of shell, and the values that they are given.
//!
//! What runs on a node is in `.sh` files, POSIX sh that `shellcheck` reads. A value never becomes part of
//! their text: it comes as a variable (in capitals) or as an argument, quoted here and nowhere else. What runs a script
//! on a node is [`crate::remote`].

mod file;
mod quote;

pub use file::{KEPT, RemoteFile};
pub use quote::{quote, words};

use std::fmt;

/// Functions that many scripts use: settle, note, remove.
pub const COMMON: &str = include_str!("script/common.sh");
/// The last file of a script whose arguments are a function of the files before it and that one's arguments.
pub const CALL: &str = include_str!("script/call.sh");

#[derive(Debug, Clone)]
pub struct Script {
    texts: Vec<&'static str>,
    variables: Vec<(&'static str, String)>,
    arguments: Vec<String>,
    calls: Vec<Vec<String>>,
}

impl Script {
    /// Files that follow each other: first the functions, then what uses them.
    pub fn new<const N: usize>(texts: [&'static str; N]) -> Self {
        Self { texts: texts.into(), variables: Vec::new(), arguments: Vec::new(), calls: Vec::new() }
    }

    /// One more file.
    pub fn and(mut self, text: &'static str) -> Self {
        self.texts.push(text);
        self
    }

    /// A file that comes before all others.
    pub fn after(mut self, text: &'static str) -> Self {
        self.texts.insert(0, text);
        self
    }

    /// A variable of the script's; programs that it starts do not get it. The last value counts.
    pub fn set(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    pub fn arg(mut self, value: impl Into<String>) -> Self {
        self.arguments.push(value.into());
        self
    }

    pub fn args<S: Into<String>>(mut self, values: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(values.into_iter().map(Into::into));
        self
    }

    /// After the files, a call of one of their functions: its name and its arguments.
    pub fn then<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.calls.push(words.into_iter().map(Into::into).collect());
        self
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            writeln!(f, "{name}={}", quote(value))?;
        }
        f.write_str("set --")?;
        for value in &self.arguments {
            write!(f, " {}", quote(value))?;
        }
        f.write_str("\n")?;
        self.texts.iter().try_for_each(|text| f.write_str(text))?;
        self.calls.iter().try_for_each(|call| writeln!(f, "{}", words(call)))
    }
}

impl From<&'static str> for Script {
    fn from(text: &'static str) -> Self {
        Self::new([text])
    }
}

impl From<Script> for String {
    fn from(script: Script) -> Self {
        script.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_arrive_as_they_are() {
        let values = ["", "two words", "it's", "$(reboot)", "a\nb", "-e", "; exit 7", "*"];
        let script = Script::new(["printf '%s|' \"$V\" \"$@\"\n"]).set("V", "$V '\n").args(values);
        let output = std::process::Command::new("sh").args(["-euc", &script.to_string()]).output().unwrap();
        let expected: String = ["$V '\n"].iter().chain(&values).map(|value| format!("{value}|")).collect();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }

    #[test]
    fn functions_of_files_are_called_in_order() {
        let script = Script::new(["say() { printf '%s|' \"$@\"; }\n"]).after("set -f\n").arg("unused");
        let script = script.then(["say", "$(a)", "*"]).then(["say", "b"]).to_string();
        let output = std::process::Command::new("sh").args(["-euc", &script]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "$(a)|*|b|");
    }

    #[test]
    fn only_what_is_below_its_folder_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| format!("{}/{name}", folder.path().display());
        let removes = |below: &str, path: &str| {
            std::fs::create_dir_all(at("a/b")).unwrap();
            let script = Script::new([COMMON, "remove \"$@\"\n"]).args([below, path]).to_string();
            let output = std::process::Command::new("sh").args(["-euc", &script]).output().unwrap();
            output.status.success() && !folder.path().join("a/b").exists()
        };
        assert!(removes(&at("a"), &at("a/b")));
        for (below, path) in
            [("", at("a/b")), (&at("b"), at("a/b")), (&at("a/b"), at("a/b")), (&at("a/c"), at("a/c/../b"))]
        {
            assert!(!removes(below, &path), "{below} {path}");
        }
        assert!(!removes(&at("a"), ""));
    }
}
