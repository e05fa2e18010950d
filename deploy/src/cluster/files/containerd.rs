//! containerd's configuration.
//!
//! A user's own settings stand in `/etc/containerd/conf.d/*.toml` on the node, or in deploy.yaml.
//! They are merged here, key by key. containerd's own `imports` would not do: until 2.0 an
//! imported plugin section replaces the whole section of the main file.

use super::runtime::{CgroupDriver, RuntimeError, cgroup_driver, cni_bin_dir};
use crate::cluster::paths;
use crate::cluster::probe::Probe;
use crate::config::{Config, RuntimeSettings};
use crate::remote::RemoteFile;
use toml::{Table, Value};

const CERTS: &str = "/etc/containerd/certs.d";

pub fn files(config: &Config, probe: &Probe) -> Result<Vec<RemoteFile>, RuntimeError> {
    let mut table = ours(config, probe);
    for (name, text) in user_settings(config, probe) {
        let parsed: Table = text
            .parse()
            .map_err(|error: toml::de::Error| RuntimeError::Toml(name.clone(), error.message().into()))?;
        // Sections have other names in other versions: what is said in one would be lost in the other.
        let version = |table: &Table| table.get("version").and_then(Value::as_integer);
        if let (Some(theirs), Some(ours)) = (version(&parsed), version(&table))
            && theirs != ours
        {
            return Err(RuntimeError::Settings { name, theirs, ours });
        }
        merge(&mut table, parsed);
    }
    let text = format!(
        "# Written by eggo-install. Your own settings: {}/*.toml, merged into this file.\n{}",
        paths::CONTAINERD_USER,
        toml::to_string(&table).expect("a table of TOML values is TOML")
    );
    let mut files = vec![RemoteFile::new(paths::CONTAINERD, text)];
    files.extend(registries(config));
    Ok(files)
}

pub fn user_cgroup_driver(config: &Config, probe: &Probe) -> Option<CgroupDriver> {
    let mut merged = Table::new();
    for (_, text) in user_settings(config, probe) {
        merge(&mut merged, text.parse().ok()?);
    }
    let mut value = merged.get("plugins")?;
    value = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"]
        .iter()
        .find_map(|name| value.get(name))?;
    for key in ["containerd", "runtimes", "runc", "options", "SystemdCgroup"] {
        value = value.get(key)?;
    }
    Some(if value.as_bool()? { CgroupDriver::Systemd } else { CgroupDriver::Cgroupfs })
}

fn version(probe: &Probe) -> (u16, u16) {
    probe.version("containerd").map_or((1, 0), |version| (version.major, version.minor))
}

/// Whether it looks for CNI programs in several folders.
pub fn knows_several(probe: &Probe) -> bool {
    version(probe) >= (2, 1)
}

fn ours(config: &Config, probe: &Probe) -> Table {
    let version = version(probe);
    let systemd = cgroup_driver(config, probe) == CgroupDriver::Systemd;
    let mut table = Table::new();
    let pause = Value::from(config.runtime.pause_image.as_str());
    let bin_dir = cni_bin_dir(config, probe);
    let mut set = |path: &[&str], value: Value| {
        let (last, folders) = path.split_last().expect("a path has a key");
        let mut here = &mut table;
        for folder in folders {
            let entry = here.entry(folder.to_string()).or_insert_with(|| Value::Table(Table::new()));
            here = entry.as_table_mut().expect("only tables are made here");
        }
        here.insert(last.to_string(), value);
    };
    let certs = || Value::from(CERTS);
    let has_registries = !registries(config).is_empty();
    if version >= (2, 0) {
        let (images, runtime) = ("io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime");
        set(&["version"], Value::Integer(3));
        set(&["plugins", images, "pinned_images", "sandbox"], pause);
        // A list since 2.1; 2.4 knows nothing else.
        match knows_several(probe) {
            true => set(&["plugins", runtime, "cni", "bin_dirs"], config.network.cni_bin_dirs.clone().into()),
            false => set(&["plugins", runtime, "cni", "bin_dir"], bin_dir.into()),
        }
        set(&["plugins", runtime, "cni", "conf_dir"], paths::CNI_CONFIG.into());
        set(
            &["plugins", runtime, "containerd", "runtimes", "runc", "runtime_type"],
            "io.containerd.runc.v2".into(),
        );
        set(
            &["plugins", runtime, "containerd", "runtimes", "runc", "options", "SystemdCgroup"],
            systemd.into(),
        );
        if has_registries {
            set(&["plugins", images, "registry", "config_path"], certs());
        }
    } else {
        let cri = "io.containerd.grpc.v1.cri";
        set(&["version"], Value::Integer(2));
        set(&["plugins", cri, "sandbox_image"], pause);
        set(&["plugins", cri, "cni", "bin_dir"], bin_dir.into());
        set(&["plugins", cri, "cni", "conf_dir"], paths::CNI_CONFIG.into());
        set(
            &["plugins", cri, "containerd", "runtimes", "runc", "runtime_type"],
            "io.containerd.runc.v2".into(),
        );
        set(&["plugins", cri, "containerd", "runtimes", "runc", "options", "SystemdCgroup"], systemd.into());
        if has_registries {
            set(&["plugins", cri, "registry", "config_path"], certs());
        }
    }
    table
}

/// Mirrors serve what docker.io would; an insecure registry is spoken to over http, or over
/// https with any certificate.
fn registries(config: &Config) -> Vec<RemoteFile> {
    let mut files = Vec::new();
    let runtime = &config.runtime;
    if !runtime.registry_mirrors.is_empty() {
        let mut text = String::from("server = \"https://registry-1.docker.io\"\n");
        for mirror in &runtime.registry_mirrors {
            let url = if mirror.contains("://") { mirror.clone() } else { format!("https://{mirror}") };
            text.push_str(&format!(
                "\n[host.{}]\ncapabilities = [\"pull\", \"resolve\"]\n",
                toml_string(&url)
            ));
            let host = url.split("://").nth(1).unwrap_or(&url).trim_end_matches('/');
            if runtime.insecure_registries.iter().any(|known| known == host) {
                text.push_str("skip_verify = true\n");
            }
        }
        files.push(RemoteFile::new(format!("{CERTS}/docker.io/hosts.toml"), text));
    }
    for registry in &runtime.insecure_registries {
        // docker also takes networks here; containerd knows only names.
        if registry.contains('/') {
            continue;
        }
        let url = toml_string(&format!("http://{registry}"));
        let text = format!(
            "server = {url}\n\n[host.{url}]\ncapabilities = [\"pull\", \"resolve\"]\nskip_verify = true\n"
        );
        files.push(RemoteFile::new(format!("{CERTS}/{registry}/hosts.toml"), text));
    }
    files
}

fn toml_string(text: &str) -> String {
    Value::String(text.to_string()).to_string()
}

/// From deploy.yaml, then from the node, by file name: later ones win.
fn user_settings(config: &Config, probe: &Probe) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if let Some(RuntimeSettings::Toml(text)) = &config.runtime.settings {
        found.push(("deploy.yaml".to_string(), text.clone()));
    }
    for (path, bytes) in &probe.settings {
        if path.starts_with(paths::CONTAINERD_USER) {
            found.push((path.clone(), String::from_utf8_lossy(bytes).into_owned()));
        }
    }
    found
}

fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(more)) => merge(inner, more),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}
