//! `eggo-install BUNDLE -f deploy.yaml`: the whole install.

use super::access::{AccessArgs, can_ask};
use super::bundle::ContentArgs;
use super::input::ConfigArgs;
use super::state::StateArgs;
use super::surroundings::operator;
use super::{Format, Global, output, plan as plan_view, stop, view};
use eggo_bundles::Digest;
use eggo_deploy::cluster::upgrade;
use eggo_deploy::operation::{self, Goal, InstallRequest, Installed, Options};
use eggo_deploy::phases::{self, Phase, Selection};
use eggo_deploy::plan;
use eggo_deploy::preflight;
use eggo_deploy::state::{Folder, Name};
use eggo_deploy::stop::Stop;
use eggo_terminal::{Count, Report, yes};
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Install a bundle: the same as `eggo-install BUNDLE`.
///
/// Verifies the bundle, connects to every node of deploy.yaml, checks that all are fit, shows the
/// plan, and carries it out. Killed or interrupted anywhere, the same command goes on where it stopped;
/// a second run changes nothing.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub consent: PlanConsentArgs,

    #[command(flatten)]
    pub selection: SelectionArgs,

    #[command(flatten)]
    pub target: TargetArgs,
}

/// The phases are listed at the end of each command's help.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct SelectionArgs {
    /// Phases to leave out, by name
    #[arg(long, value_name = "PHASE,…", value_delimiter = ',')]
    skip: Vec<String>,

    /// The only phases to run, by name
    #[arg(long, value_name = "PHASE,…", value_delimiter = ',')]
    only: Vec<String>,
}

impl SelectionArgs {
    /// The phases around a cleanup, which have a flag of their own.
    pub fn without_hooks(mut self, asked: bool) -> Self {
        if asked {
            self.skip.extend(["precleanup", "postcleanup"].map(String::from));
        }
        self
    }

    pub fn checked<C>(self, phases: &[Phase<C>]) -> Result<Selection, Report> {
        let (skip, only) = (self.skip.into_iter().collect(), self.only.into_iter().collect());
        let selection = Selection { skip, only };
        selection.check(phases)?;
        Ok(selection)
    }
}

/// The end of a command's help: its examples, and the phases of its operation.
pub fn long_help<C>(examples: &str, phases: &[Phase<C>]) -> String {
    format!("{examples}\n\n{}", phases_help(phases))
}

pub fn phases_help<C>(phases: &[Phase<C>]) -> String {
    let names = phases::described(phases);
    let width = names.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let next = format!("\n{:1$}", "", width + 4);
    let lines = names.iter().map(|(name, help)| {
        let help = wrapped(help, PHASES_WIDTH - width - 4).join(&next);
        format!("\n  {name:width$}  {help}")
    });
    format!("Phases, in order, for --skip and --only:{}", lines.collect::<String>())
}

/// Fits any terminal: what clap wraps there would lose its place.
const PHASES_WIDTH: usize = 80;

/// Lines of at most so many characters, as far as words allow.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= width) {
            Some(line) => line.extend([" ", word]),
            None => lines.push(word.to_string()),
        }
    }
    lines
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

    /// Take over nodes that another control machine or state folder holds
    #[arg(long)]
    pub take_over: bool,

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
    carry_out(args, Goal::Install, global)
}

/// Installs, or joins to a cluster that exists, and says what came of it.
pub fn carry_out(args: Args, goal: Goal, global: &Global) -> Result<(), Report> {
    let selection = args.selection.checked(&operation::phases())?;
    let (mut request, state) = request(args.target, global)?;
    (request.options.goal, request.options.selection) = (goal, selection);
    let question = if goal == Goal::Join { "join these nodes to the cluster?" } else { "install this?" };
    let installed = args.consent.carry_out(request, "this changes nodes", question, global)?;
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

impl PlanConsentArgs {
    /// Prepares, shows the plan, asks where nobody has agreed yet, and does it.
    pub fn carry_out(
        self,
        request: InstallRequest,
        what: &str,
        question: &str,
        global: &Global,
    ) -> Result<Installed, Report> {
        can_ask(self.consent.yes || self.approve.is_some(), what)?;
        let question = format!("\n{question} [y/N] ");
        stop::carry_out(&request.stop.clone(), async {
            let ready = operation::prepare(request).await?.fit()?;
            if global.format == Format::Table {
                output::show(plan_view::render(ready.prepared()).trim_end());
            }
            let agreed = match self.approve {
                Some(digest) => return ready.approved(digest).await?.run().await,
                // The connections go on meanwhile.
                None => self.consent.yes || spawn_blocking(move || yes(&question)).await.unwrap_or(false),
            };
            if agreed { ready.run().await } else { Err(ready.decline()) }
        })
    }
}

/// What an install or an upgrade came to.
pub fn done(installed: &Installed) -> String {
    let Installed { changed, nodes } = *installed;
    format!("done: {} on {}", Count(changed, "change", "changes"), Count(nodes, "node", "nodes"))
}

/// Consent to a plan that can be looked at before.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct PlanConsentArgs {
    #[command(flatten)]
    pub consent: ConsentArgs,

    /// Go on without asking if the plan still has this digest, which `plan` prints
    #[arg(long, value_name = "DIGEST", conflicts_with = "yes")]
    pub approve: Option<Digest>,
}

/// Opens and verifies the content before anything else, then the config, then the way onto the nodes.
pub fn request(args: TargetArgs, global: &Global) -> Result<(InstallRequest, std::path::PathBuf), Report> {
    let options = Options {
        ignore: preflight::parse_checks(&args.ignore_preflight)?,
        plan: plan::Options { node_repos: args.node_repos },
        take_over: args.take_over,
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
        operator: operator(),
        options,
        rolling: upgrade::Options::default(),
        events: view::sink(global.format),
        stop: Stop::default(),
    };
    Ok((request, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_phases_fits_a_terminal() {
        let lists = [
            phases_help(&operation::phases()),
            phases_help(&operation::upgrade_phases()),
            phases_help(&operation::restore_phases()),
        ];
        for line in lists.iter().flat_map(|list| list.lines()) {
            assert!(line.chars().count() <= PHASES_WIDTH, "{line}");
        }
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one", 1), ["one"]);
    }
}
