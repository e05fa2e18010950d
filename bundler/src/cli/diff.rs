use super::keys;
use super::open::{TrustArgs, with_bundle};
use super::output::{self, Format, FormatArgs};
use crate::contents::{self, Difference};
use crate::error::Error;
use eggo_bundles::progress::Progress;
use eggo_bundles::{Index, write};
use eggo_terminal::{Report, Size, Table, Watch, printable};
use std::path::PathBuf;

/// Show what changed between two bundles, or write a delta that leads from one to the other
///
/// A delta carries only what the old bundle lacks, names it, and fits no other.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle diff old.tar.gz new.tar.gz
  eggo-bundle diff old.tar.gz new.tar.gz -o delta.tar.gz --key release.key
  eggo-bundle merge old.tar.gz delta.tar.gz -o new.tar.gz     on the other side")]
pub(super) struct Args {
    /// The bundle that is there already.
    old: PathBuf,
    /// The bundle that comes after it.
    new: PathBuf,
    /// Write a delta to this file, which is replaced if it is there.
    #[arg(short, long, value_name = "DELTA")]
    output: Option<PathBuf>,
    /// The key to sign the delta with [default: as for `build`].
    #[arg(long, value_name = "FILE", env = "EGGO_KEY")]
    key: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    trust: TrustArgs,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let Some(out) = &args.output else {
        let old = args.trust.opened(&args.old, watch)?;
        let new = args.trust.opened(&args.new, watch)?;
        return with_bundle!(&old, old => with_bundle!(&new, new => show(args, old.index(), new.index())));
    };
    let key = keys::signing_key(args.key.as_deref(), watch)?;
    let old = args.trust.verified_by(&args.old, key.public())?;
    let new = args.trust.verified_by(&args.new, key.public())?;
    // Its own signature goes along, so that a merge gives the very same file, whoever signed it.
    let sealed = new.delta_from(&old, &key).map_err(Error::from)?;
    let written = write(out, &sealed, &new, watch).map_err(Error::from)?;
    watch.note(&format!(
        "wrote `{}`: {}, from {} to {}, signed by key {}",
        out.display(),
        Size(written.size),
        named(old.index()),
        named(new.index()),
        key.public().id()
    ));
    tell(sealed.index(), watch);
    Ok(())
}

/// What is said of a delta that was written: that it is one, and how much of a bundle.
pub(super) fn tell(index: &Index, progress: &dyn Progress) {
    match contents::carried(index) {
        Some(share) if share.files == 0 => progress.note(&format!("warning: the delta {share}")),
        Some(share) => progress.note(&format!("the delta {share}")),
        None => {}
    }
}

fn show(args: &Args, old: &Index, new: &Index) -> Result<(), Report> {
    let differences = contents::differences(old, new);
    match args.format.get() {
        Format::Json => output::json(&differences),
        Format::Text if differences.is_empty() => output::print("nothing differs\n"),
        Format::Text => output::print(&table(&differences).to_string()),
    }
}

fn table(differences: &[Difference]) -> Table {
    let mut table = Table::new(["ARCH", "KIND", "NAME", "BEFORE", "AFTER", "NEW BYTES"]).right(&[5]);
    let shown = |text: &str| printable(text).into_owned();
    let text = |value: &Option<String>| value.as_deref().map_or_else(|| "-".to_string(), shown);
    for one in differences {
        table.row([
            one.arch.to_string(),
            one.kind.to_string(),
            shown(&one.name),
            text(&one.before),
            text(&one.after),
            Size(one.bytes).to_string(),
        ]);
    }
    table
}

fn named(index: &Index) -> String {
    format!("{} {}", index.name, index.version)
}
