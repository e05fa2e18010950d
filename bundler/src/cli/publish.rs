use super::open::TrustArgs;
use super::output;
use crate::publish;
use eggo_bundles::progress::Progress as _;
use eggo_terminal::{Report, Watch};
use std::path::{Path, PathBuf};

/// Write a release: the bundle, its index, signature, checksums, bill of materials and notes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  eggo-bundle publish k8s.tar.gz /srv/www/releases/1.20.2 --pubkey release.key.pub")]
pub struct Args {
    bundle: PathBuf,
    /// The folder to write to; it is made if it is not there.
    target: String,
    #[command(flatten)]
    trust: TrustArgs,
}

pub fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let bundle = args.trust.verified(&args.bundle)?;
    let files = publish::to_folder(&bundle, Path::new(&args.target), watch)?;
    watch.note(&format!("wrote {} files to `{}`", files.len(), args.target));
    let lines: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    output::print(&lines)
}
