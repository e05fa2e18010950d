use super::network::NetworkArgs;
use super::open::TrustArgs;
use super::output;
use crate::error::Error;
use crate::images::{self, Credentials, Reference, Registries};
use crate::{Tools, publish};
use eggo_bundles::progress::Progress as _;
use eggo_bundles::{Bundle, Verified};
use eggo_terminal::{Report, Size, Watch};
use std::path::{Path, PathBuf};

/// Write a release: the bundle, its index, signature, checksums, bill of materials and notes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  eggo-bundle publish k8s.tar.gz /srv/www/releases/1.20.2 --pubkey release.key.pub
  eggo-bundle publish k8s.tar.gz oci://registry.example/bundles/k8s:1.20.2 --pubkey release.key.pub

An interrupted push continues when it is run again; `oras pull` fetches the files. Credentials are
those of `docker login` or `skopeo login`.")]
pub(super) struct Args {
    /// The bundle; of a split one, the first part.
    bundle: PathBuf,
    /// The folder to write to, made if it is not there; or `oci://HOST/REPOSITORY:TAG`.
    target: String,
    /// Speak plain http to the registry.
    #[arg(long)]
    plain_http: bool,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    network: NetworkArgs,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let bundle = args.trust.verified(&args.bundle)?;
    if let Some(target) = args.target.strip_prefix("oci://") {
        return push(args, &bundle, target, watch);
    }
    let files = publish::to_folder(&bundle, Path::new(&args.target), watch)?;
    watch.note(&format!("wrote {} files to `{}`", files.len(), args.target));
    let lines: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    output::print(&lines)
}

fn push(args: &Args, bundle: &Bundle<Verified>, target: &str, watch: &Watch) -> Result<(), Report> {
    let target: Reference = target.parse().map_err(images::Error::from).map_err(Error::from)?;
    let mut registries = Registries { credentials: Credentials::of_user(), ..Registries::default() };
    if args.plain_http {
        registries.insecure.insert(target.registry().to_string());
    }
    let (http, cache) = args.network.open()?;
    let tools = Tools { http: &http, cache: &cache, progress: watch };
    let pushed = super::block_on(publish::to_registry(bundle, &target, &registries, tools))??;
    let (sent, present) = (Size(pushed.sent), Size(pushed.present));
    watch.note(&format!("pushed `{}`: {sent} sent, {present} were there", pushed.reference));
    let repository = format!("{}/{}", target.registry(), target.repository());
    output::print(&format!("{repository}@{}\n", pushed.digest.oci()))
}
