//! `eggo-install schema`

use super::output;
use eggo_deploy::config::KEYS;
use eggo_terminal::Report;

/// Print a JSON schema of deploy.yaml for editors.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  eggo-install schema > deploy.schema.json\n\
    and in deploy.yaml:\n  # yaml-language-server: $schema=./deploy.schema.json")]
pub struct Args {
    /// Print the reference of all keys as Markdown instead
    #[arg(long)]
    markdown: bool,
}

pub fn run(args: Args) -> Result<(), Report> {
    match args.markdown {
        true => output::text_out(&eggo_yaml::markdown(KEYS)),
        false => output::json(&eggo_yaml::json_schema("deploy.yaml of eggo", KEYS)),
    }
}
