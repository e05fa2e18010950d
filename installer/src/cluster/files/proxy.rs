//! kube-proxy's configuration file.
//!
//! Once it is given a file, kube-proxy ignores nearly all of its flags. So the flags that
//! deploy.yaml adds for it become fields.

use crate::cluster::flags::Scope;
use crate::cluster::{paths, yaml};
use crate::config::Component;
use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Boolean,
    List,
}

/// Flag, field, and what the field holds.
#[rustfmt::skip]
const FIELDS: &[(&str, &str, Kind)] = &[
    ("bind-address", "bindAddress", Kind::Text),
    ("cluster-cidr", "clusterCIDR", Kind::Text),
    ("config-sync-period", "configSyncPeriod", Kind::Text),
    ("conntrack-max-per-core", "conntrack.maxPerCore", Kind::Number),
    ("conntrack-min", "conntrack.min", Kind::Number),
    ("conntrack-tcp-timeout-close-wait", "conntrack.tcpCloseWaitTimeout", Kind::Text),
    ("conntrack-tcp-timeout-established", "conntrack.tcpEstablishedTimeout", Kind::Text),
    ("detect-local-mode", "detectLocalMode", Kind::Text),
    ("healthz-bind-address", "healthzBindAddress", Kind::Text),
    ("hostname-override", "hostnameOverride", Kind::Text),
    ("iptables-masquerade-bit", "iptables.masqueradeBit", Kind::Number),
    ("iptables-min-sync-period", "iptables.minSyncPeriod", Kind::Text),
    ("iptables-sync-period", "iptables.syncPeriod", Kind::Text),
    ("ipvs-exclude-cidrs", "ipvs.excludeCIDRs", Kind::List),
    ("ipvs-min-sync-period", "ipvs.minSyncPeriod", Kind::Text),
    ("ipvs-scheduler", "ipvs.scheduler", Kind::Text),
    ("ipvs-strict-arp", "ipvs.strictARP", Kind::Boolean),
    ("ipvs-sync-period", "ipvs.syncPeriod", Kind::Text),
    ("kube-api-burst", "clientConnection.burst", Kind::Number),
    ("kube-api-qps", "clientConnection.qps", Kind::Number),
    ("masquerade-all", "iptables.masqueradeAll", Kind::Boolean),
    ("metrics-bind-address", "metricsBindAddress", Kind::Text),
    ("nodeport-addresses", "nodePortAddresses", Kind::List),
    ("oom-score-adj", "oomScoreAdj", Kind::Number),
    ("profiling", "enableProfiling", Kind::Boolean),
    ("proxy-mode", "mode", Kind::Text),
];

/// The field that a flag of kube-proxy stands for.
pub fn field_of(flag: &str) -> Option<(&'static str, Kind)> {
    FIELDS.iter().find(|(name, _, _)| *name == flag).map(|(_, field, kind)| (*field, *kind))
}

pub fn config(scope: &Scope<'_>) -> String {
    let mut file = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": { "kubeconfig": paths::KUBE_PROXY },
        "clusterCIDR": scope.config.network.pod_cidr.to_string(),
        "hostnameOverride": scope.host.name,
        "mode": "iptables",
    });
    for (flag, text) in scope.config.extra_args(Component::KubeProxy) {
        let Some((field, kind)) = field_of(flag) else { continue };
        let plain = || Value::String(text.to_string());
        let value = match kind {
            Kind::Text => plain(),
            Kind::Number | Kind::Boolean => serde_json::from_str(text).unwrap_or_else(|_| plain()),
            Kind::List => json!(text.split(',').map(str::trim).collect::<Vec<_>>()),
        };
        match field.split_once('.') {
            Some((outer, inner)) => file[outer][inner] = value,
            None => file[field] = value,
        }
    }
    yaml::write(&file)
}
