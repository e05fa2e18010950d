//! `eggo-install cleanup`

use super::access::{AccessArgs, confirm};
use super::input::ConfigArgs;
use super::install::{SelectionArgs, long_help};
use super::state::StateArgs;
use super::{Format, Global, output, stop, view};
use eggo_deploy::cleanup::Options;
use eggo_deploy::operation::{self, Afterwards, CleanupRequest, Fate};
use eggo_deploy::stop::Stop;
use eggo_terminal::{Count, Report};
use std::sync::Arc;

const EXAMPLE: &str = "Example:\n  eggo-install cleanup -f deploy.yaml --yes";

/// Take a cluster off its nodes: undoes exactly what the journal says was done.
///
/// Packages that were there before stay, files that were replaced come back. A node that cannot be
/// reached does not stop the others.
///
/// The cluster's keys on this machine are not deleted: when nothing is left on any node, its state is
/// moved to `CLUSTER.removed-DATE` beside it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = long_help(EXAMPLE, &operation::cleanup_phases()))]
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

    /// Forget nodes that cannot be reached or that others took over: they will not come back
    #[arg(long)]
    forget_gone: bool,

    /// Do not run the precleanup and postcleanup hooks of deploy.yaml
    #[arg(long)]
    skip_hooks: bool,

    /// Leave certificates and kubeconfigs of the cluster in their place on this machine
    #[arg(long)]
    keep_state: bool,

    /// Delete certificates and kubeconfigs of the cluster on this machine; backups of etcd stay
    #[arg(long, conflicts_with = "keep_state")]
    purge: bool,

    #[command(flatten)]
    selection: SelectionArgs,

    #[command(flatten)]
    access: AccessArgs,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let selection = args.selection.without_hooks(args.skip_hooks).checked(&operation::cleanup_phases())?;
    let config = args.config.load()?.config;
    let state = args.state.of(&config);
    if state.exists() {
        let question =
            format!("remove cluster `{}` from its {} nodes? [y/N] ", config.cluster_id, config.hosts.len());
        confirm(args.yes, "cleanup destroys a cluster", &question)?;
    }
    let none = format!(": no cluster `{}` in `{}`", config.cluster_id, state.display());
    // Without a cluster no node is asked, and no password is needed; events say the same.
    if !state.exists() && global.format == Format::Table {
        return output::text_out(&format!("nothing to clean up{none}\n"));
    }
    let access = args.access.access(&config)?;
    let request = CleanupRequest {
        config: Arc::new(config),
        access,
        state: state.clone(),
        options: Options { images: args.images, forget_gone: args.forget_gone, ..Options::default() },
        selection,
        afterwards: match (args.keep_state, args.purge) {
            (true, _) => Afterwards::Keep,
            (_, true) => Afterwards::Purge,
            _ => Afterwards::MoveAside,
        },
        events: view::sink(global.format),
        stop: Stop::default(),
    };
    let cleaned = stop::carry_out(&request.stop.clone(), operation::cleanup(request))?;
    let why_nothing = match &cleaned.folder {
        Fate::Absent => none,
        Fate::NotOurs => {
            format!(": nothing was recorded in `{}`, which stays as it is", state.display())
        }
        Fate::Kept | Fate::MovedAside(_) | Fate::Purged(_) => String::new(),
    };
    match global.format {
        // The last event has said it.
        Format::Json => Ok(()),
        Format::Table if cleaned.undone == 0 => {
            output::text_out(&format!("nothing to clean up{why_nothing}\n"))
        }
        Format::Table => {
            output::text_out(&format!("done: {} undone\n", Count(cleaned.undone, "change", "changes")))
        }
    }
}
