//! Opening a bundle that a user names, as far as it can be trusted.

use crate::error::Error;
use clap::Args;
use eggo_bundles::reader::{OpenPipe, Pipe};
use eggo_bundles::{Bundle, PublicKey, TrustedKeys, Untrusted, Verified};
use eggo_terminal::{Exit, Report, Watch};
use std::path::{Path, PathBuf};

/// The name by which users mean standard input.
const PIPE: &str = "-";

pub(super) fn is_pipe(path: &Path) -> bool {
    path == Path::new(PIPE)
}

/// A pipe goes by once, so that nothing of a parent can be read in its order.
pub(super) fn pipe_takes_no_base(base: Option<&Path>) -> Result<(), Report> {
    match base {
        None => Ok(()),
        Some(_) => Err(Report::new("`--base` does not go with a bundle from standard input")
            .hinted("save the delta to a file and name that")
            .exit(Exit::Usage)),
    }
}

#[derive(Debug, Args)]
pub(super) struct TrustArgs {
    /// The public key that must have signed it; may be repeated
    /// [default: every *.pub in /etc/eggo/trusted-keys and ~/.config/eggo/trusted-keys].
    #[arg(long, value_name = "FILE")]
    pub pubkey: Vec<PathBuf>,
}

/// A bundle to look into.
pub(super) enum Opened {
    Verified(Bundle<Verified>),
    /// No trusted key signed it, and the user named none.
    Untrusted(Bundle<Untrusted>),
}

impl Opened {
    /// The trusted key that signed it.
    pub(super) fn key(&self) -> Option<&PublicKey> {
        match self {
            Opened::Verified(bundle) => Some(bundle.key()),
            Opened::Untrusted(_) => None,
        }
    }

    fn without_trust(self) -> Bundle<Untrusted> {
        match self {
            Opened::Verified(bundle) => bundle.untrusted(),
            Opened::Untrusted(bundle) => bundle,
        }
    }
}

/// Runs the same code on either kind of bundle.
macro_rules! with_bundle {
    ($opened:expr, $bundle:ident => $body:expr) => {
        match $opened {
            $crate::cli::open::Opened::Verified($bundle) => $body,
            $crate::cli::open::Opened::Untrusted($bundle) => $body,
        }
    };
}
pub(crate) use with_bundle;

impl TrustArgs {
    /// A bundle that a trusted key signed, or an error that says why not.
    pub(super) fn verified(&self, path: &Path) -> Result<Bundle<Verified>, Report> {
        let keys = self.keys()?;
        let bundle = Bundle::open(path).and_then(|bundle| bundle.verify(&keys));
        bundle.map_err(|error| Error::from(error).into())
    }

    /// As [`TrustArgs::verified`], where `own` counts as trusted too.
    pub(super) fn verified_by(&self, path: &Path, own: &PublicKey) -> Result<Bundle<Verified>, Report> {
        let keys = self.keys()?.and(own.clone());
        let bundle = Bundle::open(path).and_then(|bundle| bundle.verify(&keys));
        bundle.map_err(|error| Error::from(error).into())
    }

    /// For commands that install nothing: without `--pubkey`, a bundle of an unknown key is opened
    /// all the same, and that is said even where all else is quiet. A forged one never is.
    pub(super) fn opened(&self, path: &Path, watch: &Watch) -> Result<Opened, Report> {
        let keys = self.keys()?;
        match Bundle::open(path).and_then(|bundle| bundle.verify(&keys)) {
            Ok(bundle) => Ok(Opened::Verified(bundle)),
            Err(eggo_bundles::Error::Distrust { why, .. })
                if self.pubkey.is_empty() && why.is_unknown_key() =>
            {
                watch.insist(&format!("warning: `{}` is not verified: {why}", path.display()));
                let bundle = Bundle::open(path).and_then(Bundle::without_trust);
                Ok(Opened::Untrusted(bundle.map_err(Error::from)?))
            }
            Err(error) => Err(Error::from(error).into()),
        }
    }

    /// As [`TrustArgs::opened`], with the parent of a delta where one is given. What nobody vouches
    /// for makes up nothing that somebody does.
    pub(super) fn opened_on(
        &self,
        path: &Path,
        base: Option<&Path>,
        watch: &Watch,
    ) -> Result<Opened, Report> {
        let opened = self.opened(path, watch)?;
        let Some(base) = base else { return Ok(opened) };
        let both = match (opened, self.opened(base, watch)?) {
            (Opened::Verified(bundle), Opened::Verified(base)) => {
                bundle.with_base(&base).map(Opened::Verified)
            }
            (bundle, base) => bundle.without_trust().with_base(&base.without_trust()).map(Opened::Untrusted),
        };
        both.map_err(|error| Error::from(error).into())
    }

    /// As [`TrustArgs::verified`], from standard input, with the key that signed.
    pub(super) fn verified_pipe(&self) -> Result<(OpenPipe, PublicKey), Report> {
        let keys = self.keys()?;
        let opened = stdin().and_then(|pipe| {
            let signer = pipe.signer(&keys)?;
            Ok((pipe.verify(&keys)?, signer))
        });
        opened.map_err(|error| Error::from(error).into())
    }

    /// As [`TrustArgs::opened`], from standard input, with the trusted key that signed.
    pub(super) fn opened_pipe(&self, watch: &Watch) -> Result<(OpenPipe, Option<PublicKey>), Report> {
        let keys = self.keys()?;
        let pipe = stdin().map_err(Error::from)?;
        let signer = pipe.signer(&keys);
        let opened = match &signer {
            Err(eggo_bundles::Error::Distrust { why, .. })
                if self.pubkey.is_empty() && why.is_unknown_key() =>
            {
                watch.insist(&format!("warning: `{PIPE}` is not verified: {why}"));
                pipe.without_trust()
            }
            _ => pipe.verify(&keys),
        };
        Ok((opened.map_err(Error::from)?, signer.ok()))
    }

    fn keys(&self) -> Result<TrustedKeys, Report> {
        TrustedKeys::from_files_or_folders(&self.pubkey).map_err(|error| Error::from(error).into())
    }
}

fn stdin() -> Result<Pipe, eggo_bundles::Error> {
    Pipe::open(std::io::stdin(), Path::new(PIPE))
}
