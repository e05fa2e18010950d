//! Data on stdout.

use clap::ValueEnum;
use eggo_terminal::Report;
use serde::Serialize;
use std::io::{self, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// A table for people.
    #[default]
    Text,
    Json,
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
