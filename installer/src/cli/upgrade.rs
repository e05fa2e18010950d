//! `eggo-install upgrade`

use super::install::long_help;
use super::{Format, Global, install, output};
use eggo_deploy::cluster::upgrade::Options;
use eggo_deploy::operation::{self, Goal};
use eggo_terminal::Report;

const EXAMPLES: &str = "Examples:\n  eggo-install upgrade new.tar.gz -f deploy.yaml\n  \
    eggo-install upgrade delta.tar.gz --base old.tar.gz -f deploy.yaml --batch 3\n  \
    eggo-install upgrade new.tar.gz -f deploy.yaml --only distribute";

/// Bring a running cluster to the version that a newer bundle carries.
///
/// Content goes to all nodes first. Then etcd is backed up, and the control plane is upgraded one
/// node after the other, the workers in batches, drained before, the load balancer at last. A node that
/// does not come back gets its former programs again, if they were binaries of a bundle. Those of
/// packages cannot be rolled back, nor can an etcd that came up.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES, &operation::upgrade_phases()))]
pub struct Args {
    /// How many workers are drained at the same time
    #[arg(long, value_name = "N", default_value_t = Options::default().batch)]
    batch: usize,

    #[command(flatten)]
    selection: install::SelectionArgs,

    #[command(flatten)]
    consent: install::PlanConsentArgs,

    #[command(flatten)]
    target: install::TargetArgs,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let selection = args.selection.checked(&operation::upgrade_phases())?;
    let (mut request, _) = install::request(args.target, global)?;
    (request.options.goal, request.options.selection) = (Goal::Upgrade, selection);
    request.rolling = Options { batch: args.batch, ..Options::default() };
    let done = args.consent.carry_out(request, "this drains nodes", "upgrade to this?", global)?;
    match global.format {
        // The last event has said it.
        Format::Json => Ok(()),
        Format::Table => output::text_out(&format!("{}\n", install::done(&done))),
    }
}
