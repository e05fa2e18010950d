//! Authorities and leaves on the control machine, and the administrator's kubeconfig.

use crate::cluster::Cluster;
use crate::phases::PhaseError;
use eggo_terminal::Report;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    make(cluster).map_err(PhaseError::Whole)
}

fn make(cluster: &Cluster) -> Result<(), Report> {
    for node in &cluster.nodes {
        for row in cluster.rows(&node.host) {
            cluster.leaf(&node.host, row.path)?;
        }
    }
    write_admin(cluster)
}

/// The administrator's certificate anew.
pub fn renew_admin(cluster: &Cluster) -> Result<(), Report> {
    cluster.renew_admin()?;
    write_admin(cluster)
}

fn write_admin(cluster: &Cluster) -> Result<(), Report> {
    let text = cluster.admin_kubeconfig(&cluster.endpoint())?;
    let path = cluster.state.join("admin.conf");
    write_private(&path, text.as_bytes())
        .map_err(|error| Report::new(format!("cannot write `{}`: {error}", path.display())))
}

fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|found| found == bytes) {
        return fs::set_permissions(path, fs::Permissions::from_mode(0o600));
    }
    let new = path.with_extension("conf.new");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(new, path)
}
