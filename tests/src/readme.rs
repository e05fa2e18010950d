//! The README's commands, in its order.

use crate::lab::project;
use crate::site::program;
use std::process::Command;

/// The two programs, which most of its commands call.
pub const PROGRAMS: [&str; 2] = ["eggo-bundle", "eggo-install"];

/// The page.
///
/// # Panics
/// When there is none.
pub fn page() -> String {
    std::fs::read_to_string(project().join("README.md")).expect("a README")
}

/// A line to type.
#[derive(Debug)]
pub struct Line {
    pub words: Vec<String>,
    /// How it ends, as its comment says; else well.
    pub exit: i32,
}

impl Line {
    fn parse(text: &str) -> Self {
        let (command, comment) = text.split_once(" #").unwrap_or((text, ""));
        let exit = comment.split_once("exit code ").and_then(|(_, code)| code.get(..1)?.parse().ok());
        Self { words: command.split_whitespace().map(str::to_string).collect(), exit: exit.unwrap_or(0) }
    }

    /// Whether it calls one of the programs.
    pub fn is_ours(&self) -> bool {
        self.words.first().is_some_and(|first| PROGRAMS.contains(&first.as_str()))
    }

    /// Everything else is the shell's.
    pub fn command(&self) -> Command {
        let mut command =
            if self.is_ours() { Command::new(program(&self.words[0])) } else { Command::new("sh") };
        if self.is_ours() {
            command.args(&self.words[1..]);
        } else {
            command.arg("-c").arg(self.words.join(" "));
        }
        command
    }
}

/// The commands that call one of the programs, and what is copied for them; lines that end with `\` go on. What a run
/// printed (it begins with `$`) and YAML are no commands.
pub fn commands(text: &str) -> Vec<Line> {
    let blocks = text.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix('\n'));
    let blocks = blocks.filter(|block| !block.starts_with("$ ")).map(|block| block.replace("\\\n", " "));
    let mut lines: Vec<Line> =
        blocks.flat_map(|block| block.lines().map(Line::parse).collect::<Vec<_>>()).collect();
    lines.retain(|line| line.is_ours() || line.words.first().is_some_and(|first| first == "cp"));
    lines
}

/// The part under a heading of the second level.
///
/// # Panics
/// When there is no such heading.
pub fn section<'a>(page: &'a str, title: &str) -> &'a str {
    let (_, rest) =
        page.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no section `{title}`"));
    rest.split("\n## ").next().unwrap_or(rest)
}
