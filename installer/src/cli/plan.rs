//! `eggo-install plan`

use super::access::AccessArgs;
use super::bundle::ContentArgs;
use super::input::ConfigArgs;
use super::{Format, Global, output, runtime, view};
use eggo_bundles::Kind;
use eggo_deploy::operation;
use eggo_deploy::plan::{self, NodePlan, Options, Plan};
use eggo_terminal::{Count, Report, Size, Table};
use std::collections::BTreeMap;

/// Show what each node would get and do; touches nothing.
///
/// With --no-connect it plans from deploy.yaml and the bundle alone, as a rehearsal outside of
/// the gap: whatever deploy.yaml names and the bundle lacks is listed for every arch.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  eggo-install plan bundle.tar.gz -f deploy.yaml --no-connect --format json"
)]
pub struct Args {
    #[command(flatten)]
    content: ContentArgs,

    #[command(flatten)]
    config: ConfigArgs,

    /// Do not ask the nodes what they are and have already
    #[arg(long)]
    no_connect: bool,

    /// Let `type: repo` items come from the nodes' own repositories
    #[arg(long)]
    node_repos: bool,

    #[command(flatten)]
    access: AccessArgs,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let config = args.config.load()?.config;
    let content = args.content.open(&config)?;
    let options = Options { node_repos: args.node_repos };
    let plan = if args.no_connect {
        plan::plan(&config, content.index(), &BTreeMap::new(), options)?
    } else {
        let access = args.access.access(&config)?;
        let surveyed = runtime()?.block_on(operation::survey(&config.hosts, &access, &view::quiet()))?;
        operation::plan_for(&config, content.index(), &surveyed, options)?
    };
    match global.format {
        Format::Json => output::json(&plan),
        Format::Table => output::text_out(&render(&plan)),
    }
}

pub fn render(plan: &Plan) -> String {
    let mut table = Table::new(["NODE", "ADDRESS", "ARCH", "ROLES", "PACKAGES", "FILES", "IMAGES", "BYTES"])
        .right(&[4, 5, 6, 7]);
    for node in &plan.nodes {
        let roles: Vec<&str> = node.roles.iter().map(|role| role.as_str()).collect();
        let count = |kinds: &[Kind]| {
            let items = node.items.iter().filter(|wanted| kinds.contains(&wanted.item.kind));
            items.count().to_string()
        };
        table.row([
            node.name.clone(),
            node.ip.to_string(),
            node.arch.to_string(),
            roles.join(","),
            count(&[Kind::Pkg]),
            count(&[Kind::Bin, Kind::File, Kind::Dir, Kind::Addon]),
            images(node).to_string(),
            Size(node.bytes).to_string(),
        ]);
    }
    let mut text = format!("{table}\n");
    for node in &plan.nodes {
        text.push_str(&format!("{}: {}\n", node.name, node.steps.join(" → ")));
    }
    if plan.nodes.iter().any(|node| !node.expects.is_empty()) {
        text.push_str("\nnot in the bundle, must be there already:\n");
    }
    for node in plan.nodes.iter().filter(|node| !node.expects.is_empty()) {
        text.push_str(&format!("{}: {}\n", node.name, node.expects.join(", ")));
    }
    if let Some(plugin) = &plan.network_without_addon {
        text.push_str(&format!(
            "\nno addon is called `{plugin}` (`network.plugin`): the pods' network must come from elsewhere\n"
        ));
    }
    let (total, to_send) = (plan.bytes(), plan.nodes.iter().map(|node| node.bytes_to_send).sum::<u64>());
    let there = match total - to_send {
        0 => String::new(),
        there if there == total => ", all of it there already".to_string(),
        there => format!(", {} of it there already", Size(there)),
    };
    let nodes = Count(plan.nodes.len(), "node", "nodes");
    text.push_str(&format!("\ncluster `{}`: {} for {nodes}{there}\n", plan.cluster, Size(total)));
    text
}

/// eggo's tarballs have archives of images, of which each counts as one.
fn images(node: &NodePlan) -> usize {
    if node.images.is_empty() { node.of_kind(Kind::Image).count() } else { node.images.len() }
}
