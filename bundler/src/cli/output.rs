//! Data on stdout: in which form, and where to.

use clap::{Args, ValueEnum};
use eggo_terminal::Report;
pub(super) use eggo_terminal::{print, print_bytes as bytes, print_json as json};
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Format {
    /// A table for people.
    #[default]
    Text,
    /// For programs.
    Json,
}

#[derive(Debug, Args)]
pub(super) struct FormatArgs {
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// What many other programs call `--format json`.
    #[arg(long, hide = true, conflicts_with = "format")]
    json: bool,
}

impl FormatArgs {
    pub(super) fn get(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

#[derive(Debug, Args)]
pub(super) struct ForceArgs {
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
}

impl ForceArgs {
    /// For what was put together once and may have no second copy.
    pub(super) fn keep(&self, file: &Path) -> Result<(), Report> {
        if self.force || !file.exists() {
            return Ok(());
        }
        Err(Report::new(format!("`{}` already exists", file.display()))
            .hinted("name another file with `-o`, or replace it with `--force`"))
    }
}
