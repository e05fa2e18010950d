use super::open::{TrustArgs, with_bundle};
use super::output::{self, Format, FormatArgs};
use crate::check::{self, Severity};
use crate::error::Error;
use eggo_bundles::progress::Progress as _;
use eggo_terminal::{Count, Exit, Report, Watch, printable};
use std::path::PathBuf;

/// Prove, without a network, that a bundle has everything its content refers to
///
/// Every image of every addon, every layer, every package's requirement, for every arch.
/// `verify` checks the bytes; this checks that nothing points outside.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle check k8s.tar.gz
  eggo-bundle check k8s-delta.tar.gz --base k8s-1.20.1.tar.gz")]
pub(super) struct Args {
    /// The bundle; of a split one, the first part.
    bundle: PathBuf,
    /// The parent of a delta, for what it takes from there.
    #[arg(long, value_name = "BUNDLE")]
    base: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    trust: TrustArgs,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let opened = args.trust.opened_on(&args.bundle, args.base.as_deref(), watch)?;
    let findings = with_bundle!(&opened, bundle => check::check(bundle)).map_err(Error::from)?;
    let missing = findings.iter().filter(|finding| finding.severity == Severity::Missing).count();
    match args.format.get() {
        Format::Json => output::json(&findings)?,
        Format::Text => {
            for finding in &findings {
                let word = match finding.severity {
                    Severity::Missing => "missing",
                    Severity::Doubtful => "note",
                };
                output::print(&format!("{word}: {}: {}\n", finding.arch, printable(&finding.what)))?;
            }
        }
    }
    if missing > 0 {
        let things = Count(missing, "thing is", "things are");
        return Err(Report::new(format!("`{}` is not complete: {things} missing", args.bundle.display()))
            .hinted("add what is missing to the manifest, and build again")
            .exit(Exit::User));
    }
    let whole = if args.base.is_some() { " together with its parent" } else { "" };
    let open = if findings.is_empty() { "" } else { ", except for what the notes leave open" };
    watch.note(&format!("`{}` is complete{whole}{open}", args.bundle.display()));
    Ok(())
}
