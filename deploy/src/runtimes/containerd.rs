//! containerd.
//!
//! A user's own settings are in `/etc/containerd/conf.d/*.toml` on the node, or in deploy.yaml.
//! They are merged here, key by key. containerd's own `imports` would not do: until 2.0 an
//! imported plugin section replaces the whole section of the main file.

use super::{
    CNI_CONFIG, CgroupDriver, CniFolders, Containers, Format, Identity, Images, Kubelet, Reads, Runtime,
    RuntimeError, RuntimeSettings, Scope, cni_bin_dir,
};
use crate::script::RemoteFile;
use crate::version::Version;
use toml::{Table, Value};

const SETTINGS: &str = "/etc/containerd/config.toml";
/// Pieces of its configuration that are the user's own.
pub const USER_SETTINGS: &str = "/etc/containerd/conf.d";
const CERTS: &str = "/etc/containerd/certs.d";
pub(super) const DATA: &str = "/var/lib/containerd";
pub(super) const RUN: &str = "/run/containerd";

pub(super) const RUNTIME: Runtime = Runtime {
    name: "containerd",
    words: &["containerd"],
    service: "containerd",
    program: "containerd",
    client: "ctr",
    // docker's packages bring one.
    packages: &["containerd", "docker"],
    endpoint: "unix:///run/containerd/containerd.sock",
    data: DATA,
    kubelet: Kubelet::Remote,
    settings: Format::Toml,
    reads: &[Reads::Folder(USER_SETTINGS, ".toml")],
    user_driver,
    files,
    cni: |scope| if knows_several(scope) { CniFolders::All } else { CniFolders::One },
    images: Images {
        identity: Identity::Manifest,
        short_names: false,
        pins: &[Version::new(1, 6, 22), Version::new(1, 7, 3)],
    },
    containers: Containers {
        shim: "containerd-shim",
        namespace: "",
        pods: "k8s.io",
        folders: &[DATA, RUN, CERTS],
        uses: None,
        link: None,
    },
    shell: include_str!("containerd.sh"),
};

fn files(scope: &Scope<'_>) -> Result<Vec<RemoteFile>, RuntimeError> {
    let mut table = ours(scope);
    for (name, text) in user_settings(scope) {
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
        USER_SETTINGS,
        toml::to_string(&table).expect("a table of TOML values is TOML")
    );
    let mut files = vec![RemoteFile::new(SETTINGS, text)];
    files.extend(registries(scope));
    Ok(files)
}

fn user_driver(scope: &Scope<'_>) -> Option<CgroupDriver> {
    let mut merged = Table::new();
    for (_, text) in user_settings(scope) {
        merge(&mut merged, text.parse().ok()?);
    }
    let mut value = merged.get("plugins")?;
    value = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"]
        .iter()
        .find_map(|name| value.get(name))?;
    for key in ["containerd", "runtimes", "runc", "options", "SystemdCgroup"] {
        value = value.get(key)?;
    }
    Some(CgroupDriver::of(value.as_bool()?))
}

fn version(scope: &Scope<'_>) -> (u16, u16) {
    scope.version.map_or((1, 0), |version| (version.major, version.minor))
}

/// Whether it looks for CNI programs in several folders.
fn knows_several(scope: &Scope<'_>) -> bool {
    version(scope) >= (2, 1)
}

fn ours(scope: &Scope<'_>) -> Table {
    let version = version(scope);
    let systemd = scope.cgroup_driver() == CgroupDriver::Systemd;
    let mut table = Table::new();
    let pause = Value::from(scope.chosen.pause_image.as_str());
    let bin_dir = cni_bin_dir(scope);
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
    let has_registries = !registries(scope).is_empty();
    if version >= (2, 0) {
        let (images, runtime) = ("io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime");
        set(&["version"], Value::Integer(3));
        set(&["plugins", images, "pinned_images", "sandbox"], pause);
        // A list since 2.1; 2.4 knows nothing else.
        match knows_several(scope) {
            true => set(&["plugins", runtime, "cni", "bin_dirs"], scope.cni_bin_dirs.to_vec().into()),
            false => set(&["plugins", runtime, "cni", "bin_dir"], bin_dir.into()),
        }
        set(&["plugins", runtime, "cni", "conf_dir"], CNI_CONFIG.into());
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
        set(&["plugins", cri, "cni", "conf_dir"], CNI_CONFIG.into());
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
fn registries(scope: &Scope<'_>) -> Vec<RemoteFile> {
    let mut files = Vec::new();
    let runtime = scope.chosen;
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
fn user_settings(scope: &Scope<'_>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if let Some(RuntimeSettings::Toml(text)) = &scope.chosen.settings {
        found.push(("deploy.yaml".to_string(), text.clone()));
    }
    for (path, bytes) in scope.settings {
        if path.starts_with(USER_SETTINGS) {
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
