//! What all container runtimes have in common: the cgroup driver, on which runtime and kubelet
//! must agree, and where a user's own settings come from.

use super::{containerd, daemon_json};
use crate::cluster::paths;
use crate::cluster::probe::{Cgroup, Probe};
use crate::cluster::version::Version;
use crate::config::{Component, Config, RuntimeKind};
use crate::remote::RemoteFile;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupDriver {
    Systemd,
    Cgroupfs,
}

impl CgroupDriver {
    pub fn as_str(self) -> &'static str {
        match self {
            CgroupDriver::Systemd => "systemd",
            CgroupDriver::Cgroupfs => "cgroupfs",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [CgroupDriver::Systemd, CgroupDriver::Cgroupfs].into_iter().find(|driver| driver.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    #[error("docker is a runtime for Kubernetes up to 1.23, and this is {0}")]
    NoDockershim(Version),
    #[error("`{0}` is not valid TOML: {1}")]
    Toml(String, String),
    #[error(
        "`{name}` has containerd's settings in version {theirs}, and its containerd takes version {ours}"
    )]
    Settings { name: String, theirs: i64, ours: i64 },
    #[error("`{0}` is not a JSON object: {1}")]
    Json(String, String),
}

impl RuntimeError {
    pub fn hint(&self) -> Option<String> {
        match self {
            RuntimeError::NoDockershim(_) => Some("set `runtime: containerd` in deploy.yaml".into()),
            RuntimeError::Settings { ours, .. } => Some(format!(
                "write them for `version = {ours}`: `containerd config migrate` shows what sections are called there"
            )),
            RuntimeError::Toml(..) | RuntimeError::Json(..) => None,
        }
    }
}

/// What the user says, for the kubelet or for the runtime, comes first. Else systemd where it
/// owns the whole hierarchy (cgroup v2), and cgroupfs where several managers live side by side.
pub fn cgroup_driver(config: &Config, probe: &Probe) -> CgroupDriver {
    let asked = config.extra_args(Component::Kubelet).find(|(flag, _)| *flag == "cgroup-driver");
    let of_kubelet = asked.and_then(|(_, value)| CgroupDriver::parse(value));
    let of_runtime = || match config.runtime.kind {
        RuntimeKind::Docker => daemon_json::docker_cgroup_driver(config, probe),
        RuntimeKind::Containerd => containerd::user_cgroup_driver(config, probe),
        RuntimeKind::Isulad => daemon_json::isulad_cgroup_driver(config, probe),
    };
    of_kubelet.or_else(of_runtime).unwrap_or(match probe.cgroup {
        Cgroup::V2 => CgroupDriver::Systemd,
        Cgroup::V1 => CgroupDriver::Cgroupfs,
    })
}

/// The service that must run before the kubelet.
pub fn service(kind: RuntimeKind) -> &'static str {
    match kind {
        RuntimeKind::Docker => "docker",
        RuntimeKind::Isulad => "isulad",
        RuntimeKind::Containerd => "containerd",
    }
}

/// The runtime's configuration on one node.
pub fn files(config: &Config, probe: &Probe, kubelet: Version) -> Result<Vec<RemoteFile>, RuntimeError> {
    match config.runtime.kind {
        RuntimeKind::Docker if kubelet.minor >= 24 => Err(RuntimeError::NoDockershim(kubelet)),
        RuntimeKind::Docker => Ok(vec![RemoteFile::new(paths::DOCKER, daemon_json::docker(config, probe)?)]),
        RuntimeKind::Isulad => {
            Ok(vec![RemoteFile::new(paths::ISULAD, daemon_json::isulad(config, probe, kubelet)?)])
        }
        RuntimeKind::Containerd => containerd::files(config, probe),
    }
}

/// The folder with CNI programs: the first configured one that has any.
pub fn cni_bin_dir<'a>(config: &'a Config, probe: &'a Probe) -> &'a str {
    let found = probe.cni_bin_dirs.first().or(config.network.cni_bin_dirs.first());
    found.map_or("/opt/cni/bin", String::as_str)
}
