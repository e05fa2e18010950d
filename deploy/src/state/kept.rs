//! What this machine remembers of a cluster: its configuration as it was last installed, without
//! passwords, and the hooks that a cleanup will run.

use super::folder::was_moved_aside;
use super::{Folder, Name, State};
use crate::config::{Config, Schedule};
use eggo_bundles::Arch;
use eggo_errors::Report;
use std::fs;
use std::io;
use std::path::Path;

/// `None` if no install has got that far.
pub fn load(state: &Path) -> Result<Option<Config>, Report> {
    let (state, name) = (Folder::new(state), Name::Config);
    let path = state.path(&name);
    let failed = |error: io::Error| Report::new(format!("cannot read `{}`: {error}", path.display()));
    let Some(text) = state.get(&name).map_err(failed)? else { return Ok(None) };
    serde_json::from_slice(&text).map(Some).map_err(|error| failed(error.into()))
}

/// The config as the last command left the cluster.
pub fn save(state: &Path, config: &Config) -> Result<(), Report> {
    let text = serde_json::to_vec_pretty(config).map_err(|error| Report::new(error.to_string()))?;
    let (state, name) = (Folder::new(state), Name::Config);
    let path = state.path(&name);
    let failed = |error| Report::new(format!("cannot write `{}`: {error}", path.display()));
    state.put(&name, &text).map_err(failed)
}

/// Whether all certificates were made: the config comes last, and before any node gets one.
pub fn was_made(state: &Path) -> bool {
    Folder::new(state).has(&Name::Config)
}

/// What to say where [`load`] finds nothing.
pub fn none(config: &Config, state: &Path) -> Report {
    let others = state.parent().and_then(|folder| list(folder).ok()).unwrap_or_default();
    let others: Vec<String> = others.clusters.iter().map(|other| format!("`{}`", other.cluster_id)).collect();
    let others =
        if others.is_empty() { String::new() } else { format!("; beside it is {}", others.join(", ")) };
    Report::new(format!("no cluster `{}` was installed from this machine", config.cluster_id))
        .code("no-cluster")
        .note(format!("looked in `{}`{others}", state.display()))
        .hinted("eggo-install BUNDLE -f deploy.yaml installs it; one with its state elsewhere: --state-dir")
}

/// What is below a state folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// By name.
    pub clusters: Vec<Config>,
    /// One for each cluster whose configuration cannot be read.
    pub damaged: Vec<Report>,
}

/// All clusters below a state folder. One that is damaged does not hide the others.
pub fn list(folder: &Path) -> Result<Listed, Report> {
    let failed = |error: io::Error| Report::new(format!("cannot read `{}`: {error}", folder.display()));
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Listed::default()),
        Err(error) => return Err(failed(error)),
    };
    let mut listed = Listed::default();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if was_moved_aside(&path) {
            continue;
        }
        match load(&path) {
            Ok(cluster) => listed.clusters.extend(cluster),
            Err(report) => listed.damaged.push(report),
        }
    }
    listed.clusters.sort_by(|a, b| a.cluster_id.cmp(&b.cluster_id));
    listed.damaged.sort_by(|a, b| a.message.cmp(&b.message));
    Ok(listed)
}

/// Keeps the hooks around a cleanup, when no bundle is available any more. `script` finds them.
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
                let (state, name) = (Folder::new(state), Name::Hook(host.arch, hook.name.clone()));
                let failed =
                    |error| Report::new(format!("cannot write `{}`: {error}", state.path(&name).display()));
                state.put(&name, &text).map_err(failed)?;
            }
        }
    }
    Ok(())
}

/// A hook that was kept; `None` if no install has got that far.
pub fn hook(state: &Path, name: &str, arch: Arch) -> Result<Option<Vec<u8>>, Report> {
    // A hook's name is that of a file: deploy.yaml is refused otherwise.
    let (state, name) = (Folder::new(state), Name::Hook(arch, name.to_string()));
    let path = state.path(&name);
    state.get(&name).map_err(|error| Report::new(format!("cannot read `{}`: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
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
        save(&state, &config).unwrap();
        let mode = std::fs::metadata(state.join("config.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!std::fs::read_to_string(state.join("config.json")).unwrap().contains("s3cret"));
        assert_eq!(looked("other"), [place("other") + "; beside it is `kept`"]);
        config.login.password = None;
        std::fs::create_dir(folder.path().join("damaged")).unwrap();
        std::fs::write(folder.path().join("damaged/config.json"), "{").unwrap();
        let listed = list(folder.path()).unwrap();
        assert_eq!(listed.clusters, [config]);
        assert_eq!(listed.damaged.len(), 1);
        assert!(listed.damaged[0].message.contains("damaged/config.json"), "{:?}", listed.damaged);
        assert_eq!(list(&folder.path().join("none")).unwrap(), Listed::default());
    }
}
