//! `eggo-install verify`

use super::bundle::{TrustArgs, refused};
use super::{Format, Global, output};
use eggo_bundles::progress::Silent;
use eggo_terminal::{Report, Size};
use serde_json::json;
use std::path::PathBuf;

/// Check a bundle's signature and every byte of it.
///
/// Exit 0: all of it is what a trusted key signed. Exit 3: it is not, and the reason is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  eggo-install verify bundle.tar.gz --pubkey builder.pub")]
pub struct Args {
    /// The bundle, or the first part of a split one
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,

    #[command(flatten)]
    trust: TrustArgs,
}

pub fn run(args: Args, global: &Global) -> Result<(), Report> {
    let bundle = args.trust.open(&args.bundle)?;
    bundle.verify_all(&Silent).map_err(refused)?;
    let (index, key) = (bundle.index(), bundle.key().id());
    match global.format {
        Format::Json => output::json(&json!({
            "trusted": true, "key": key, "name": index.name, "version": index.version,
            "archs": index.archs, "items": index.items.len(), "size": bundle.size(),
        })),
        Format::Table => output::text_out(&format!(
            "{} {} is whole and signed by key {key}: {} items, {}\n",
            index.name,
            index.version,
            index.items.len(),
            Size(bundle.size())
        )),
    }
}
