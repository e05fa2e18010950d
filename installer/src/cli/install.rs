//! `eggo-install BUNDLE -f deploy.yaml`: the whole install.

use super::access::{AccessArgs, can_ask, yes};
use super::bundle::ContentArgs;
use super::input::ConfigArgs;
use super::state::StateArgs;
use super::{Format, Global, output, plan as plan_view, stop, view};
use eggo_deploy::operation::{self, Confirm, InstallRequest, Installed, Options};
use eggo_deploy::phases::Selection;
use eggo_deploy::plan::{self, Plan};
use eggo_deploy::preflight::{self, Verdict};
use eggo_deploy::state::{Folder, Name};
use eggo_deploy::stop::Stop;
use eggo_terminal::{Count, Report};
use std::sync::Arc;

/// Install a bundle: the same as `eggo-install BUNDLE`.
///
/// Verifies the bundle, connects to every node of deploy.yaml, checks that all are fit, shows the
/// plan, and carries it out. Killed or cut off anywhere, the same command goes on where it stopped;
/// a second run changes nothing.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub consent: ConsentArgs,

    /// Phases to leave out, by name
    #[arg(long, value_name = "PHASE,…", value_delimiter = ',')]
    pub skip: Vec<String>,

    /// The only phases to run, by name
    #[arg(long, value_name = "PHASE,…", value_delimiter = ',')]
    pub only: Vec<String>,

    #[command(flatten)]
    pub target: TargetArgs,
}

/// What goes where, shared by the commands that bring content to nodes or look whether they would take it.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct TargetArgs {
    #[command(flatten)]
    pub content: ContentArgs,

    #[command(flatten)]
    pub config: ConfigArgs,

    #[command(flatten)]
    pub state: StateArgs,

    /// Preflight checks whose errors do not count, by name; `check --list` shows the names
    #[arg(long, alias = "ignore", value_name = "CHECK,…", value_delimiter = ',')]
    pub ignore_preflight: Vec<String>,

    /// Let `type: repo` items come from the nodes' own repositories
    #[arg(long)]
    pub node_repos: bool,

    #[command(flatten)]
    pub access: AccessArgs,
}

#[derive(Debug, Clone, clap::Args)]
pub struct ConsentArgs {
    /// Do not ask before changing anything; needed where there is no terminal
    #[arg(short, long)]
    pub yes: bool,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    carry_out(args, false, global)
}

/// Installs, or joins to a cluster that is there, and says what came of it.
pub fn carry_out(args: Args, joining: bool, global: &Global) -> Result<(), Report> {
    let confirm = Ask { yes: args.consent.yes, format: global.format };
    let (mut request, state) = request(args.target, global)?;
    let (skip, only) = (args.skip.into_iter().collect(), args.only.into_iter().collect());
    request.options.selection = Selection { skip, only };
    request.options.joining = joining;
    can_ask(confirm.yes, "this changes nodes")?;
    let installed = stop::carry_out(&request.stop.clone(), operation::install(request, &confirm))?;
    match global.format {
        // The last event has said it.
        Format::Json => Ok(()),
        Format::Table if installed.changed == 0 => {
            output::text_out(&format!("nothing to do: all {} nodes are as they should be\n", installed.nodes))
        }
        Format::Table => {
            let kubeconfig = Folder::new(state).path(&Name::Admin);
            // Phases may have been left out.
            let where_it_is = match kubeconfig.exists() {
                true => format!("; the admin's kubeconfig is {}", kubeconfig.display()),
                false => String::new(),
            };
            output::text_out(&format!("{}{where_it_is}\n", done(&installed)))
        }
    }
}

/// What an install or an upgrade came to.
pub fn done(installed: &Installed) -> String {
    let Installed { changed, nodes } = *installed;
    format!("done: {} on {}", Count(changed, "change", "changes"), Count(nodes, "node", "nodes"))
}

/// Opens and verifies the content before anything else, then the config, then the way onto the nodes.
pub fn request(args: TargetArgs, global: &Global) -> Result<(InstallRequest, std::path::PathBuf), Report> {
    let options = Options {
        ignore: preflight::parse_checks(&args.ignore_preflight)?,
        plan: plan::Options { node_repos: args.node_repos },
        ..Options::default()
    };
    let verified = args.content.bundle.as_ref().map(|path| args.content.trust.content(path)).transpose()?;
    let config = args.config.load()?.config;
    let content = match verified {
        Some(content) => content,
        None => args.content.open(&config)?,
    };
    let access = args.access.access(&config)?;
    let state = args.state.of(&config);
    let request = InstallRequest {
        config: Arc::new(config),
        access,
        index: Arc::new(content.index().clone()),
        source: Arc::new(content),
        state: state.clone(),
        options,
        events: view::sink(global.format),
        stop: Stop::default(),
    };
    Ok((request, state))
}

/// Shows the plan, and asks where a person can answer.
pub struct Ask {
    pub yes: bool,
    pub format: Format,
}

impl Confirm for Ask {
    fn confirm(&self, plan: &Plan, _verdict: &Verdict) -> bool {
        if self.format == Format::Table {
            output::say(plan_view::render(plan).trim_end());
        }
        self.yes || yes("\ninstall this? [y/N] ")
    }
}
