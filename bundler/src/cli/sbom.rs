use super::open::{TrustArgs, with_bundle};
use super::output;
use crate::error::Error;
use clap::ValueEnum;
use eggo_terminal::{Report, Watch};
use std::path::PathBuf;

/// Print a bundle's bill of materials
///
/// That of a delta is the one of the full bundle.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle sbom k8s.tar.gz > k8s.spdx.json
  eggo-bundle sbom k8s.tar.gz --format cyclonedx > k8s.cdx.json")]
pub(super) struct Args {
    /// The bundle; of a split one, the first part.
    bundle: PathBuf,
    /// Which of the two formats.
    #[arg(long, value_enum, default_value_t)]
    format: Kind,
    #[command(flatten)]
    trust: TrustArgs,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Kind {
    /// SPDX 2.3 JSON, as it is in the bundle.
    #[default]
    #[value(aliases = ["json", "spdx-json"])]
    Spdx,
    /// CycloneDX 1.5 JSON.
    #[value(aliases = ["cdx", "cyclonedx-json"])]
    Cyclonedx,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let opened = args.trust.opened(&args.bundle, watch)?;
    let bytes = with_bundle!(&opened, bundle => match args.format {
        Kind::Spdx => bundle.sbom().map_err(Error::from)?,
        Kind::Cyclonedx => bundle.cyclonedx(),
    });
    output::bytes(&bytes)
}
