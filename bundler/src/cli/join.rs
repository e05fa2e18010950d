use super::output::ForceArgs;
use crate::error::Error;
use eggo_bundles::progress::Progress as _;
use eggo_bundles::{Bundle, parts};
use eggo_terminal::{Report, Size, Watch};
use std::path::PathBuf;

/// Put the parts of a split bundle together again
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  eggo-bundle join /media/stick/k8s.tar.gz.001 -o k8s.tar.gz")]
pub(super) struct Args {
    /// The first part, or the name of the whole; the others are beside it.
    first: PathBuf,
    /// The file to write [default: the parts' name without its number, here].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArgs,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let out = match &args.output {
        Some(out) => out.clone(),
        None => PathBuf::from(parts::whole_of(&args.first).file_name().unwrap_or_default()),
    };
    args.force.keep(&out)?;
    // Nothing but the bundle's own end tells that the last part is there.
    Bundle::open(&args.first).map_err(Error::from)?;
    let size = parts::join(&args.first, &out, watch).map_err(Error::from)?;
    watch.note(&format!("wrote `{}`: {}", out.display(), Size(size)));
    Ok(())
}
