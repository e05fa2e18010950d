//! `eggo-install facts`

use super::access::AccessArgs;
use super::input::ConfigArgs;
use super::{Format, Global, output, runtime, view};
use eggo_deploy::config::Host;
use eggo_deploy::facts::baseline::Baseline;
use eggo_deploy::facts::{Facts, Look};
use eggo_deploy::operation;
use eggo_deploy::phases::PhaseError;
use eggo_terminal::{Report, Size, Table};

/// Show what the nodes are like: arch, system, package manager, memory, disks, clock.
///
/// Programs of a cluster that a node has already are listed with the versions that they report.
///
/// With --baseline: what the nodes are sure to have, in a file that the manifest of a bundle names as
/// its `baseline`. Packages in it need not be carried. Capture one for each arch, from machines as
/// they are before the install; `baseline: have-{arch}.json` then finds the right one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  eggo-install facts -f deploy.yaml\n  \
    eggo-install facts w1 w2 -f deploy.yaml --format json\n  \
    eggo-install facts w1 w2 -f deploy.yaml --baseline > have-amd64.json")]
pub struct Args {
    /// Only these nodes, by name or address [default: all]
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,

    /// Print the packages that all of the nodes have, as `eggo-bundle` takes them
    #[arg(long)]
    baseline: bool,

    #[command(flatten)]
    config: ConfigArgs,

    #[command(flatten)]
    access: AccessArgs,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let config = args.config.load()?.config;
    let names = config.named(&args.nodes)?;
    let chosen = |host: &&Host| names.is_empty() || names.contains(&host.name);
    let hosts: Vec<Host> = config.hosts.iter().filter(chosen).cloned().collect();
    let access = args.access.access(&config)?;
    let events = view::quiet();
    let (surveyed, failures) = runtime()?.block_on(async {
        let (reached, mut failures) = operation::connect(&hosts, &access, &events).await;
        let asked = Look::all(&config.network.cni_bin_dirs);
        let (surveyed, more) = operation::facts_of(reached, asked, access.limits()).await;
        failures.extend(more);
        (surveyed, failures)
    });
    let facts: Vec<Facts> = surveyed.into_iter().map(|node| node.facts).collect();
    match (args.baseline, global.format) {
        // Without those that did not answer it would promise too much.
        (true, _) if !failures.is_empty() => {}
        (true, _) => output::json(&Baseline::of(&facts)?)?,
        (false, Format::Json) => output::json(&facts)?,
        (false, Format::Table) if facts.is_empty() => {}
        (false, Format::Table) => output::text_out(&render(&facts))?,
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
    let mut text = table.to_string();
    let programs = programs(facts);
    if !programs.is_empty() {
        text.push('\n');
        text.push_str(&programs.to_string());
    }
    text
}

/// The programs of a cluster that the nodes have already.
fn programs(facts: &[Facts]) -> Table {
    let mut table = Table::new(["NODE", "PROGRAM", "VERSION", "PATH"]);
    for node in facts {
        for (name, program) in &node.programs {
            let version = program.version.map(|version| version.to_string()).unwrap_or_default();
            table.row([node.node.clone(), name.clone(), version, program.path.clone()]);
        }
    }
    table
}
