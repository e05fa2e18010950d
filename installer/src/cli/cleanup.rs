//! `eggo-install cleanup`

use super::access::{AccessArgs, confirm};
use super::input::ConfigArgs;
use super::state::StateArgs;
use super::{Format, Global, output, stop, view};
use eggo_deploy::cleanup::Options;
use eggo_deploy::journal::Journal;
use eggo_deploy::operation::{self, CleanupRequest, kept};
use eggo_deploy::stop::Stop;
use eggo_terminal::{Count, Report};
use std::sync::Arc;

/// Take a cluster off its nodes: undoes exactly what the journal says was done.
///
/// Packages that were there before stay, files that were replaced come back. A node that cannot be
/// reached does not stop the others.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  eggo-install cleanup -f deploy.yaml --yes")]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,

    #[command(flatten)]
    state: StateArgs,

    /// Do not ask; needed where there is no terminal
    #[arg(short, long)]
    yes: bool,

    /// Remove loaded images too
    #[arg(long)]
    images: bool,

    /// Forget nodes that cannot be reached: they will not come back
    #[arg(long)]
    forget_gone: bool,

    /// Do not run the precleanup and postcleanup hooks of deploy.yaml
    #[arg(long)]
    skip_hooks: bool,

    /// Keep certificates and kubeconfigs of the cluster on this machine; backups of etcd stay in any case
    #[arg(long)]
    keep_state: bool,

    #[command(flatten)]
    access: AccessArgs,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let config = args.config.load()?.config;
    let state = args.state.of(&config);
    // Events tell the same of a cluster that is not there.
    if !state.exists() && global.format == Format::Table {
        let place = state.display();
        return done(0, &format!(": no cluster `{}` in `{place}`", config.cluster_id), global);
    }
    let question =
        format!("remove cluster `{}` from its {} nodes? [y/N] ", config.cluster_id, config.hosts.len());
    if state.exists() {
        confirm(args.yes, "cleanup destroys a cluster", &question)?;
    }
    let access = args.access.access(&config)?;
    let request = CleanupRequest {
        config: Arc::new(config),
        access,
        state: state.clone(),
        options: Options {
            images: args.images,
            forget_gone: args.forget_gone,
            skip_hooks: args.skip_hooks,
            ..Options::default()
        },
        events: view::sink(global.format),
        stop: Stop::default(),
    };
    let ours = Journal::has_records(&state);
    let undone = stop::carry_out(&request.stop.clone(), operation::cleanup(request))?;
    if !ours && state.exists() {
        let why = format!(": nothing was recorded in `{}`, which stays as it is", state.display());
        return done(undone, &why, global);
    }
    if !args.keep_state && state.exists() {
        let failed = |error| Report::new(format!("cannot remove `{}`: {error}", state.display()));
        if let Some(kept) = kept::remove(&state).map_err(failed)? {
            output::say(format_args!("the backups of etcd are kept in `{}`", kept.display()));
        }
    }
    done(undone, "", global)
}

fn done(undone: usize, why_nothing: &str, global: &Global) -> Result<(), Report> {
    match global.format {
        // The last event has said it.
        Format::Json => Ok(()),
        Format::Table if undone == 0 => output::text_out(&format!("nothing to clean up{why_nothing}\n")),
        Format::Table => output::text_out(&format!("done: {} undone\n", Count(undone, "change", "changes"))),
    }
}
