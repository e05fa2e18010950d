//! The programs that a node's roles run, as far as the plan does not bring them.

use super::NodePlan;
use crate::config::{Config, DnsKind, Host};
use crate::runtimes::RuntimeKind;
use eggo_bundles::{Kind, Role};

/// By their names: a package may well have the program inside, but nobody looks into it for a plan.
pub fn not_brought(config: &Config, host: &Host, node: &NodePlan) -> Vec<String> {
    let absent = needed(config, host).into_iter().filter(|program| !brings(node, program));
    absent.map(String::from).collect()
}

fn needed(config: &Config, host: &Host) -> Vec<&'static str> {
    let mut programs = Vec::new();
    if host.has(Role::Etcd) && config.etcd.external.is_none() {
        programs.push("etcd");
    }
    if host.has(Role::Loadbalance) {
        programs.push("nginx");
    }
    if host.has(Role::Master) {
        programs.extend(["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"]);
        if config.dns.kind == DnsKind::Binary {
            programs.push("coredns");
        }
    }
    if host.has(Role::Worker) {
        programs.extend(["kubelet", "kube-proxy"]);
        programs.push(config.runtime.kind.program);
    }
    programs
}

fn brings(node: &NodePlan, program: &str) -> bool {
    // Words in the names of packages that have it; distributions cut Kubernetes into different ones.
    let own = [program];
    let runtime = RuntimeKind::all().find(|kind| kind.program == program);
    let words: &[&str] = match program {
        "kubectl" => &["kubectl", "kubernetes-client"],
        "kubelet" => &["kubelet", "kubernetes-node"],
        "kube-proxy" => &["kube-proxy", "kubernetes-node"],
        "kube-apiserver" => &["kube-apiserver", "kubernetes-master"],
        "kube-controller-manager" => &["kube-controller-manager", "kubernetes-master"],
        "kube-scheduler" => &["kube-scheduler", "kubernetes-master"],
        _ => runtime.map_or(&own, |kind| kind.packages),
    };
    let package = |name: &str| {
        let name = name.to_ascii_lowercase();
        words.iter().any(|word| name.contains(word))
    };
    let in_items = node.items.iter().any(|wanted| match wanted.item.kind {
        Kind::Pkg => package(&wanted.item.name),
        Kind::Dir => true,
        _ => wanted.item.name == program || wanted.item.path.rsplit('/').next() == Some(program),
    });
    in_items || node.repo_packages.iter().any(|name| package(name))
}
