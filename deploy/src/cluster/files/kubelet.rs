//! The kubelet's configuration file, and the kernel settings it insists on.

use crate::cluster::flags::Scope;
use crate::cluster::{files::runtime, paths, yaml};
use crate::config::{Config, Host};
use crate::facts::Cgroup;
use crate::runtimes::Kubelet;
use eggo_bundles::Role;
use serde_json::{Value, json};

/// With `protectKernelDefaults` the kubelet does not set these itself: it refuses to start
/// when they differ.
pub const SYSCTL: &str = "\
kernel.panic = 10
kernel.panic_on_oops = 1
vm.overcommit_memory = 1
vm.panic_on_oom = 0
";

/// The key of the taint that keeps ordinary pods away from a master: with no other node to run them on, they are welcome.
pub fn taint(config: &Config, host: &Host, minor: u16) -> Option<&'static str> {
    let elsewhere = config.with_role(Role::Worker).any(|other| !other.has(Role::Master));
    let key = match minor {
        // The old name went with 1.25; addons tolerate the new one from 1.24 on.
        ..24 => "node-role.kubernetes.io/master",
        _ => "node-role.kubernetes.io/control-plane",
    };
    (host.has(Role::Master) && elsewhere).then_some(key)
}

pub fn config(scope: &Scope<'_>) -> String {
    let config = scope.config;
    let mut file = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": paths::pki("ca.crt") },
        },
        "authorization": { "mode": "Webhook" },
        "cgroupDriver": runtime::cgroup_driver(config, scope.facts).as_str(),
        "clusterDNS": [config.service.dns.to_string()],
        "clusterDomain": config.dns.domain,
        "makeIPTablesUtilChains": true,
        "protectKernelDefaults": true,
        "readOnlyPort": 0,
        "rotateCertificates": true,
        "streamingConnectionIdleTimeout": "4h0m0s",
        "tlsMinVersion": "VersionTLS12",
    });
    let mut set = |key: &str, value: Value| {
        file[key] = value;
    };
    if config.kubelet_serving {
        set("serverTLSBootstrap", json!(true));
    } else {
        set("tlsCertFile", json!(paths::pki("kubelet.crt")));
        set("tlsPrivateKeyFile", json!(paths::pki("kubelet.key")));
    }
    if scope.facts.resolved {
        set("resolvConf", json!("/run/systemd/resolve/resolv.conf"));
    }
    if scope.version.minor >= 27 && config.runtime.kind.kubelet == Kubelet::Remote {
        set("containerRuntimeEndpoint", json!(config.runtime.endpoint));
    }
    // Before 1.23 it is a flag. A node that is new has it from the start: no pod comes before it.
    if scope.version.minor >= 23
        && let Some(key) = taint(config, scope.host, scope.version.minor)
    {
        set("registerWithTaints", json!([{ "key": key, "effect": "NoSchedule" }]));
    }
    // Any threshold for disk, of the collector or of eviction, removes images that no container uses just then, and
    // nothing inside the gap brings them back. Flags that deploy.yaml adds come before what is said here.
    if !runtime::keeps_images(config, scope.facts, scope.version) {
        set("imageGCHighThresholdPercent", json!(100));
        let off = json!({
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        });
        set("evictionHard", off);
    }
    // From 1.35 on a kubelet refuses cgroup v1 unless it is told not to; the field came with 1.31.
    if scope.version.minor >= 31 && scope.facts.cgroup == Some(Cgroup::V1) {
        set("failCgroupV1", json!(false));
    }
    yaml::write(&file)
}
