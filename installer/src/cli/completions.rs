//! `eggo-install completions`

use super::output;
use clap_complete::Shell;
use eggo_terminal::Report;

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  eggo-install completions bash > /etc/bash_completion.d/eggo-install")]
pub struct Args {
    /// Whose
    shell: Shell,
}

pub fn run(args: Args, mut command: clap::Command) -> Result<(), Report> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "eggo-install", &mut text);
    output::bytes(&text)
}
