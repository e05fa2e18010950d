//! The bundle and the keys that may sign it, as commands take them.

use super::output;
use eggo_bundles::{Bundle, TrustedKeys, Verified};
use eggo_deploy::config::Config;
use eggo_deploy::content::{Content, Tarballs};
use eggo_terminal::{Exit, Report};
use std::path::{Path, PathBuf};

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

/// A bundle, or what stands in for one.
#[derive(Debug, Clone, clap::Args)]
pub struct ContentArgs {
    /// The bundle, or the first part of a split one
    #[arg(value_name = "BUNDLE")]
    pub bundle: Option<PathBuf>,

    #[command(flatten)]
    pub trust: TrustArgs,

    /// Without a bundle: install the unsigned tarballs that deploy.yaml names in `package-source`,
    /// as old eggo did. Nobody vouches for their content
    #[arg(long)]
    pub allow_unsigned: bool,
}

impl ContentArgs {
    pub fn open(&self, config: &Config) -> Result<Content, Report> {
        match &self.bundle {
            Some(path) => self.trust.content(path),
            None => self.tarballs(config),
        }
    }

    fn tarballs(&self, config: &Config) -> Result<Content, Report> {
        let paths = &config.content.tarballs;
        if paths.is_empty() {
            return Err(super::usage("no bundle is given")
                .hinted("eggo-install BUNDLE -f deploy.yaml --pubkey KEY.pub"));
        }
        if !self.allow_unsigned {
            return Err(Report::new("deploy.yaml names tarballs, and nobody has signed them")
                .exit(Exit::Untrusted)
                .hinted("give a signed bundle; or, if you trust these files, `--allow-unsigned`"));
        }
        for (arch, path) in paths {
            output::say(format_args!(
                "warning: UNSIGNED content for {arch} from {}: nobody vouches for it",
                path.display()
            ));
        }
        Ok(Content::Tarballs(Box::new(Tarballs::open(paths, &std::env::temp_dir())?)))
    }
}

impl TrustArgs {
    pub fn content(&self, path: &Path) -> Result<Content, Report> {
        let bundle = self.open(path)?;
        Ok(match self.base {
            Some(_) => Content::merged(bundle),
            None => Content::Bundle(bundle),
        })
    }

    /// Opens the bundle; nothing of it but its framing is read before its signature holds.
    pub fn open(&self, path: &Path) -> Result<Bundle<Verified>, Report> {
        let trusted = TrustedKeys::from_files_or_folders(&self.pubkey).map_err(|error| {
            let mut report = Report::new(with_cause(&error)).code(error.code());
            report.hint = error.hint();
            report
        })?;
        let open = |path: &Path| Bundle::open(path).and_then(|bundle| bundle.verify(&trusted));
        let bundle = open(path).map_err(|error| not_a_command(path, refused(error)))?;
        match &self.base {
            Some(base) => bundle.with_base(&open(base).map_err(refused)?).map_err(refused),
            None => Ok(bundle),
        }
    }
}

/// `eggo-install validat` is a command that went wrong, not a bundle.
fn not_a_command(path: &Path, report: Report) -> Report {
    match super::meant_command(path) {
        Some(near) => report.hinted(format!("did you mean the command `{near}`?")).exit(Exit::Usage),
        None => report,
    }
}

fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

pub fn refused(error: eggo_bundles::Error) -> Report {
    let mut report = Report::new(with_cause(&error)).code(error.code());
    report.hint = error.hint();
    report.exit(if error.is_untrusted() { Exit::Untrusted } else { Exit::User })
}
