//! `eggo-install plan`

use super::bundle::BundleArgs;
use super::input::ConfigArgs;
use super::{Format, Global, output};
use crate::plan::{self, NodePlan, Options, Plan};
use eggo_bundles::Kind;
use eggo_terminal::{Report, Size, Table};
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
    bundle: BundleArgs,

    #[command(flatten)]
    config: ConfigArgs,

    /// Do not ask the nodes what they have already
    #[arg(long, required = true)]
    no_connect: bool,

    /// Let `type: repo` items come from the nodes' own repositories
    #[arg(long)]
    node_repos: bool,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let bundle = args.bundle.trust.open(&args.bundle.bundle)?;
    let config = args.config.load()?.config;
    let options = Options { node_repos: args.node_repos };
    let plan = plan::plan(&config, bundle.index(), &BTreeMap::new(), options)?;
    match global.format {
        Format::Json => output::json(&plan),
        Format::Table => output::text_out(&render(&plan)),
    }
}

fn render(plan: &Plan) -> String {
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
    let total = Size(plan.bytes());
    text.push_str(&format!("\ncluster `{}`: {total} to {} nodes\n", plan.cluster, plan.nodes.len()));
    text
}

/// eggo's tarballs have archives of images, of which each counts as one.
fn images(node: &NodePlan) -> usize {
    if node.images.is_empty() { node.of_kind(Kind::Image).count() } else { node.images.len() }
}
