//! Which of kube-proxy's flags deploy.yaml can give: once it has a file, it ignores nearly all of them, so they become
//! fields of that file.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Boolean,
    List,
    /// `A=true,B=false`
    Switches,
}

/// Flag, field, and what the field holds.
#[rustfmt::skip]
const FIELDS: &[(&str, &str, Kind)] = &[
    ("bind-address", "bindAddress", Kind::Text),
    ("bind-address-hard-fail", "bindAddressHardFail", Kind::Boolean),
    ("cluster-cidr", "clusterCIDR", Kind::Text),
    ("config-sync-period", "configSyncPeriod", Kind::Text),
    ("conntrack-max-per-core", "conntrack.maxPerCore", Kind::Number),
    ("conntrack-min", "conntrack.min", Kind::Number),
    ("conntrack-tcp-be-liberal", "conntrack.tcpBeLiberal", Kind::Boolean),
    ("conntrack-tcp-timeout-close-wait", "conntrack.tcpCloseWaitTimeout", Kind::Text),
    ("conntrack-tcp-timeout-established", "conntrack.tcpEstablishedTimeout", Kind::Text),
    ("conntrack-udp-timeout", "conntrack.udpTimeout", Kind::Text),
    ("conntrack-udp-timeout-stream", "conntrack.udpStreamTimeout", Kind::Text),
    ("detect-local-mode", "detectLocalMode", Kind::Text),
    ("feature-gates", "featureGates", Kind::Switches),
    ("healthz-bind-address", "healthzBindAddress", Kind::Text),
    ("hostname-override", "hostnameOverride", Kind::Text),
    ("iptables-localhost-nodeports", "iptables.localhostNodePorts", Kind::Boolean),
    ("iptables-masquerade-bit", "iptables.masqueradeBit", Kind::Number),
    ("iptables-min-sync-period", "iptables.minSyncPeriod", Kind::Text),
    ("iptables-sync-period", "iptables.syncPeriod", Kind::Text),
    ("ipvs-exclude-cidrs", "ipvs.excludeCIDRs", Kind::List),
    ("ipvs-min-sync-period", "ipvs.minSyncPeriod", Kind::Text),
    ("ipvs-scheduler", "ipvs.scheduler", Kind::Text),
    ("ipvs-strict-arp", "ipvs.strictARP", Kind::Boolean),
    ("ipvs-sync-period", "ipvs.syncPeriod", Kind::Text),
    ("ipvs-tcp-timeout", "ipvs.tcpTimeout", Kind::Text),
    ("ipvs-tcpfin-timeout", "ipvs.tcpFinTimeout", Kind::Text),
    ("ipvs-udp-timeout", "ipvs.udpTimeout", Kind::Text),
    ("kube-api-burst", "clientConnection.burst", Kind::Number),
    ("kube-api-content-type", "clientConnection.contentType", Kind::Text),
    ("kube-api-qps", "clientConnection.qps", Kind::Number),
    ("kubeconfig", "clientConnection.kubeconfig", Kind::Text),
    ("masquerade-all", "iptables.masqueradeAll", Kind::Boolean),
    ("metrics-bind-address", "metricsBindAddress", Kind::Text),
    ("nodeport-addresses", "nodePortAddresses", Kind::List),
    ("oom-score-adj", "oomScoreAdj", Kind::Number),
    ("pod-bridge-interface", "detectLocal.bridgeInterface", Kind::Text),
    ("pod-interface-name-prefix", "detectLocal.interfaceNamePrefix", Kind::Text),
    ("profiling", "enableProfiling", Kind::Boolean),
    ("proxy-mode", "mode", Kind::Text),
    ("proxy-port-range", "portRange", Kind::Text),
    ("show-hidden-metrics-for-version", "showHiddenMetricsForVersion", Kind::Text),
    ("udp-timeout", "udpIdleTimeout", Kind::Text),
];

/// Flags that count beside a file: where it is, what is logged, and what no field says.
#[rustfmt::skip]
const BESIDE: &[&str] = &[
    "add-dir-header", "alsologtostderr", "boot-id-file", "cleanup", "cleanup-ipvs", "config", "init-only",
    "log-backtrace-at", "log-dir", "log-file", "log-file-max-size", "log-flush-frequency",
    "log-json-info-buffer-size", "log-json-split-stream", "log-text-info-buffer-size", "log-text-split-stream",
    "logging-format", "logtostderr", "machine-id-file", "master", "one-output", "skip-headers",
    "skip-log-headers", "stderrthreshold", "v", "version", "vmodule", "write-config-to",
];

/// Whether kube-proxy heeds a flag: as a field of its file, or beside it.
pub fn counts(flag: &str) -> bool {
    field_of(flag).is_some() || BESIDE.contains(&flag.replace('_', "-").as_str())
}

/// The field that a flag of kube-proxy stands for.
pub fn field_of(flag: &str) -> Option<(&'static str, Kind)> {
    FIELDS.iter().find(|(name, _, _)| *name == flag).map(|(_, field, kind)| (*field, *kind))
}
