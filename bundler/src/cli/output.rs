//! Data on stdout.

use clap::{Args, ValueEnum};
use eggo_terminal::Report;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// A table for people.
    #[default]
    Text,
    /// For programs.
    Json,
}

#[derive(Debug, Args)]
pub struct FormatArgs {
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// What many other programs call `--format json`.
    #[arg(long, hide = true, conflicts_with = "format")]
    json: bool,
}

impl FormatArgs {
    pub fn get(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

#[derive(Debug, Args)]
pub struct ForceArgs {
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
}

impl ForceArgs {
    /// For what was put together once and may have no second copy.
    pub fn keep(&self, file: &Path) -> Result<(), Report> {
        if self.force || !file.exists() {
            return Ok(());
        }
        Err(Report::new(format!("`{}` is there already", file.display()))
            .hinted("name another file with `-o`, or replace it with `--force`"))
    }
}

/// Prints text; a reader that has seen enough (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Report> {
    bytes(text.as_bytes())
}

pub fn bytes(bytes: &[u8]) -> Result<(), Report> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Report::new(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

pub fn json(value: &impl Serialize) -> Result<(), Report> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| Report::new(format!("cannot print as JSON: {error}")))?;
    print(&(text + "\n"))
}
