use super::open::TrustArgs;
use super::output::{self, Format};
use crate::error::Error;
use eggo_bundles::progress::Progress as _;
use eggo_terminal::{Report, Watch};
use serde::Serialize;
use std::path::PathBuf;

/// Check a bundle's signature and every byte inside
///
/// Of a split bundle, give the first part. Exit code 3, with the reason, if it is not to be
/// trusted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle verify k8s.tar.gz --pubkey release.key.pub
  eggo-bundle verify k8s-delta.tar.gz --base k8s-1.20.1.tar.gz")]
pub struct Args {
    bundle: PathBuf,
    /// The parent of a delta, to check what it takes from there too.
    #[arg(long, value_name = "BUNDLE")]
    base: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Verdict<'a> {
    name: &'a str,
    version: &'a str,
    key: String,
    items: usize,
    size: u64,
}

pub fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let mut bundle = args.trust.verified(&args.bundle)?;
    if let Some(base) = &args.base {
        bundle = bundle.with_base(&args.trust.verified(base)?).map_err(Error::from)?;
    }
    bundle.verify_all(watch).map_err(Error::from)?;
    let index = bundle.index();
    let verdict = Verdict {
        name: &index.name,
        version: &index.version,
        key: bundle.key().id(),
        items: index.items.len(),
        size: bundle.size(),
    };
    match args.format {
        Format::Json => output::json(&verdict),
        Format::Text => {
            let Verdict { name, version, key, items, .. } = verdict;
            watch.note(&format!(
                "`{}` is sound: {name} {version}, {items} items, signed by key {key}",
                args.bundle.display()
            ));
            Ok(())
        }
    }
}
