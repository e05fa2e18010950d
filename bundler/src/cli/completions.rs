use super::{Cli, output};
use clap::CommandFactory;
use clap_complete::Shell;
use eggo_terminal::Report;

/// Print a script that completes this program's commands and flags
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle completions bash > /etc/bash_completion.d/eggo-bundle
  eggo-bundle completions zsh > ~/.zfunc/_eggo-bundle")]
pub(super) struct Args {
    /// The shell that is to complete.
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Result<(), Report> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "eggo-bundle", &mut script);
    output::bytes(&script)
}
