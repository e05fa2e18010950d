use super::open::{TrustArgs, with_bundle};
use super::output;
use crate::eggo;
use eggo_terminal::{Report, Watch};
use std::path::PathBuf;

/// Write a bundle as the tarballs that eggo itself takes, one per arch
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  eggo-bundle export --eggo k8s.tar.gz -o packages/
  then in eggo's deploy.yaml:
    package-source: {srcpath: {amd64: packages/packages-x86.tar.gz, arm64: packages/packages-arm.tar.gz}}")]
pub(super) struct Args {
    /// The bundle; of a split one, the first part.
    bundle: PathBuf,
    /// In eggo's layout: pkg/ bin/ file/ dir/ image/.
    #[arg(long, required = true)]
    eggo: bool,
    /// The folder to write to; it is made if it is not there, and tarballs in it are replaced.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// The parent of a delta, for what it takes from there.
    #[arg(long, value_name = "BUNDLE")]
    base: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let opened = args.trust.opened_on(&args.bundle, args.base.as_deref(), watch)?;
    let files = with_bundle!(&opened, bundle => eggo::export(bundle, &args.output, watch))?;
    let lines: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    output::print(&lines)
}
