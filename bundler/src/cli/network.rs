//! Flags of the commands that fetch.

use crate::cache::{self, Cache};
use crate::error::Error;
use crate::http::{Http, Network, Options};
use crate::manifest::Manifest;
use crate::reach;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct NetworkArgs {
    /// Use only what is in the cache; fail if something is missing.
    #[arg(long)]
    pub offline: bool,
    /// Where to keep what was fetched [default: ~/.cache/eggo].
    #[arg(long, value_name = "DIR", env = "EGGO_CACHE_DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Trust the CAs, or the server's own certificate, in this PEM file too; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub ca_file: Vec<PathBuf>,
}

impl NetworkArgs {
    pub(super) fn open(&self) -> Result<(Http, Cache), Error> {
        self.open_with(self.options())
    }

    /// For what this manifest names.
    pub(super) fn open_for(&self, manifest: &Manifest) -> Result<(Http, Cache), Error> {
        self.open_with(reach::reach(manifest, self.options())?)
    }

    fn options(&self) -> Options {
        let network = if self.offline { Network::Offline } else { Network::Online };
        Options { network, ca_files: self.ca_file.clone(), ..Options::default() }
    }

    fn open_with(&self, options: Options) -> Result<(Http, Cache), Error> {
        let folder = match &self.cache_dir {
            Some(folder) => folder.clone(),
            None => cache::default_folder()?,
        };
        Ok((Http::new(options)?, Cache::open(folder)?))
    }
}
