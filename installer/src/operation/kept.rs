//! What this machine remembers of a cluster: its configuration as it was last installed, without
//! passwords.

use crate::config::Config;
use eggo_terminal::Report;
use std::io;
use std::path::Path;

const FILE: &str = "config.json";

/// `None` if no install has got that far.
pub fn load(state: &Path) -> Result<Option<Config>, Report> {
    let path = state.join(FILE);
    let failed = |error: io::Error| Report::new(format!("cannot read `{}`: {error}", path.display()));
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| failed(error.into()))
}

/// All clusters below a state folder, by name.
pub fn list(folder: &Path) -> Result<Vec<Config>, Report> {
    let failed = |error: io::Error| Report::new(format!("cannot read `{}`: {error}", folder.display()));
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut clusters = Vec::new();
    for entry in entries {
        clusters.extend(load(&entry.map_err(failed)?.path())?);
    }
    clusters.sort_by(|a, b| a.cluster_id.cmp(&b.cluster_id));
    Ok(clusters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::deploy::certificates::save_config;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_config_is_kept_without_its_password() {
        let text = "cluster-id: kept\npassword: s3cret\n\
                    masters: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                    workers: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                    install: {package-source: {type: bundle}}\n";
        let mut config = crate::config::parse("d.yaml", text.as_bytes()).unwrap().config;
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("kept");
        std::fs::create_dir(&state).unwrap();
        std::fs::write(folder.path().join("stray"), "").unwrap();
        assert_eq!(load(&state).unwrap(), None);
        save_config(&state, &config).unwrap();
        let mode = std::fs::metadata(state.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!std::fs::read_to_string(state.join(FILE)).unwrap().contains("s3cret"));
        config.login.password = None;
        assert_eq!(list(folder.path()).unwrap(), [config]);
        assert_eq!(list(&folder.path().join("none")).unwrap(), []);
    }
}
