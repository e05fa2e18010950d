//! `eggo-install delete`

use super::access::confirm;
use super::install::{SelectionArgs, long_help};
use super::life::{LifeArgs, done};
use super::{Global, stop};
use eggo_deploy::operation::{self, DeleteOptions};
use eggo_deploy::phases::Selection;
use eggo_terminal::Report;
use std::time::Duration;

const EXAMPLE: &str = "Example:\n  eggo-install delete worker3 -f deploy.yaml";

/// Take nodes out of the cluster: checked first, drained, then cleaned up.
///
/// Refused if etcd would lose its quorum, the last master would go, or a node cannot be reached.
/// deploy.yaml must still name the nodes; take them out of it afterwards.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = long_help(EXAMPLE, &operation::delete_phases()))]
pub struct Args {
    /// The nodes to take out, by name or address
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,

    /// Do not ask; needed where there is no terminal
    #[arg(short, long)]
    yes: bool,

    /// How many seconds pods may take to leave
    #[arg(long, value_name = "SECONDS", default_value_t = DeleteOptions::default().drain.as_secs())]
    drain_timeout: u64,

    /// Forget nodes that cannot be reached or that others took over: they will not come back
    #[arg(long)]
    forget_gone: bool,

    /// Do not run the precleanup and postcleanup hooks of deploy.yaml
    #[arg(long)]
    skip_hooks: bool,

    #[command(flatten)]
    selection: SelectionArgs,

    #[command(flatten)]
    life: LifeArgs,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let selection = args.selection.without_hooks(args.skip_hooks).checked(&operation::delete_phases())?;
    let request = args.life.operation(global)?;
    let names = request.named(&args.nodes)?;
    let question = question(&names, &selection);
    confirm(args.yes, "this takes nodes out", &question)?;
    let drain = Duration::from_secs(args.drain_timeout);
    let options = DeleteOptions { drain, forget_gone: args.forget_gone, selection };
    stop::carry_out(&request.stop.clone(), operation::delete(request, &names, options))?;
    done(&format!("take {} out of deploy.yaml too", names.join(", ")), global)
}

/// All that becomes of the nodes, as far as it is selected.
fn question(names: &[String], selection: &Selection) -> String {
    let (them, of_them) = if names.len() > 1 { ("them", "on them") } else { ("it", "on it") };
    let parts = [
        ("drain", format!("drain {them}")),
        ("forget", format!("take {them} out of the cluster")),
        ("undo", format!("uninstall what was installed {of_them}")),
    ];
    let wanted = parts.into_iter().filter(|(phase, _)| selection.wants(phase));
    let parts: Vec<String> = wanted.map(|(_, part)| part).collect();
    format!("{}: {}? [y/N] ", names.join(", "), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_asked_knows_what_becomes_of_which_nodes() {
        let names = ["w1", "w2"].map(String::from);
        assert_eq!(
            question(&names, &Selection::default()),
            "w1, w2: drain them, take them out of the cluster, uninstall what was installed on them? [y/N] "
        );
        let selection = Selection { skip: ["undo".to_string()].into(), ..Selection::default() };
        assert_eq!(question(&names[..1], &selection), "w1: drain it, take it out of the cluster? [y/N] ");
    }
}
