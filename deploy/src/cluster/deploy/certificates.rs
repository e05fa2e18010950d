//! What the control machine keeps of a cluster: authorities and leaves, the administrator's
//! kubeconfig, and the config, without its password.

use crate::cluster::Cluster;
use crate::config::Config;
use crate::phases::PhaseError;
use eggo_errors::Report;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// The file with the config in a cluster's folder.
pub const CONFIG: &str = "config.json";

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    make(cluster).map_err(PhaseError::Whole)
}

fn make(cluster: &Cluster) -> Result<(), Report> {
    for node in &cluster.nodes {
        for row in cluster.rows(&node.host) {
            cluster.leaf(&node.host, row.path)?;
        }
    }
    write_admin(cluster)?;
    save_config(&cluster.state, &cluster.config)
}

/// The config as the last command left the cluster; `list` reads it.
pub fn save_config(state: &Path, config: &Config) -> Result<(), Report> {
    let text = serde_json::to_vec_pretty(config).map_err(|error| Report::new(error.to_string()))?;
    write(&state.join(CONFIG), &text)
}

/// Whether this phase has been through: the config comes last, and before any node gets a certificate.
pub fn are_made(state: &Path) -> bool {
    state.join(CONFIG).exists()
}

/// The administrator's certificate anew.
pub fn renew_admin(cluster: &Cluster) -> Result<(), Report> {
    cluster.renew_admin()?;
    write_admin(cluster)
}

fn write_admin(cluster: &Cluster) -> Result<(), Report> {
    let text = cluster.admin_kubeconfig(&cluster.endpoint())?;
    write(&cluster.state.join("admin.conf"), text.as_bytes())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Report> {
    write_private(path, bytes)
        .map_err(|error| Report::new(format!("cannot write `{}`: {error}", path.display())))
}

fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|found| found == bytes) {
        return fs::set_permissions(path, fs::Permissions::from_mode(0o600));
    }
    let new = path.with_extension("new");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(new, path)
}
