//! The command line: flags → options → one call into the library → what a person reads.
//!
//! One file per command, none of them with logic of its own. Data goes to stdout, all else to
//! stderr; errors become text and exit codes here and nowhere else.

mod bundle;
mod completions;
mod input;
mod man;
mod output;
mod plan;
mod schema;
mod template;
mod validate;

use clap::{CommandFactory as _, Parser, Subcommand};
use eggo_terminal::{Exit, Report};
use std::process::ExitCode;

/// Installs a bundle inside the air gap: verifies it, distributes it over SSH, and deploys
/// Kubernetes in binary mode on mixed x86_64 and arm64 nodes.
///
/// Nodes need sshd, systemd, tar, sha256sum and root or sudo; nothing else, and no network but
/// the one between them.
#[derive(Debug, Parser)]
#[command(
    name = "eggo-install",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    max_term_width = 100,
    after_help = EXAMPLES
)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    global: Global,
}

const EXAMPLES: &str = "\
Examples:
  eggo-install template --masters m1@192.168.7.1 --workers w1@192.168.7.2:arm64 -f deploy.yaml
  eggo-install validate -f deploy.yaml
  eggo-install plan bundle.tar.gz -f deploy.yaml --no-connect

Exit codes: 0 done, 1 something to mend, 2 wrong usage, 3 the bundle is not trusted,
4 some nodes failed, 101 a bug of this program.";

/// Options of every command.
#[derive(Debug, Clone, clap::Args)]
struct Global {
    /// Tell what happens in detail
    #[arg(short, long, global = true)]
    debug: bool,

    /// How results are printed
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, and it lives for one match")]
enum Command {
    /// Check deploy.yaml: every problem with its line and the nearest known key
    Validate(validate::Args),
    /// Show what each node would get and do; touches nothing
    Plan(plan::Args),
    /// Write a commented deploy.yaml
    Template(template::Args),
    /// Print a JSON schema of deploy.yaml for editors
    Schema(schema::Args),
    /// Print completions for a shell
    Completions(completions::Args),
    /// Write manual pages
    Man(man::Args),
}

/// Parses, runs, reports.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    start_log(cli.global.debug);
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(report) => {
            eprintln!("{report}");
            report.exit.into()
        }
    }
}

fn run(cli: Cli) -> Result<(), Report> {
    let global = cli.global;
    match cli.command {
        Command::Validate(args) => validate::run(args, &global),
        Command::Plan(args) => plan::run(args, &global),
        Command::Template(args) => template::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Completions(args) => completions::run(args, Cli::command()),
        Command::Man(args) => man::run(args, Cli::command()),
    }
}

/// `--debug`, or `EGGO_LOG` with tracing's filters.
fn start_log(debug: bool) {
    use tracing_subscriber::EnvFilter;
    let filter = match std::env::var("EGGO_LOG") {
        Ok(filter) => EnvFilter::new(filter),
        Err(_) if debug => EnvFilter::new("eggo_install=debug,eggo_bundles=debug"),
        Err(_) => return,
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second subscriber can only be that of a test.
    let _ = log.without_time().try_init();
}

/// A usage error that clap cannot know of.
fn usage(message: impl Into<String>) -> Report {
    Report::new(message).exit(Exit::Usage)
}
