//! Flags of the commands that fetch.

use crate::cache::{self, Cache};
use crate::error::Error;
use crate::http::{Http, Network, Options, Route};
use crate::manifest::Manifest;
use crate::packages;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct NetworkArgs {
    /// Use only what is in the cache; fail if something is missing.
    #[arg(long)]
    pub offline: bool,
    /// Where to keep what was fetched [default: ~/.cache/eggo].
    #[arg(long, value_name = "DIR", env = "EGGO_CACHE_DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Trust the CAs in this PEM file too; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub ca_file: Vec<PathBuf>,
}

impl NetworkArgs {
    pub fn open(&self) -> Result<(Http, Cache), Error> {
        self.open_with(Vec::new())
    }

    /// For what this manifest names.
    pub fn open_for(&self, manifest: &Manifest) -> Result<(Http, Cache), Error> {
        self.open_with(packages::routes(manifest)?)
    }

    fn open_with(&self, routes: Vec<Route>) -> Result<(Http, Cache), Error> {
        let network = if self.offline { Network::Offline } else { Network::Online };
        let options = Options { network, ca_files: self.ca_file.clone(), routes, ..Options::default() };
        let folder = match &self.cache_dir {
            Some(folder) => folder.clone(),
            None => cache::default_folder()?,
        };
        Ok((Http::new(options)?, Cache::open(folder)?))
    }
}
