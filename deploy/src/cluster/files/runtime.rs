//! The container runtime's configuration on a node, and the cgroup driver on which it and the kubelet must agree.
//! What the runtimes are is in [`crate::runtimes`].

use crate::config::{Component, Config};
use crate::facts::{Cgroup, Facts};
use crate::remote::RemoteFile;
use crate::runtimes::{CgroupDriver, RuntimeError, Scope};
use crate::version::{OLDEST, Version};

/// What the runtime's configuration depends on.
pub fn scope<'a>(config: &'a Config, facts: &'a Facts, kubelet: Version) -> Scope<'a> {
    let asked = config.extra_args(Component::Kubelet).find(|(flag, _)| *flag == "cgroup-driver");
    Scope {
        chosen: &config.runtime,
        cni_bin_dirs: &config.network.cni_bin_dirs,
        cni_found: &facts.cni_bin_dirs,
        settings: &facts.settings,
        version: facts.version(config.runtime.kind.program),
        kubelet,
        kubelets_driver: asked.and_then(|(_, value)| CgroupDriver::parse(value)),
        // systemd where it owns the whole hierarchy, and cgroupfs where several managers live side by side.
        nodes_driver: match facts.cgroup {
            Some(Cgroup::V2) => CgroupDriver::Systemd,
            _ => CgroupDriver::Cgroupfs,
        },
    }
}

pub fn files(config: &Config, facts: &Facts, kubelet: Version) -> Result<Vec<RemoteFile>, RuntimeError> {
    (config.runtime.kind.files)(&scope(config, facts, kubelet))
}

/// Whether images of the bundle stay when disk gets short, because the runtime says that they are pinned. A kubelet
/// asks since 1.23, but passes the answer on only since 1.29.
pub fn keeps_images(config: &Config, facts: &Facts, kubelet: Version) -> bool {
    let kind = config.runtime.kind;
    kubelet.minor >= 29 && facts.version(kind.program).is_some_and(|version| kind.images.are_pinned(version))
}

/// On which the runtime and the kubelet agree.
pub fn cgroup_driver(config: &Config, facts: &Facts) -> CgroupDriver {
    // No version of a kubelet changes it.
    scope(config, facts, Version::new(1, OLDEST, 0)).cgroup_driver()
}
