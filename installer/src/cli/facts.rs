//! `eggo-install facts`

use super::access::AccessArgs;
use super::input::ConfigArgs;
use super::{Format, Global, output, runtime, view};
use crate::facts::Facts;
use crate::operation;
use crate::phases::PhaseError;
use eggo_terminal::{Report, Size, Table};

/// Show what the nodes are like: arch, system, package manager, memory, disks, clock.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  eggo-install facts -f deploy.yaml --format json")]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,

    #[command(flatten)]
    access: AccessArgs,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let config = args.config.load()?.config;
    let access = args.access.access(&config)?;
    let events = view::quiet();
    let (surveyed, failures) = runtime()?.block_on(async {
        let (reached, mut failures) = operation::connect(&config.hosts, &access, &events).await;
        let reached = reached.into_iter().map(|(host, remote)| (host, remote as _)).collect();
        let (surveyed, more) = operation::facts_of(reached).await;
        failures.extend(more);
        (surveyed, failures)
    });
    let facts: Vec<Facts> = surveyed.into_iter().map(|node| node.facts).collect();
    match global.format {
        Format::Json => output::json(&facts)?,
        Format::Table if facts.is_empty() => {}
        Format::Table => output::text_out(&render(&facts))?,
    }
    // Those that answered are shown all the same.
    if failures.is_empty() { Ok(()) } else { Err(PhaseError::Nodes(failures).report("Connect")) }
}

fn render(facts: &[Facts]) -> String {
    let mut table =
        Table::new(["NODE", "ARCH", "SYSTEM", "PACKAGES", "CPUS", "MEMORY", "FREE ON /", "CLOCK"])
            .right(&[4, 5, 6, 7]);
    for node in facts {
        let manager = node.manager.map(|manager| format!("{manager:?}").to_lowercase()).unwrap_or_default();
        let free = node.mount("/").map(|mount| Size(mount.free).to_string()).unwrap_or_default();
        table.row([
            node.node.clone(),
            node.machine.clone(),
            node.os.name.clone(),
            manager,
            node.cpus.to_string(),
            Size(node.memory).to_string(),
            free,
            format!("{:+} s", node.clock_skew),
        ]);
    }
    table.to_string()
}
