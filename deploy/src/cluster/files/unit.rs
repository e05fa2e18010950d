//! systemd units of the components.

use crate::cluster::flags::{self, Scope};
use crate::cluster::paths::{self, ETCD_USER};
use crate::config::Component;
use crate::undo::ROUTE_MARK;
use eggo_bundles::{Arch, Role};

/// The unit of `component`; `program` is where it is on the node.
pub fn write(component: Component, program: &str, scope: &Scope<'_>) -> String {
    let traits = Traits::of(component, scope);
    let mut text = format!("# Written by eggo-install.\n[Unit]\nDescription={}\n", traits.description);
    text.push_str("Wants=network-online.target\nAfter=network-online.target");
    for other in &traits.after {
        text.push_str(&format!(" {other}.service"));
    }
    for other in &traits.wants {
        text.push_str(&format!("\nWants={other}.service"));
    }
    text.push_str(&format!("\n\n[Service]\nType={}\n", traits.kind));
    for line in &traits.service {
        text.push_str(line);
        text.push('\n');
    }
    text.push_str(&format!("ExecStart={program}"));
    for (name, value) in flags::of(component, scope) {
        text.push_str(&format!(" \\\n  {}", word(&format!("--{name}={value}"))));
    }
    text.push_str(
        "\nRestart=always\nRestartSec=3\nLimitNOFILE=65536\n\n[Install]\nWantedBy=multi-user.target\n",
    );
    text
}

struct Traits {
    description: &'static str,
    /// `notify`: starting it returns when it serves, or has failed.
    kind: &'static str,
    after: Vec<&'static str>,
    wants: Vec<&'static str>,
    service: Vec<String>,
}

impl Traits {
    fn of(component: Component, scope: &Scope<'_>) -> Self {
        let simple = |description, after: &[&'static str]| Self {
            description,
            kind: "simple",
            after: after.to_vec(),
            wants: Vec::new(),
            service: Vec::new(),
        };
        match component {
            Component::Etcd => {
                let mut service = vec![
                    format!("User={ETCD_USER}\nGroup={ETCD_USER}"),
                    format!("EnvironmentFile=-{}", paths::ETCD_CONFIG),
                    // Compares pages on disk; a slow disk may take its time.
                    "TimeoutStartSec=180".to_string(),
                ];
                // Before 3.5 etcd starts on arm64 only when it is told to.
                if scope.host.arch == Arch::Arm64 {
                    service.push(format!("Environment=ETCD_UNSUPPORTED_ARCH={}", scope.host.arch));
                }
                Self { kind: "notify", service, ..simple("etcd", &[]) }
            }
            Component::KubeApiserver => {
                let stacked = scope.host.has(Role::Etcd);
                Self {
                    kind: "notify",
                    after: if stacked { vec!["etcd"] } else { Vec::new() },
                    // It would wait for every watch to end; the watchers find another server, or wait.
                    service: vec!["TimeoutStartSec=300".to_string(), "TimeoutStopSec=10".to_string()],
                    ..simple("Kubernetes API server", &[])
                }
            }
            Component::KubeControllerManager => simple("Kubernetes controller manager", &["kube-apiserver"]),
            Component::KubeScheduler => simple("Kubernetes scheduler", &["kube-apiserver"]),
            Component::KubeProxy => {
                let service = &scope.config.service;
                // At every start: no route outlives a reboot. Without the program `ip` it works as before.
                let route = format!(
                    "ExecStartPre=-/bin/sh {} {} {} {} {ROUTE_MARK}",
                    paths::SERVICE_ROUTE,
                    service.api(),
                    service.cidr,
                    scope.host.ip
                );
                Self { service: vec![route], ..simple("Kubernetes network proxy", &[]) }
            }
            Component::Kubelet => {
                let runtime = scope.config.runtime.kind.service;
                Self { wants: vec![runtime], ..simple("Kubernetes node agent", &[runtime]) }
            }
        }
    }
}

/// One word of a command line, as systemd reads it.
fn word(text: &str) -> String {
    let escaped = text.replace('%', "%%").replace('$', "$$");
    let plain = |c: char| !c.is_whitespace() && !"\"'\\;".contains(c);
    if escaped.chars().all(plain) {
        return escaped;
    }
    format!("\"{}\"", escaped.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn systemd_reads_words_as_they_were_meant() {
        assert_eq!(word("--a=b,c*"), "--a=b,c*");
        assert_eq!(word("--a=100% $x"), "\"--a=100%% $$x\"");
        assert_eq!(word("--a={\"b\":1}"), "\"--a={\\\"b\\\":1}\"");
    }
}
