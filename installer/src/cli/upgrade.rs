//! `eggo-install upgrade`

use super::access::can_ask;
use super::{Format, Global, install, output, stop};
use eggo_deploy::cluster::upgrade::Options;
use eggo_deploy::operation;
use eggo_terminal::Report;

/// The phases of an upgrade that nothing else rests on.
const SKIPPABLE: [&str; 4] = ["simulate", "dns", "addons", "prune"];

/// Bring a running cluster to the version that a newer bundle carries.
///
/// Content goes to all nodes first. Then etcd is backed up, and the control plane is upgraded one
/// node after the other, the workers in batches, drained before, the load balancer at last. A node that
/// does not come back gets its former programs again, if they were binaries of a bundle. Those of
/// packages have no way back, nor has an etcd that came up.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  eggo-install upgrade new.tar.gz -f deploy.yaml\n  \
    eggo-install upgrade delta.tar.gz --base old.tar.gz -f deploy.yaml --batch 3")]
pub struct Args {
    /// How many workers are drained at the same time
    #[arg(long, value_name = "N", default_value_t = Options::default().batch)]
    batch: usize,

    /// What to leave as it is, by the name of its phase: simulate, dns, addons, prune
    #[arg(long, value_name = "PHASE,…", value_delimiter = ',', value_parser = SKIPPABLE)]
    skip: Vec<String>,

    #[command(flatten)]
    consent: install::ConsentArgs,

    #[command(flatten)]
    target: install::TargetArgs,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let confirm = install::Ask { yes: args.consent.yes, format: global.format };
    let (mut request, _) = install::request(args.target, global)?;
    request.options.selection.skip = args.skip.into_iter().collect();
    can_ask(confirm.yes, "this drains nodes")?;
    let rolling = Options { batch: args.batch, ..Options::default() };
    let done = stop::carry_out(&request.stop.clone(), operation::upgrade(request, rolling, &confirm))?;
    match global.format {
        // The last event has said it.
        Format::Json => Ok(()),
        Format::Table => output::text_out(&format!("{}\n", install::done(&done))),
    }
}
