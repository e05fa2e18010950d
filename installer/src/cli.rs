//! The command line: flags → options → one call into the library → what a person reads.
//!
//! One file per command, none of them with logic of its own. Data goes to stdout, all else to
//! stderr; errors become text and exit codes here and nowhere else.

mod access;
mod bundle;
mod certs;
mod check;
mod cleanup;
mod completions;
mod delete;
mod etcd;
mod facts;
mod input;
mod install;
mod join;
mod life;
mod list;
mod man;
mod output;
mod plan;
mod schema;
mod state;
mod status;
mod stop;
mod surroundings;
mod template;
mod upgrade;
mod validate;
mod verify;
mod view;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use eggo_terminal::{Exit, Log, Report, is_obeyed};
use std::path::Path;
use std::process::ExitCode;

/// Installs a bundle inside the air gap: verifies it, distributes it over SSH, and deploys
/// Kubernetes in binary mode on mixed x86_64 and arm64 nodes.
///
/// Nodes need sshd, systemd, tar, root or sudo, and the small programs of any Linux (coreutils, cmp,
/// awk, sed, grep, find); no network but the one between them.
#[derive(Debug, Parser)]
#[command(
    name = "eggo-install",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = EXAMPLES,
    after_long_help = install::long_help(EXAMPLES, &eggo_deploy::operation::phases())
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    install: install::Args,

    #[command(flatten)]
    global: Global,
}

const EXAMPLES: &str = "\
Examples:
  eggo-install template --masters m1@192.168.7.1 --workers w1@192.168.7.2:arm64 -f deploy.yaml
  eggo-install validate -f deploy.yaml
  eggo-install plan bundle.tar.gz -f deploy.yaml --no-connect
  eggo-install check bundle.tar.gz -f deploy.yaml --pubkey builder.pub
  eggo-install bundle.tar.gz -f deploy.yaml --pubkey builder.pub
  eggo-install cleanup -f deploy.yaml

Exit codes: 0 done, 1 something to fix, 2 wrong usage, 3 the bundle is not trusted,
4 some nodes failed, 101 a bug of this program, 130 stopped.";

/// Options of every command.
#[derive(Debug, Clone, clap::Args)]
struct Global {
    /// Show what happens in detail
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
    #[command(visible_alias = "deploy", after_long_help = install::phases_help(&eggo_deploy::operation::phases()))]
    Install(install::Args),
    Validate(validate::Args),
    Facts(facts::Args),
    Plan(plan::Args),
    Check(check::Args),
    Verify(verify::Args),
    Join(join::Args),
    Delete(delete::Args),
    Upgrade(upgrade::Args),
    Status(status::Args),
    Certs(certs::Args),
    Etcd(etcd::Args),
    List(list::Args),
    Cleanup(cleanup::Args),
    Template(template::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Parses, runs, reports.
pub fn main() -> ExitCode {
    eggo_terminal::keep_memory_inside();
    eggo_terminal::keep_lookups_inside();
    let matches = Cli::command().try_get_matches().unwrap_or_else(|error| match mistyped(&error) {
        Some(report) => {
            output::show(&report);
            std::process::exit(report.exit as i32)
        }
        None => end_with_usage(&error),
    });
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| end_with_usage(&error));
    start_log(cli.global.debug);
    let done = own_options_only(&matches).and_then(|()| run(cli));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(report) => {
            output::show(&report);
            report.exit.into()
        }
    }
}

/// Help, or what is wrong with the arguments: in clap's own colours, unless a terminal would obey something in them.
fn end_with_usage(error: &clap::Error) -> ! {
    if std::env::args_os().all(|word| word.to_str().is_some_and(|word| !word.contains(is_obeyed))) {
        error.exit();
    }
    output::show(error.render());
    std::process::exit(error.exit_code())
}

/// `eggo-install plna BUNDLE`: to clap the first word is the bundle and the second is too much, but the
/// first is what went wrong.
fn mistyped(error: &clap::Error) -> Option<Report> {
    if error.kind() != clap::error::ErrorKind::UnknownArgument {
        return None;
    }
    let word = std::env::args_os().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"))?;
    let near = meant_command(Path::new(&word))?;
    let message = format!("`{}` is neither a command nor a bundle", word.display());
    Some(usage(message).hinted(format!("did you mean the command `{near}`?")))
}

/// The command that is nearly spelled like a bundle that is not there.
fn meant_command(path: &Path) -> Option<String> {
    let command = Cli::command();
    let known = command.get_subcommands().map(|command| command.get_name());
    let word = path.to_str().filter(|_| !path.exists())?;
    let near = eggo_yaml::nearest(word, known).filter(|near| *near != word)?;
    Some(near.to_string())
}

/// Before a command stand only the options of every command: the others would be the install's.
fn own_options_only(matches: &ArgMatches) -> Result<(), Report> {
    let Some(command) = matches.subcommand_name() else { return Ok(()) };
    let given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let ids = matches.ids().map(|id| id.as_str());
    match ids.filter(|id| !["debug", "format", "Global"].contains(id)).find(given) {
        None => Ok(()),
        Some(id) => Err(usage(format!("`{}` is before the command `{command}`", id.replace('_', "-")))
            .hinted(format!("write `eggo-install {command}` first, then its options"))),
    }
}

fn run(cli: Cli) -> Result<(), Report> {
    let global = cli.global;
    let Some(command) = cli.command else { return install::run(cli.install, &global) };
    match command {
        Command::Install(args) => install::run(args, &global),
        Command::Validate(args) => validate::run(args, &global),
        Command::Facts(args) => facts::run(args, &global),
        Command::Plan(args) => plan::run(args, &global),
        Command::Check(args) => check::run(args, &global),
        Command::Verify(args) => verify::run(args, &global),
        Command::Join(args) => join::run(args, &global),
        Command::Delete(args) => delete::run(args, &global),
        Command::Upgrade(args) => upgrade::run(args, &global),
        Command::Status(args) => status::run(args, &global),
        Command::Certs(args) => certs::run(args, &global),
        Command::Etcd(args) => etcd::run(args, &global),
        Command::List(args) => list::run(args, &global),
        Command::Cleanup(args) => cleanup::run(args, &global),
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
        Err(_) if debug => EnvFilter::new("eggo_deploy=debug,eggo_install=debug,eggo_bundles=debug"),
        Err(_) => return,
    };
    // Colours could not be told from what others put into a message.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(|| Log);
    // A second subscriber can only be that of a test.
    let _ = log.with_timer(tracing_subscriber::fmt::time::uptime()).try_init();
}

/// One thread for the network: faster than several, and nothing here blocks it for long.
fn runtime() -> Result<tokio::runtime::Runtime, Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Report::new(format!("cannot start: {error}")))
}

/// A usage error that clap cannot know of.
fn usage(message: impl Into<String>) -> Report {
    Report::new(message).exit(Exit::Usage)
}
