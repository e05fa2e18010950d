//! The bundle and the keys that may sign it, as several commands take them.

use eggo_bundles::keys::TrustedKeys;
use eggo_bundles::reader::{Bundle, Verified};
use eggo_terminal::{Exit, Report};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, clap::Args)]
pub struct BundleArgs {
    /// The bundle, or the first part of a split one
    #[arg(value_name = "BUNDLE")]
    pub bundle: PathBuf,

    #[command(flatten)]
    pub trust: TrustArgs,
}

#[derive(Debug, Clone, clap::Args)]
pub struct TrustArgs {
    /// A public key that may sign bundles; may be repeated
    /// [default: *.pub in /etc/eggo/trusted-keys and ~/.config/eggo/trusted-keys]
    #[arg(long, value_name = "KEY.pub")]
    pub pubkey: Vec<PathBuf>,

    /// The bundle that a delta was made from
    #[arg(long, value_name = "OLD")]
    pub base: Option<PathBuf>,
}

impl TrustArgs {
    /// Opens the bundle; nothing of it but its framing is read before its signature holds.
    pub fn open(&self, path: &Path) -> Result<Bundle<Verified>, Report> {
        let trusted = TrustedKeys::from_files_or_folders(&self.pubkey).map_err(|error| {
            let report = Report::new(error.to_string());
            error.hint().map_or(report.clone(), |hint| report.hinted(hint))
        })?;
        let open = |path: &Path| Bundle::open(path).and_then(|bundle| bundle.verify(&trusted));
        let bundle = open(path).map_err(refused)?;
        match &self.base {
            Some(base) => bundle.with_base(&open(base).map_err(refused)?).map_err(refused),
            None => Ok(bundle),
        }
    }
}

pub fn refused(error: eggo_bundles::error::Error) -> Report {
    let source = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let mut report = Report::new(format!("{error}{source}"));
    report.hint = error.hint();
    report.exit(if error.is_untrusted() { Exit::Untrusted } else { Exit::User })
}
