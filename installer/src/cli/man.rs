//! `eggo-install man`

use eggo_terminal::Report;
use std::path::PathBuf;

/// Write manual pages, one for the program and one for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  eggo-install man /usr/local/share/man/man1")]
pub struct Args {
    /// The folder to write them to
    folder: PathBuf,
}

pub fn run(args: Args, command: clap::Command) -> Result<(), Report> {
    let failed = |error| Report::new(format!("cannot write to `{}`: {error}", args.folder.display()));
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(command, &args.folder).map_err(failed)
}
