//! What this machine remembers of a cluster: its configuration as it was last installed, without
//! passwords, and the hooks that a cleanup will run.

use crate::cluster::deploy::certificates::CONFIG;
use crate::cluster::etcd_data::BACKUPS;
use crate::config::{Config, Schedule};
use eggo_bundles::Arch;
use eggo_errors::Report;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const HOOKS: &str = "hooks";

/// `None` if no install has got that far.
pub fn load(state: &Path) -> Result<Option<Config>, Report> {
    let path = state.join(CONFIG);
    let failed = |error: io::Error| Report::new(format!("cannot read `{}`: {error}", path.display()));
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| failed(error.into()))
}

/// What to say where [`load`] finds nothing.
pub fn none(config: &Config, state: &Path) -> Report {
    let others = state.parent().and_then(|folder| list(folder).ok()).unwrap_or_default();
    let others: Vec<String> = others.iter().map(|other| format!("`{}`", other.cluster_id)).collect();
    let others =
        if others.is_empty() { String::new() } else { format!("; beside it is {}", others.join(", ")) };
    Report::new(format!("no cluster `{}` was installed from this machine", config.cluster_id))
        .note(format!("looked in `{}`{others}", state.display()))
        .hinted("eggo-install BUNDLE -f deploy.yaml installs it; one with its state elsewhere: --state-dir")
}

/// All clusters below a state folder, by name.
pub fn list(folder: &Path) -> Result<Vec<Config>, Report> {
    let failed = |error: io::Error| Report::new(format!("cannot read `{}`: {error}", folder.display()));
    let entries = match fs::read_dir(folder) {
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

/// Keeps the hooks around a cleanup, when no bundle is at hand any more. `script` finds them.
pub fn save_hooks(
    state: &Path,
    config: &Config,
    script: impl Fn(&str, Arch) -> Result<Option<Vec<u8>>, Report>,
) -> Result<(), Report> {
    let late = |schedule| matches!(schedule, Schedule::Precleanup | Schedule::Postcleanup);
    for hook in config.hooks.iter().filter(|hook| late(hook.schedule)) {
        for host in config.with_role(hook.role) {
            // A hook that the bundle lacks is the plan's to refuse.
            if let Some(text) = script(&hook.name, host.arch)? {
                let path = hook_path(state, &hook.name, host.arch);
                write(&path, &text)
                    .map_err(|error| Report::new(format!("cannot write `{}`: {error}", path.display())))?;
            }
        }
    }
    Ok(())
}

/// A hook that was kept; `None` if no install has got that far.
pub fn hook(state: &Path, name: &str, arch: Arch) -> Result<Option<Vec<u8>>, Report> {
    let path = hook_path(state, name, arch);
    match fs::read(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Report::new(format!("cannot read `{}`: {error}", path.display()))),
    }
}

/// A hook's name is that of a file: deploy.yaml is refused otherwise.
fn hook_path(state: &Path, name: &str, arch: Arch) -> PathBuf {
    state.join(HOOKS).join(arch.as_str()).join(name)
}

/// Forgets a cluster. Backups of etcd may be all that is left of it: they are kept, in the folder returned.
pub fn remove(state: &Path) -> io::Result<Option<PathBuf>> {
    let name = state.file_name().unwrap_or_default().to_string_lossy();
    let kept = state.with_file_name(format!("{name}-{BACKUPS}"));
    let mut any = false;
    if let Ok(backups) = fs::read_dir(state.join(BACKUPS)) {
        for backup in backups {
            let backup = backup?;
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&kept)?;
            fs::rename(backup.path(), kept.join(backup.file_name()))?;
            any = true;
        }
    }
    fs::remove_dir_all(state)?;
    Ok(any.then_some(kept))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let new = path.with_extension("new");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    io::Write::write_all(&mut file, bytes)?;
    file.sync_all()?;
    fs::rename(new, path)
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
        let looked = |name: &str| none(&config, &folder.path().join(name)).notes;
        let place = |name: &str| format!("looked in `{}`", folder.path().join(name).display());
        assert_eq!(looked("kept"), [place("kept")]);
        save_config(&state, &config).unwrap();
        let mode = std::fs::metadata(state.join(CONFIG)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!std::fs::read_to_string(state.join(CONFIG)).unwrap().contains("s3cret"));
        assert_eq!(looked("other"), [place("other") + "; beside it is `kept`"]);
        config.login.password = None;
        assert_eq!(list(folder.path()).unwrap(), [config]);
        assert_eq!(list(&folder.path().join("none")).unwrap(), []);
    }

    #[test]
    fn backups_outlive_their_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("one");
        std::fs::create_dir_all(&state).unwrap();
        assert_eq!(remove(&state).unwrap(), None);
        for backup in ["first.db", "second.db"] {
            std::fs::create_dir_all(state.join(BACKUPS)).unwrap();
            std::fs::write(state.join(BACKUPS).join(backup), backup).unwrap();
            let kept = remove(&state).unwrap().unwrap();
            assert_eq!(std::fs::read_to_string(kept.join(backup)).unwrap(), backup);
            assert!(!state.exists() && kept.join("first.db").exists());
        }
        assert_eq!(list(folder.path()).unwrap(), []);
    }
}
