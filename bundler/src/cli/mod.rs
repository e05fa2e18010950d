//! The command line: each command is a file, and turns its flags into one call of the library.
//!
//! No decision is made here. Data goes to stdout, everything else to stderr, and an error
//! is printed once, in [`main`].

mod build;
mod check;
mod completions;
mod diff;
mod export;
mod extract;
mod import;
mod init;
mod inspect;
mod join;
mod keygen;
mod keys;
mod lock;
mod man;
mod merge;
mod network;
mod open;
mod output;
mod publish;
mod sbom;
mod schema;
mod signals;
mod split;
mod verify;
mod why;

use clap::{Parser, Subcommand};
use eggo_terminal::{Exit, Loudness, Report, Watch, is_obeyed};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

/// Build signed, reproducible bundles of packages, binaries, addons and images for machines
/// without a network.
#[derive(Debug, Parser)]
#[command(name = "eggo-bundle", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "\
A first bundle:
  eggo-bundle init                       write a manifest to begin with
  eggo-bundle build --arch amd64,arm64   fetch, pack and sign what it names
  eggo-bundle inspect NAME-VERSION.tar.gz

The bundle is a plain .tar.gz. Carry it across the gap, and run eggo-install there.
Exit codes: 0 done, 1 something to fix, 2 wrong usage, 3 the bundle is not trusted.")]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Args)]
struct Global {
    /// Print errors only, and warnings that a bundle is not verified.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Say more of what happens; twice for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Args),
    Lock(lock::Args),
    Build(build::Args),
    Check(check::Args),
    Why(why::Args),
    Verify(verify::Args),
    Inspect(inspect::Args),
    Extract(extract::Args),
    Diff(diff::Args),
    Merge(merge::Args),
    Split(split::Args),
    Join(join::Args),
    Import(import::Args),
    Export(export::Args),
    Publish(publish::Args),
    Sbom(sbom::Args),
    Keygen(keygen::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Runs the program with the process's own arguments.
pub fn main() -> ExitCode {
    eggo_terminal::keep_memory_inside();
    eggo_terminal::keep_lookups_inside();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            show_usage(&error);
            return if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
        }
    };
    let loudness = if cli.global.quiet { Loudness::Quiet } else { Loudness::Normal };
    let watch = Arc::new(Watch::new(loudness));
    trace(loudness, cli.global.verbose, Arc::clone(&watch));
    signals::clean_up_when_told_to_end();
    match run(cli.command, &watch) {
        Ok(()) => ExitCode::SUCCESS,
        Err(report) => {
            eggo_terminal::show(&report);
            report.exit.into()
        }
    }
}

fn run(command: Command, watch: &Watch) -> Result<(), Report> {
    match command {
        Command::Init(args) => init::run(&args, watch),
        Command::Lock(args) => lock::run(&args, watch),
        Command::Build(args) => build::run(args, watch),
        Command::Check(args) => check::run(&args, watch),
        Command::Why(args) => why::run(&args),
        Command::Verify(args) => verify::run(&args, watch),
        Command::Inspect(args) => inspect::run(&args, watch),
        Command::Extract(args) => extract::run(&args, watch),
        Command::Diff(args) => diff::run(&args, watch),
        Command::Merge(args) => merge::run(&args, watch),
        Command::Split(args) => split::run(&args, watch),
        Command::Join(args) => join::run(&args, watch),
        Command::Import(args) => import::run(&args, watch),
        Command::Export(args) => export::run(&args, watch),
        Command::Publish(args) => publish::run(&args, watch),
        Command::Sbom(args) => sbom::run(&args, watch),
        Command::Keygen(args) => keygen::run(&args, watch),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// Help, or what is wrong with the arguments: in clap's own colours, unless a terminal would obey something in them.
fn show_usage(error: &clap::Error) {
    match std::env::args_os().all(|word| word.to_str().is_some_and(|word| !word.contains(is_obeyed))) {
        true => drop(error.print()),
        false => eggo_terminal::show(error.render()),
    }
}

/// What is waited for or tried again is said always; `-v` shows what the program does, `-vv` what its parts do;
/// `EGGO_LOG` is as `RUST_LOG`.
fn trace(loudness: Loudness, verbose: u8, watch: Arc<Watch>) {
    use tracing_subscriber::EnvFilter;
    let default = match (verbose, loudness) {
        (0, Loudness::Quiet) => "off",
        (0, Loudness::Normal) => "eggo_bundle=warn",
        (1, _) => "eggo_bundle=debug,eggo_bundles=debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("EGGO_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let writer = move || Lines(Arc::clone(&watch));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    // Colours could not be told from what others put into a message.
    let subscriber = subscriber.with_ansi(false).with_level(verbose > 0);
    // Only a second subscriber in one process could make this fail.
    let _ = subscriber.without_time().with_target(false).try_init();
}

/// Lines of the log, above the progress bars.
struct Lines(Arc<Watch>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.insist_message(String::from_utf8_lossy(bytes).trim_end());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A runtime for the commands that use the network.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Report::new(format!("cannot start: {error}")))?;
    Ok(runtime.block_on(work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    /// Offline there is nothing else to read.
    #[test]
    fn every_argument_is_explained() {
        let program = <Cli as clap::CommandFactory>::command();
        for command in program.get_subcommands() {
            assert!(command.get_after_help().is_some(), "`{}` has no example", command.get_name());
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let (command, argument, help) = (command.get_name(), argument.get_id(), argument.get_help());
                assert!(help.is_some(), "`{argument}` of `{command}` is not explained");
            }
        }
    }
}
