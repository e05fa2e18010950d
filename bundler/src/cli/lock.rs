use super::network::NetworkArgs;
use super::output::{self, Format, FormatArgs};
use crate::Tools;
use crate::error::Error;
use crate::lock::{Change, changes};
use crate::manifest::Manifest;
use crate::resolve::{self, Decided, LockMode};
use eggo_bundles::Arch;
use eggo_bundles::progress::Progress;
use eggo_terminal::{Count, Report, Table, Watch};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Flags of the commands that read a manifest.
#[derive(Debug, clap::Args)]
pub(super) struct ManifestArgs {
    /// The manifest [default: bundle.yaml, else manifests/default.yaml].
    #[arg(short, long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// For which machines: amd64 (x86_64), arm64 (aarch64) [default: those of the manifest].
    #[arg(long, value_name = "ARCH", value_delimiter = ',')]
    arch: Option<Vec<Arch>>,
}

impl ManifestArgs {
    /// Each of the named archs once, whatever order they were typed in.
    pub(super) fn archs(&self) -> Option<Vec<Arch>> {
        let archs: Option<BTreeSet<Arch>> = self.arch.as_ref().map(|archs| archs.iter().copied().collect());
        archs.map(Vec::from_iter)
    }
}

/// What a lock that is made again may accept.
#[derive(Debug, clap::Args)]
pub(super) struct AcceptArgs {
    /// Accept that this repository lost its signature, or is older than in the lock; may be repeated.
    #[arg(long = "accept-repo", value_name = "NAME")]
    pub repos: Vec<String>,
}

/// Decide on exact versions, urls and digests, and record them beside the manifest
///
/// Shows what changed since the last lock, line by line.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle lock -m k8s.yaml            writes k8s.lock
  eggo-bundle lock -m k8s.yaml --dry-run  only shows what would change

A repository that lost its signature, or whose metadata is older than in the lock, is refused:
someone in between may have changed it. `--accept-repo NAME` accepts it anyway.")]
pub(super) struct Args {
    #[command(flatten)]
    manifest: ManifestArgs,
    /// Write nothing; show what would change.
    #[arg(long)]
    dry_run: bool,
    /// Write nothing; fail if the lock is missing or stale.
    #[arg(long, conflicts_with = "dry_run")]
    locked: bool,
    #[command(flatten)]
    accept: AcceptArgs,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    network: NetworkArgs,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let manifest = Manifest::load(args.manifest.manifest.as_deref()).map_err(Error::from)?;
    let archs = manifest.choose(args.manifest.archs()).map_err(Error::from)?;
    let (http, cache) = args.network.open_for(&manifest)?;
    let tools = Tools { http: &http, cache: &cache, progress: watch };
    let mode = match (args.dry_run, args.locked) {
        (true, _) => LockMode::DryRun,
        (_, true) => LockMode::Locked,
        _ => LockMode::Update,
    };
    let decided = super::block_on(resolve::lock(&manifest, &archs, mode, &args.accept.repos, tools))??;
    if mode == LockMode::Locked {
        watch.note(&format!("`{}` is fresh", manifest.lock_file().display()));
        return Ok(());
    }
    let changes = changes(decided.before.as_ref(), &decided.lock);
    match args.format.get() {
        Format::Json => output::json(&changes)?,
        Format::Text if changes.is_empty() => watch.note("nothing changed"),
        // All of a first lock is new: its sum says more than a line for each.
        Format::Text if decided.before.is_none() && mode == LockMode::Update => {}
        Format::Text => output::print(&table(&changes).to_string())?,
    }
    if mode == LockMode::Update {
        watch.note(&format!("wrote `{}`: {}", manifest.lock_file().display(), summary(&decided)));
    }
    Ok(())
}

/// What a build says of a lock that it had to make: in short.
pub(super) fn tell(decided: &Decided, progress: &dyn Progress) {
    let changes = changes(decided.before.as_ref(), &decided.lock);
    if decided.before.is_some() && !changes.is_empty() {
        progress.note(table(&changes).to_string().trim_end());
    }
    progress.note(&format!("locked {}", summary(decided)));
}

fn table(changes: &[Change]) -> Table {
    let mut table = Table::new(["KIND", "NAME", "ARCH", "BEFORE", "AFTER"]);
    for change in changes {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_string());
        let arch = change.arch.map_or("any", Arch::as_str);
        table.row([
            change.kind.to_string(),
            change.name.clone(),
            arch.to_string(),
            text(&change.before),
            text(&change.after),
        ]);
    }
    table
}

fn summary(decided: &Decided) -> String {
    let lock = &decided.lock;
    let counts = [
        Count(lock.packages.len(), "package", "packages"),
        Count(lock.binaries.len(), "binary", "binaries"),
        Count(lock.files.len(), "file", "files"),
        Count(lock.images.len(), "image", "images"),
        Count(lock.addons.len(), "addon", "addons"),
    ];
    let parts: Vec<String> = counts.iter().filter(|count| count.0 > 0).map(Count::to_string).collect();
    if parts.is_empty() { "nothing".to_string() } else { parts.join(", ") }
}
