//! `eggo-install man`

use super::output;
use eggo_terminal::Report;
use std::path::PathBuf;

/// Print the manual page, or write one for each command into a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  eggo-install man --output /usr/local/share/man/man1")]
pub struct Args {
    /// The folder for eggo-install.1, eggo-install-plan.1 and the others
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub fn run(args: Args, command: clap::Command) -> Result<(), Report> {
    let Some(folder) = args.output else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut page);
        rendered.map_err(|error| Report::new(format!("cannot write the manual page: {error}")))?;
        return output::bytes(&page);
    };
    let failed = |error| Report::new(format!("cannot write to `{}`: {error}", folder.display()));
    std::fs::create_dir_all(&folder).map_err(failed)?;
    clap_mangen::generate_to(command, &folder).map_err(failed)
}
