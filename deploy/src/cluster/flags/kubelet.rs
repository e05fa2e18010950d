//! kubelet. What its configuration file can say is there, not here.

use super::{Flag, Scope, flag, paths, text, until};
use crate::cluster::files::kubelet::taint;
use crate::runtimes::{CNI_CONFIG, Kubelet};

fn has_dockershim(scope: &Scope<'_>) -> bool {
    scope.config.runtime.kind.kubelet == Kubelet::Dockershim
}

pub(super) const TABLE: &[Flag] = &[
    // dockershim and its flags left with 1.24; from then on there is only a remote runtime.
    until(24, "cni-bin-dir", |scope| {
        has_dockershim(scope).then(|| scope.config.network.cni_bin_dirs.join(","))
    }),
    until(24, "cni-conf-dir", |scope| has_dockershim(scope).then(|| CNI_CONFIG.to_string())),
    flag("config", |_| text(paths::KUBELET_CONFIG)),
    until(24, "container-runtime", |scope| match scope.config.runtime.kind.kubelet {
        Kubelet::Dockershim => text("docker"),
        Kubelet::Remote => text("remote"),
    }),
    // From 1.27 on it is in the configuration file.
    until(27, "container-runtime-endpoint", |scope| {
        (!has_dockershim(scope)).then(|| scope.config.runtime.endpoint.clone())
    }),
    flag("hostname-override", |scope| Some(scope.host.name.clone())),
    flag("kubeconfig", |_| text(paths::KUBELET)),
    until(24, "network-plugin", |scope| has_dockershim(scope).then(|| "cni".to_string())),
    flag("node-ip", |scope| Some(scope.host.ip.to_string())),
    // The runtime's own configuration names it; until 1.26 the kubelet kept it from being collected.
    until(27, "pod-infra-container-image", |scope| Some(scope.config.runtime.pause_image.clone())),
    // From 1.23 on it is in the configuration file.
    until(23, "register-with-taints", |scope| {
        taint(scope.config, scope.host, scope.version.minor).map(|key| format!("{key}=:NoSchedule"))
    }),
];
