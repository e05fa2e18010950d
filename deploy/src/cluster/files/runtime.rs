//! The container runtime's configuration on a node, and the cgroup driver on which it and the kubelet must agree.
//! What the runtimes are is told in [`crate::runtimes`].

use crate::cluster::probe::{Cgroup, Probe};
use crate::config::{Component, Config};
use crate::remote::RemoteFile;
use crate::runtimes::{CgroupDriver, RuntimeError, Scope};
use crate::version::{OLDEST, Version};

/// What the runtime's configuration depends on.
pub fn scope<'a>(config: &'a Config, probe: &'a Probe, kubelet: Version) -> Scope<'a> {
    let asked = config.extra_args(Component::Kubelet).find(|(flag, _)| *flag == "cgroup-driver");
    Scope {
        chosen: &config.runtime,
        cni_bin_dirs: &config.network.cni_bin_dirs,
        cni_found: &probe.cni_bin_dirs,
        settings: &probe.settings,
        version: probe.version(config.runtime.kind.program),
        kubelet,
        kubelets_driver: asked.and_then(|(_, value)| CgroupDriver::parse(value)),
        // systemd where it owns the whole hierarchy, and cgroupfs where several managers live side by side.
        nodes_driver: match probe.cgroup {
            Cgroup::V2 => CgroupDriver::Systemd,
            Cgroup::V1 => CgroupDriver::Cgroupfs,
        },
    }
}

pub fn files(config: &Config, probe: &Probe, kubelet: Version) -> Result<Vec<RemoteFile>, RuntimeError> {
    (config.runtime.kind.files)(&scope(config, probe, kubelet))
}

/// On which the runtime and the kubelet agree.
pub fn cgroup_driver(config: &Config, probe: &Probe) -> CgroupDriver {
    // No version of a kubelet changes it.
    scope(config, probe, Version::new(1, OLDEST, 0)).cgroup_driver()
}
