//! `eggo-install join`

use super::install::long_help;
use super::{Global, install, output};
use eggo_deploy::operation::{self, Goal};
use eggo_deploy::state;
use eggo_terminal::Report;

const EXAMPLE: &str = "Example:\n  eggo-install join bundle.tar.gz -f deploy.yaml";

/// Join the nodes that deploy.yaml has and the cluster has not.
///
/// Add them to deploy.yaml and name the bundle that the cluster was installed from or last upgraded to.
/// What is there already stays as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = long_help(EXAMPLE, &operation::phases()))]
pub struct Args {
    #[command(flatten)]
    install: install::Args,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let config = args.install.target.config.load()?.config;
    let state = args.install.target.state.of(&config);
    let Some(known) = state::load(&state)? else {
        return Err(state::none(&config, &state));
    };
    let has = |name: &str| known.hosts.iter().any(|host| host.name == name);
    let new: Vec<&str> =
        config.hosts.iter().map(|host| host.name.as_str()).filter(|name| !has(name)).collect();
    match new.as_slice() {
        [] => output::say("deploy.yaml has no new node; unfinished ones are finished"),
        names => output::say(format_args!("joining {}", names.join(", "))),
    }
    install::carry_out(args.install, Goal::Join, global)
}
