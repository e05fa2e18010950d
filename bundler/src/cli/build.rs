use super::diff;
use super::keys::SealArgs;
use super::lock::{AcceptArgs, ManifestArgs, tell};
use super::network::NetworkArgs;
use super::open::TrustArgs;
use crate::Tools;
use crate::build::{self, Options};
use crate::error::Error;
use crate::manifest::Manifest;
use crate::resolve::{LockMode, Origin};
use eggo_bundles::progress::Progress as _;
use eggo_terminal::{Count, Report, Size, Watch};
use std::path::PathBuf;

/// Fetch what a manifest names, and pack and sign it into one file
///
/// Uses the lock beside the manifest, and makes it where it is missing or stale. The same lock
/// and key give the same bytes. Interrupted, the same command goes on from what was fetched.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle build --arch amd64,arm64
  eggo-bundle build -m k8s.yaml --key release.key -o k8s.tar.gz --locked
  eggo-bundle build -m k8s.yaml --key release.key --base k8s-1.20.1.tar.gz -o k8s-delta.tar.gz")]
pub(super) struct Args {
    #[command(flatten)]
    manifest: ManifestArgs,
    #[command(flatten)]
    seal: SealArgs,
    /// The file to write, which is replaced if it is there [default: NAME-VERSION.tar.gz].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Change nothing in the lock, and fail if it is missing or stale.
    #[arg(long)]
    locked: bool,
    #[command(flatten)]
    accept: AcceptArgs,
    /// Write a delta that carries only what this bundle lacks.
    #[arg(long, value_name = "BUNDLE")]
    base: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    network: NetworkArgs,
}

pub(super) fn run(args: Args, watch: &Watch) -> Result<(), Report> {
    // A manifest that cannot be read or is for other machines is no reason to make a key.
    let manifest = Manifest::load(args.manifest.manifest.as_deref()).map_err(Error::from)?;
    manifest.choose(args.manifest.archs()).map_err(Error::from)?;
    let key = args.seal.key(watch)?;
    let base = match &args.base {
        // Our own key vouches for the parent, too.
        Some(path) => Some(args.trust.verified_by(path, key.public())?),
        None => None,
    };
    let (http, cache) = args.network.open_for(&manifest)?;
    let tools = Tools { http: &http, cache: &cache, progress: watch };
    let options = Options {
        archs: args.manifest.archs(),
        manifest: args.manifest.manifest,
        lock: if args.locked { LockMode::Locked } else { LockMode::Reuse },
        accepted: args.accept.repos,
        out: args.output,
        base,
        created: args.seal.created,
        key,
    };
    let built = super::block_on(build::build(&options, tools))??;
    if built.decided.origin == Origin::Made {
        tell(&built.decided, watch);
    }
    let archs: Vec<&str> = built.archs.iter().map(|arch| arch.as_str()).collect();
    watch.note(&format!(
        "wrote `{}`: {}, {} for {}, signed by key {}",
        built.out.display(),
        Size(built.written.size),
        Count(built.index.items.len(), "item", "items"),
        archs.join(" and "),
        options.key.public().id()
    ));
    diff::tell(&built.index, watch);
    if built.index.items.is_empty() {
        watch.note("warning: the bundle is empty: the manifest asks for nothing");
    }
    Ok(())
}
