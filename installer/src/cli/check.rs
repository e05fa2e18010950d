//! `eggo-install check`

use super::plan::GoalArgs;
use super::{Format, Global, install, output, runtime, view};
use eggo_deploy::operation;
use eggo_deploy::preflight::{Check, Verdict};
use eggo_terminal::{Report, Table};
use std::collections::BTreeSet;

/// Check whether the nodes are fit: every check on every node, one table; changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  eggo-install check bundle.tar.gz -f deploy.yaml\n  \
    eggo-install check --list")]
pub struct Args {
    /// Print the names of all checks, which `--ignore-preflight` takes
    #[arg(long)]
    list: bool,

    #[command(flatten)]
    goal: GoalArgs,

    #[command(flatten)]
    target: install::TargetArgs,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    if args.list {
        let mut table = Table::new(["CHECK", "WHAT IT LOOKS AT"]);
        Check::all().for_each(|check| {
            table.row([check.as_str(), check.help()]);
        });
        return output::text_out(&table.to_string());
    }
    let (mut request, _) = install::request(args.target, global)?;
    request.options.goal = args.goal.goal();
    request.events = view::quiet();
    let ready = runtime()?.block_on(operation::prepare(request))?;
    let verdict = &ready.prepared().verdict;
    match global.format {
        Format::Json => output::json(verdict)?,
        Format::Table => {
            let nodes = ready.prepared().plan.nodes.iter().map(|node| node.name.as_str());
            output::text_out(&render(verdict, nodes))?;
        }
    }
    // The table has said what is wrong with which node.
    verdict.decide().map_err(|unfit| Report { notes: Vec::new(), ..unfit.into() })
}

/// The findings, and the nodes without any.
fn render<'a>(verdict: &Verdict, nodes: impl Iterator<Item = &'a str>) -> String {
    let found: BTreeSet<&str> = verdict.findings.iter().map(|finding| finding.node.as_str()).collect();
    let mut table = table(verdict);
    for node in nodes.filter(|node| !found.contains(node)) {
        table.row([node, "all", "ok", "-"]);
    }
    match verdict.findings.is_empty() {
        true => format!("{table}\nall {} nodes are fit\n", verdict.nodes),
        false => table.to_string(),
    }
}

/// One line per finding, errors first.
pub fn table(verdict: &Verdict) -> Table {
    let mut table = Table::new(["NODE", "CHECK", "LEVEL", "FOUND"]);
    for finding in &verdict.findings {
        table.row([&finding.node, finding.check.as_str(), finding.level.as_str(), &finding.message]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_on_which_nothing_was_found_are_in_the_table_too() {
        let verdict = Verdict { nodes: 2, findings: Vec::new() };
        assert_eq!(
            render(&verdict, ["m", "w"].into_iter()),
            "NODE  CHECK  LEVEL  FOUND\nm     all    ok     -\n\
             w     all    ok     -\n\nall 2 nodes are fit\n"
        );
    }
}
