use super::output::{self, Format, FormatArgs};
use crate::error::Error;
use crate::lock::Lock;
use crate::manifest::Manifest;
use crate::why::{self, Chain};
use eggo_bundles::Arch;
use eggo_terminal::Report;
use std::path::PathBuf;

/// Say why something is in the bundle: who asked for it, from the lock
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  eggo-bundle why libseccomp2 -m k8s.yaml")]
pub(super) struct Args {
    /// A package, image, binary, file or addon.
    name: String,
    /// The manifest whose lock to read [default: bundle.yaml, else manifests/default.yaml].
    #[arg(short, long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Only for this arch.
    #[arg(long, value_name = "ARCH")]
    arch: Option<Arch>,
    #[command(flatten)]
    format: FormatArgs,
}

pub(super) fn run(args: &Args) -> Result<(), Report> {
    let manifest = Manifest::load(args.manifest.as_deref()).map_err(Error::from)?;
    let file = manifest.lock_file();
    let lock = Lock::load(&file).map_err(Error::from)?.ok_or_else(|| {
        Report::new(format!("there is no lock `{}`", file.display())).hinted("run `eggo-bundle lock` first")
    })?;
    let mut chains = why::chains(&lock, &args.name);
    chains.retain(|chain| args.arch.is_none_or(|arch| chain.arch.is_none_or(|of| of == arch)));
    if chains.is_empty() {
        let report = Report::new(format!("`{}` is not in `{}`", args.name, file.display()));
        return Err(match (why::baseline_with(&lock, &args.name), why::nearest(&lock, &args.name)) {
            (Some(baseline), _) => {
                report.hinted(format!("targets have it: it is in the baseline `{baseline}`"))
            }
            (None, Some(near)) => report.hinted(format!("did you mean `{near}`?")),
            (None, None) => report,
        });
    }
    match args.format.get() {
        Format::Json => output::json(&chains),
        Format::Text => output::print(&chains.iter().map(Chain::to_string).collect::<String>()),
    }
}
