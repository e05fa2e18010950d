//! coredns: as a service on the masters, or as a deployment.

use crate::cluster::paths;
use crate::config::Config;
use eggo_bundles::Role;
use serde_json::{Value, json};
use std::net::IpAddr;

/// Where coredns forwards what is not of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upstream {
    /// The machine knows no name servers: inside an air gap that is usual.
    None,
    File(&'static str),
}

/// The Corefile of the service on the master with this address.
pub fn corefile(config: &Config, ip: IpAddr, upstream: Upstream) -> String {
    let bind = format!("    bind {ip}\n");
    let access = format!("        kubeconfig {} coredns@{}\n", paths::COREDNS, config.cluster_id);
    // Its own address: 127.0.0.53 belongs to systemd-resolved, and others may listen elsewhere.
    let address = if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
    corefile_with(config, &bind, &access, &format!("{address}:9153"), &format!("{address}:8181"), upstream)
}

fn corefile_with(
    config: &Config,
    bind: &str,
    access: &str,
    metrics: &str,
    ready: &str,
    upstream: Upstream,
) -> String {
    let domain = &config.dns.domain;
    let forward = match upstream {
        Upstream::None => String::new(),
        Upstream::File(path) => format!("    forward . {path}\n    loop\n"),
    };
    format!(
        ".:53 {{\n{bind}    errors\n    ready {ready}\n    kubernetes {domain} in-addr.arpa ip6.arpa {{\n{access}        \
         pods insecure\n        fallthrough in-addr.arpa ip6.arpa\n        ttl 30\n    }}\n    prometheus {metrics}\n\
         {forward}    cache 30\n    reload\n    loadbalance\n}}\n"
    )
}

pub fn unit(program: &str) -> String {
    format!(
        "# Written by eggo-install.\n[Unit]\nDescription=Names of the Kubernetes cluster\n\
         Wants=network-online.target\nAfter=network-online.target kube-apiserver.service\n\n[Service]\nType=simple\n\
         ExecStart={program} -conf {}\nExecReload=/bin/kill -USR1 $MAINPID\nRestart=always\nRestartSec=3\n\
         LimitNOFILE=65536\n\n[Install]\nWantedBy=multi-user.target\n",
        paths::COREFILE
    )
}

/// The service `kube-dns` in front of the masters, and the right to read what names stand for.
pub fn service_objects(config: &Config) -> Value {
    let addresses: Vec<Value> =
        config.with_role(Role::Master).map(|master| json!({ "ip": master.ip.to_string() })).collect();
    let user = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:coredns" });
    json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            role(),
            binding(user),
            service(config, None),
            {
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": { "name": "kube-dns", "namespace": "kube-system" },
                "subsets": [{ "addresses": addresses, "ports": ports() }],
            },
        ],
    })
}

/// The deployment with everything around it.
pub fn pod_objects(config: &Config, image: &str, replicas: u32, upstream: Upstream) -> Value {
    let labels = json!({ "k8s-app": "kube-dns" });
    let account = json!({ "kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system" });
    let file = corefile_with(config, "", "", ":9153", ":8181", upstream)
        .replace("    errors\n", "    errors\n    health {\n        lameduck 5s\n    }\n");
    let probe = |path: &str, port: u16| json!({ "httpGet": { "path": path, "port": port } });
    let mut container = json!({
        "name": "coredns",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": { "limits": { "memory": "170Mi" }, "requests": { "cpu": "100m", "memory": "70Mi" } },
        "volumeMounts": [{ "name": "config-volume", "mountPath": "/etc/coredns", "readOnly": true }],
        "ports": [
            { "containerPort": 53, "name": "dns", "protocol": "UDP" },
            { "containerPort": 53, "name": "dns-tcp", "protocol": "TCP" },
            { "containerPort": 9153, "name": "metrics", "protocol": "TCP" },
        ],
        "readinessProbe": probe("/ready", 8181),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "add": ["NET_BIND_SERVICE"], "drop": ["all"] },
            "readOnlyRootFilesystem": true,
        },
    });
    container["livenessProbe"] = probe("/health", 8080);
    container["livenessProbe"]["initialDelaySeconds"] = json!(60);
    container["livenessProbe"]["failureThreshold"] = json!(5);
    json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "coredns", "namespace": "kube-system" } },
            role(),
            binding(account),
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "name": "coredns", "namespace": "kube-system" },
                "data": { "Corefile": file },
            },
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": { "name": "coredns", "namespace": "kube-system", "labels": labels },
                "spec": {
                    "replicas": replicas,
                    "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } },
                    "selector": { "matchLabels": labels },
                    "template": {
                        "metadata": { "labels": labels },
                        "spec": {
                            "priorityClassName": "system-cluster-critical",
                            "serviceAccountName": "coredns",
                            "tolerations": [
                                { "key": "CriticalAddonsOnly", "operator": "Exists" },
                                { "key": "node-role.kubernetes.io/master", "effect": "NoSchedule" },
                                { "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" },
                            ],
                            "nodeSelector": { "kubernetes.io/os": "linux" },
                            "dnsPolicy": "Default",
                            "containers": [container],
                            "volumes": [{
                                "name": "config-volume",
                                "configMap": { "name": "coredns", "items": [{ "key": "Corefile", "path": "Corefile" }] },
                            }],
                        },
                    },
                },
            },
            service(config, Some(labels.clone())),
        ],
    })
}

fn role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": "system:coredns" },
        "rules": [
            { "apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces", "nodes"], "verbs": ["get", "list", "watch"] },
            { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"] },
        ],
    })
}

fn binding(subject: Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "system:coredns" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns" },
        "subjects": [subject],
    })
}

fn service(config: &Config, selector: Option<Value>) -> Value {
    let mut spec = json!({ "clusterIP": config.service.dns.to_string(), "ports": ports() });
    if let Some(selector) = selector {
        spec["selector"] = selector;
    }
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kube-dns",
            "namespace": "kube-system",
            "labels": { "k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS" },
        },
        "spec": spec,
    })
}

fn ports() -> Value {
    json!([
        { "name": "dns", "port": 53, "protocol": "UDP" },
        { "name": "dns-tcp", "port": 53, "protocol": "TCP" },
        { "name": "metrics", "port": 9153, "protocol": "TCP" },
    ])
}
