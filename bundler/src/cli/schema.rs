use super::output;
use crate::manifest::KEYS;
use eggo_terminal::Report;

/// Print a JSON schema of manifests, for editors
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  eggo-bundle schema > manifest.schema.json
and in the manifest:
  # yaml-language-server: $schema=./manifest.schema.json")]
pub(super) struct Args {
    /// Print the reference of all keys as Markdown instead.
    #[arg(long)]
    markdown: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Report> {
    match args.markdown {
        true => output::print(&eggo_yaml::markdown(KEYS)),
        false => output::json(&eggo_yaml::json_schema("manifest of eggo-bundle", KEYS)),
    }
}
