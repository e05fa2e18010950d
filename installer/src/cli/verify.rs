//! `eggo-install verify`

use super::bundle::{TrustArgs, refused};
use super::{Format, Global, output};
use eggo_bundles::Index;
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
    let with_base = args.trust.base.is_some();
    let checked = index.items.iter().filter(|item| with_base || index.carries(item)).count();
    match global.format {
        Format::Json => output::json(&json!({
            "trusted": true, "key": key, "name": index.name, "version": index.version,
            "archs": index.archs, "items": index.items.len(), "size": bundle.size(),
            "parent": index.parent, "checked": checked,
        })),
        Format::Table => output::text_out(&format!(
            "{} {} is complete and signed by key {key}: {} items, {}\n{}",
            index.name,
            index.version,
            index.items.len(),
            Size(bundle.size()),
            delta(index, checked)
        )),
    }
}

/// What of a delta was looked at.
fn delta(index: &Index, checked: usize) -> String {
    match (index.parent, index.items.len() - checked) {
        (None, _) => String::new(),
        (Some(parent), 0) => format!("it is a delta, and complete with its parent {parent}\n"),
        (Some(parent), rest) => format!(
            "it is a delta with {checked} of them; the other {rest} are in its parent {parent}: `--base` names it\n"
        ),
    }
}
