use super::keys::SealArgs;
use super::network::NetworkArgs;
use crate::Tools;
use crate::eggo::{self, Tarball};
use crate::error::Error;
use crate::fetch::Sources;
use eggo_bundles::output::check_place;
use eggo_bundles::progress::Progress as _;
use eggo_bundles::{Arch, WriteError, seal_created, write};
use eggo_terminal::{Count, Report, Size, Watch};
use std::path::PathBuf;

/// Make a bundle of eggo's own offline tarballs
///
/// Both of eggo's layouts are understood. The arch of a tarball is read from the programs and
/// packages inside; say it where there are none: arm64=FILE.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  eggo-bundle import packages-x86.tar.gz packages-arm.tar.gz --name k8s --version 1.20.2 -o k8s.tar.gz")]
pub(super) struct Args {
    /// FILE or ARCH=FILE, one for each arch.
    #[arg(required = true, value_parser = tarball)]
    tarballs: Vec<Tarball>,
    /// The name of the bundle.
    #[arg(long, default_value = "eggo")]
    name: String,
    /// The version of the bundle.
    #[arg(long, default_value = "0")]
    version: String,
    #[command(flatten)]
    seal: SealArgs,
    /// The file to write, which is replaced if it is there [default: NAME-VERSION.tar.gz].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArgs,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    let default = || PathBuf::from(format!("{}-{}.tar.gz", args.name, args.version));
    let out = args.output.clone().unwrap_or_else(default);
    let unwritten = |source| Error::from(WriteError::Output { path: out.clone(), source });
    check_place(&out).map_err(unwritten)?;
    let key = args.seal.key(watch)?;
    let (http, cache) = args.network.open()?;
    let tools = Tools { http: &http, cache: &cache, progress: watch };
    let imported = super::block_on(eggo::import(&args.name, &args.version, &args.tarballs, tools))??;
    let sources = Sources::of_cache(&cache, imported.generated);
    let items = imported.index.items.len();
    let sealed = seal_created(imported.index, args.seal.created, &key).map_err(Error::from)?;
    let written = write(&out, &sealed, &sources, watch).map_err(Error::from)?;
    watch.note(&format!(
        "wrote `{}`: {}, {}",
        out.display(),
        Size(written.size),
        Count(items, "item", "items")
    ));
    Ok(())
}

fn tarball(text: &str) -> Result<Tarball, String> {
    if let Some((arch, path)) = text.split_once('=')
        && let Ok(arch) = arch.parse::<Arch>()
    {
        return Ok(Tarball { path: path.into(), arch: Some(arch) });
    }
    Ok(Tarball { path: text.into(), arch: None })
}
