use super::open::TrustArgs;
use super::output::ForceArgs;
use crate::error::Error;
use eggo_bundles::progress::Progress as _;
use eggo_bundles::write;
use eggo_terminal::{Report, Size, Watch};
use std::path::PathBuf;

/// Put a bundle and a delta together again: the full bundle, byte for byte
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  eggo-bundle merge old.tar.gz delta.tar.gz -o new.tar.gz --pubkey release.key.pub")]
pub(super) struct Args {
    /// The bundle that the delta was made from.
    base: PathBuf,
    /// Further deltas build on the ones before.
    #[arg(required = true)]
    delta: Vec<PathBuf>,
    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    force: ForceArgs,
    #[command(flatten)]
    trust: TrustArgs,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    args.force.keep(&args.output)?;
    let mut bundle = args.trust.verified(&args.base)?;
    for delta in &args.delta {
        bundle = args.trust.verified(delta)?.with_base(&bundle).map_err(Error::from)?;
    }
    let sealed = bundle.sealed().map_err(Error::from)?;
    let written = write(&args.output, &sealed, &bundle, watch).map_err(Error::from)?;
    watch.note(&format!("wrote `{}`: {}", args.output.display(), Size(written.size)));
    Ok(())
}
