//! The state folder, as commands take it.

use eggo_deploy::config::Config;
use std::path::PathBuf;

#[derive(Debug, Clone, clap::Args)]
pub struct StateArgs {
    /// Where the state of clusters is kept: journal, certificates, the admin's kubeconfig
    #[arg(long, value_name = "DIR", default_value = "/etc/eggo", env = "EGGO_STATE_DIR")]
    pub state_dir: PathBuf,
}

impl StateArgs {
    /// The folder of one cluster.
    pub fn of(&self, config: &Config) -> PathBuf {
        self.state_dir.join(&config.cluster_id)
    }
}
