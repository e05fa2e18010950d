use super::open::{TrustArgs, with_bundle};
use super::output::{self, Format};
use crate::check::{self, Severity};
use crate::error::Error;
use eggo_bundles::progress::Progress as _;
use eggo_terminal::{Exit, Report, Watch};
use std::path::PathBuf;

/// Prove, without a network, that a bundle has everything its content refers to
///
/// Every image of every addon, every layer, every package's requirement, for every arch.
/// `verify` checks the bytes; this checks that nothing points outside.
#[derive(Debug, clap::Args)]
pub struct Args {
    bundle: PathBuf,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    trust: TrustArgs,
}

pub fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let opened = args.trust.opened(&args.bundle, watch)?;
    let findings = with_bundle!(&opened, bundle => check::check(bundle)).map_err(Error::from)?;
    let missing = findings.iter().filter(|finding| finding.severity == Severity::Missing).count();
    match args.format {
        Format::Json => output::json(&findings)?,
        Format::Text => {
            for finding in &findings {
                let word = match finding.severity {
                    Severity::Missing => "missing",
                    Severity::Doubtful => "note",
                };
                output::print(&format!("{word}: {}: {}\n", finding.arch, finding.what))?;
            }
        }
    }
    if missing > 0 {
        return Err(Report::new(format!(
            "`{}` is not complete: {missing} things are missing",
            args.bundle.display()
        ))
        .hinted("add what is missing to the manifest, and build again")
        .exit(Exit::User));
    }
    watch.note(&format!("`{}` is complete", args.bundle.display()));
    Ok(())
}
