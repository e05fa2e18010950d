use super::{Cli, output};
use crate::error::Error;
use clap::CommandFactory;
use eggo_terminal::Report;
use std::path::PathBuf;

/// Print the manual page, or write one for each command into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle man | man -l -
  eggo-bundle man -o /usr/local/share/man/man1")]
pub(super) struct Args {
    /// The folder for eggo-bundle.1, eggo-bundle-build.1 and the others.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<(), Report> {
    let failed = |error: std::io::Error| Report::new(format!("cannot print the manual: {error}"));
    match &args.output {
        Some(folder) => {
            let written = std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
            written.map_err(|error| Error::unwritten(folder)(error).into())
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(failed)?;
            output::bytes(&page)
        }
    }
}
