//! `eggo-install list`

use super::state::StateArgs;
use super::{Format, Global, output};
use eggo_bundles::Role;
use eggo_deploy::state;
use eggo_terminal::{Report, Table};

/// List the clusters that were installed from this machine.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    state: StateArgs,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let state::Listed { clusters, damaged } = state::list(&args.state.state_dir)?;
    for report in &damaged {
        output::say(format_args!("warning: {}", report.message));
    }
    if global.format == Format::Json {
        return output::json(&clusters);
    }
    if clusters.is_empty() && damaged.is_empty() {
        return output::text_out(&format!("no cluster in {}\n", args.state.state_dir.display()));
    }
    let mut table = Table::new(["CLUSTER", "ENDPOINT", "MASTERS", "WORKERS", "RUNTIME"]);
    for config in &clusters {
        let names =
            |role| config.with_role(role).map(|host| host.name.as_str()).collect::<Vec<_>>().join(",");
        table.row([
            config.cluster_id.clone(),
            config.api.endpoint.to_string(),
            names(Role::Master),
            names(Role::Worker),
            config.runtime.kind.to_string(),
        ]);
    }
    output::text_out(&table.to_string())
}
