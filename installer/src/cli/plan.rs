//! `eggo-install plan`

use super::install::{SelectionArgs, TargetArgs};
use super::{Format, Global, check, install, output, runtime, view};
use eggo_bundles::Kind;
use eggo_deploy::operation::{self, Goal, Options, Prepared};
use eggo_deploy::packages::Versions;
use eggo_deploy::plan::{self, NodePlan, Plan};
use eggo_terminal::{Count, Report, Size, Table};
use std::collections::BTreeMap;

/// Show what each node would get and do; changes nothing.
///
/// Says for each node which packages would be installed, upgraded and kept, what the checks found, and the
/// digest of the plan: `eggo-install BUNDLE --approve DIGEST` goes on without asking, now or later, as long as
/// the plan is the same. Give both commands the same options.
///
/// With --no-connect it plans from deploy.yaml and the bundle alone, as a rehearsal outside of
/// the gap: whatever deploy.yaml names and the bundle lacks is listed for every arch.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  eggo-install plan bundle.tar.gz -f deploy.yaml\n  \
    eggo-install plan new.tar.gz -f deploy.yaml --for upgrade\n  \
    eggo-install plan bundle.tar.gz -f deploy.yaml --no-connect --format json")]
pub struct Args {
    /// Do not ask the nodes what they are and have already
    #[arg(long)]
    no_connect: bool,

    #[command(flatten)]
    goal: GoalArgs,

    #[command(flatten)]
    selection: SelectionArgs,

    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Debug, Clone, clap::Args)]
pub struct GoalArgs {
    /// The command that the bundle is meant for
    #[arg(long = "for", value_name = "COMMAND", value_enum, default_value_t)]
    command: Command,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Command {
    #[default]
    Install,
    Join,
    Upgrade,
}

impl GoalArgs {
    pub fn goal(&self) -> Goal {
        match self.command {
            Command::Install => Goal::Install,
            Command::Join => Goal::Join,
            Command::Upgrade => Goal::Upgrade,
        }
    }
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let goal = args.goal.goal();
    let selection = match goal {
        Goal::Install | Goal::Join => args.selection.checked(&operation::phases())?,
        Goal::Upgrade => args.selection.checked(&operation::upgrade_phases())?,
    };
    if args.no_connect {
        let config = args.target.config.load()?.config;
        let content = args.target.content.open(&config)?;
        let plan = plan::Options { node_repos: args.target.node_repos };
        let options = Options { goal, selection, plan, ..Options::default() };
        let plan = operation::plan(&config, content.index(), &BTreeMap::new(), &options)?;
        return match global.format {
            Format::Json => output::json(&plan),
            Format::Table => output::text_out(&render_plan(&plan)),
        };
    }
    let (mut request, _) = install::request(args.target, global)?;
    (request.options.goal, request.options.selection) = (goal, selection);
    request.events = view::quiet();
    let ready = runtime()?.block_on(operation::prepare(request))?;
    let prepared = ready.prepared();
    if global.format == Format::Json {
        return output::json(prepared);
    }
    let mut text = render(prepared);
    if !prepared.verdict.findings.is_empty() {
        text.push_str(&format!("\n{}", check::table(&prepared.verdict)));
    }
    match prepared.verdict.errors() {
        0 => text.push_str(&format!("\nplan {}\n", prepared.digest)),
        n => text.push_str(&format!("\nnot possible before {} fixed\n", Count(n, "error is", "errors are"))),
    }
    output::text_out(&text)
}

/// The plan, and what becomes of each node's packages.
pub fn render(prepared: &Prepared) -> String {
    let mut text = render_plan(&prepared.plan);
    let mut alike: Vec<(String, Vec<&str>)> = Vec::new();
    for node in &prepared.plan.nodes {
        let Some(lines) = packages(node) else { continue };
        match alike.iter_mut().find(|(known, _)| *known == lines) {
            Some((_, nodes)) => nodes.push(&node.name),
            None => alike.push((lines, vec![&node.name])),
        }
    }
    if !alike.is_empty() {
        text.push_str("\npackages:\n");
    }
    for (lines, nodes) in alike {
        text.push_str(&format!("{}\n{lines}", nodes.join(", ")));
    }
    if let Some(upgrade) = &prepared.upgrade {
        text.push_str(&format!("\nKubernetes {}:\n", upgrade.to));
        for change in upgrade.masters.iter().chain(&upgrade.workers) {
            text.push_str(&format!("{}: {} → {}\n", change.node, change.from, upgrade.to));
        }
    }
    text
}

fn packages(node: &NodePlan) -> Option<String> {
    let changes = node.packages.as_ref()?;
    let bundled = |one: &Versions| format!("{} {}", one.name, one.bundled);
    let installed = |one: &Versions| one.installed.clone().unwrap_or_default();
    let lists = [
        ("install", changes.new.iter().map(bundled).collect::<Vec<_>>()),
        (
            "upgrade",
            changes
                .upgraded
                .iter()
                .map(|one| format!("{} {} → {}", one.name, installed(one), one.bundled))
                .collect(),
        ),
        ("keep", changes.kept.iter().map(|one| format!("{} {}", one.name, installed(one))).collect()),
    ];
    let filled = lists.into_iter().filter(|(_, list)| !list.is_empty());
    Some(filled.map(|(what, list)| format!("  {what}: {}\n", list.join(", "))).collect())
}

fn render_plan(plan: &Plan) -> String {
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
        text.push_str("\nnot in the bundle, must already be installed:\n");
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
        there if there == total => ", all of it already there".to_string(),
        there => format!(", {} of it already there", Size(there)),
    };
    let nodes = Count(plan.nodes.len(), "node", "nodes");
    text.push_str(&format!("\ncluster `{}`: {} for {nodes}{there}\n", plan.cluster, Size(total)));
    text
}

/// eggo's tarballs have archives of images, of which each counts as one.
fn images(node: &NodePlan) -> usize {
    if node.images.is_empty() { node.of_kind(Kind::Image).count() } else { node.images.len() }
}
