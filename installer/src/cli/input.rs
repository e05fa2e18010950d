//! deploy.yaml, as most commands take it.

use super::output;
use super::surroundings::surroundings;
use eggo_deploy::config::{self, Loaded};
use eggo_terminal::Report;
use eggo_yaml::Problems;
use std::path::PathBuf;

#[derive(Debug, Clone, clap::Args)]
pub struct ConfigArgs {
    /// The cluster's description [default: ~/.eggo/deploy.yaml, if it is there]
    #[arg(short = 'f', long = "file", value_name = "DEPLOY.YAML")]
    pub file: Option<PathBuf>,
}

impl ConfigArgs {
    pub fn path(&self) -> Result<PathBuf, Report> {
        if let Some(path) = &self.file {
            return Ok(path.clone());
        }
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".eggo/deploy.yaml"));
        home.filter(|path| path.is_file()).ok_or_else(|| {
            super::usage("no deploy.yaml is given")
                .hinted("name it with `-f`, or write one with `eggo-install template`")
        })
    }

    /// Loads it; warnings go to stderr.
    pub fn load(&self) -> Result<Loaded, Report> {
        let mut loaded = config::load(&self.path()?)?;
        surroundings().settle(&mut loaded.config);
        warn(&loaded.warnings);
        // A bundle may have what the file's own tarballs lack.
        warn(&loaded.lacking);
        Ok(loaded)
    }
}

pub fn warn(warnings: &Problems) {
    if !warnings.list.is_empty() {
        for line in warnings.to_string().lines() {
            output::say(format_args!("warning: {line}"));
        }
    }
}
