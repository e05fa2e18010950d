use super::open::{TrustArgs, is_pipe, pipe_takes_no_base};
use super::output::{self, Format, FormatArgs};
use crate::error::Error;
use eggo_bundles::{Index, PublicKey};
use eggo_terminal::{Count, Report, Watch};
use serde::Serialize;
use std::path::PathBuf;

/// Check a bundle's signature and every byte inside
///
/// Exit code 3, with the reason, if it is not to be trusted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle verify k8s.tar.gz --pubkey release.key.pub
  eggo-bundle verify k8s-delta.tar.gz --base k8s-1.20.1.tar.gz
  ssh builder cat k8s.tar.gz | eggo-bundle verify -")]
pub(super) struct Args {
    /// The bundle; of a split one, the first part; `-` for standard input.
    bundle: PathBuf,
    /// The parent of a delta, to check what it takes from there too.
    #[arg(long, value_name = "BUNDLE")]
    base: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Serialize)]
struct Verdict {
    name: String,
    version: String,
    key: String,
    items: usize,
    /// Those whose content was read: of a delta without its parent, what it carries itself.
    checked: usize,
    size: u64,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let verdict = match is_pipe(&args.bundle) {
        true => verify_pipe(args, watch)?,
        false => verify_file(args, watch)?,
    };
    match args.format.get() {
        Format::Json => output::json(&verdict),
        Format::Text => {
            let Verdict { name, version, key, items, checked, .. } = verdict;
            let all = Count(items, "item", "items");
            let items = match checked == items {
                true => all.to_string(),
                false => format!("{checked} of {all} (`--base` checks those of its parent too)"),
            };
            let bundle = args.bundle.display();
            output::print(&format!("`{bundle}` is sound: {name} {version}, {items}, signed by key {key}\n"))
        }
    }
}

fn verify_file(args: &Args, watch: &Watch) -> Result<Verdict, Report> {
    let mut bundle = args.trust.verified(&args.bundle)?;
    if let Some(base) = &args.base {
        bundle = bundle.with_base(&args.trust.verified(base)?).map_err(Error::from)?;
    }
    bundle.verify_all(watch).map_err(Error::from)?;
    let mut verdict = Verdict::new(bundle.index(), bundle.key(), bundle.size());
    if args.base.is_some() {
        verdict.checked = verdict.items;
    }
    Ok(verdict)
}

fn verify_pipe(args: &Args, watch: &Watch) -> Result<Verdict, Report> {
    pipe_takes_no_base(args.base.as_deref())?;
    let (pipe, key) = args.trust.verified_pipe()?;
    let index = pipe.index().clone();
    let size = pipe.verify_all(watch).map_err(Error::from)?;
    Ok(Verdict::new(&index, &key, size))
}

impl Verdict {
    fn new(index: &Index, key: &PublicKey, size: u64) -> Self {
        Self {
            name: index.name.clone(),
            version: index.version.clone(),
            key: key.id(),
            items: index.items.len(),
            checked: index.items.iter().filter(|item| index.carries(item)).count(),
            size,
        }
    }
}
