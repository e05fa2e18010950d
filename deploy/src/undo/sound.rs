//! Whether an action is safe to do. A journal whose entries are not is refused when it is read, and none such is ever
//! written: neither a damaged journal nor one that was tampered with removes a system.

use super::{Undo, script};
use crate::paths;
use crate::runtimes::RuntimeKind;
use eggo_bundles::dst;
use std::net::IpAddr;

/// Why an action is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{title}` is refused: {why}")]
pub struct Unsound {
    title: String,
    why: String,
}

/// Folders that are removed with everything in them,
const TREES: [&str; 2] = [paths::ROOT, paths::KUBECTL];
/// and those in which only folders are.
const IN_TREES: [&str; 3] = ["/var/log/kubernetes", "/var/lib/etcd", "/var/lib/kubelet"];
/// A file that we write is in one of these, or is an item of the bundle.
const FILES: [&str; 9] = [
    paths::KUBERNETES,
    paths::UNITS,
    "/etc/sysctl.d",
    "/etc/modules-load.d",
    "/etc/etcd",
    "/etc/dns",
    "/etc/containerd",
    "/etc/docker",
    "/etc/isulad",
];

/// Every folder of which nothing is left after some undo.
pub fn removable() -> impl Iterator<Item = &'static str> {
    let all = TREES.into_iter().chain(IN_TREES).chain([paths::KUBERNETES]).chain(script::PODS);
    all.chain(RuntimeKind::all().flat_map(|kind| kind.containers.folders.iter().copied()))
}

impl Undo {
    pub(crate) fn check(&self) -> Result<(), Unsound> {
        self.why_not().map_or(Ok(()), |why| Err(Unsound { title: self.title(), why }))
    }

    fn why_not(&self) -> Option<String> {
        let all = |names: &[String], is_name: fn(&str) -> bool, what: &str| {
            let bad = names.iter().find(|name| !is_name(name))?;
            Some(format!("`{}` is not {what}", bad.escape_debug()))
        };
        let one = |name: &str, is_name: fn(&str) -> bool, what: &str| all(&[name.to_string()], is_name, what);
        match self {
            Self::File { path } => one(path, is_file, "a file that is ever written"),
            Self::Item { path } => dst::check(path).err().map(|bad| bad.to_string()),
            Self::Tree { path } => one(path, is_tree, "a folder that is ever made"),
            Self::Folder { path } => one(path, is_deep, "a path below another folder"),
            Self::Unit { name } => one(name, is_unit, "the name of a unit"),
            Self::Packages { names, .. } => all(names, is_package, "the name of a package"),
            Self::Images { names, .. } => all(names, is_image, "the name of an image"),
            Self::Hostname { was } => one(was, is_hostname, "the name of a host"),
            Self::HostsEntry { cluster } => one(cluster, is_line, "the name of a cluster"),
            Self::CniLinks { into, from } => {
                one(into, is_path, "a plain path").or_else(|| all(from, is_path, "a plain path"))
            }
            Self::KubeProxyRules { program } => one(program, is_kube_proxy, "a path of kube-proxy"),
            Self::ServiceRoute { network } => one(network, is_network, "a network"),
            Self::BroughtAlong { .. }
            | Self::ReleaseServices
            | Self::FirewallPorts { .. }
            | Self::KernelSettings { .. }
            | Self::RuntimeLink { .. }
            | Self::ContainersOf { .. }
            | Self::RuntimeAsBefore { .. }
            | Self::ReleaseImages { .. }
            | Self::Accounts
            | Self::Pods => None,
        }
    }
}

fn is_line(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

/// Absolute, and written in the one way that leads nowhere else.
fn is_path(path: &str) -> bool {
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    is_line(path) && path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(plain))
}

fn is_deep(path: &str) -> bool {
    is_path(path) && path.matches('/').count() > 1
}

fn below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

fn is_file(path: &str) -> bool {
    let folders = FILES.into_iter().chain(dst::ALLOWED);
    is_path(path) && folders.into_iter().any(|folder| below(path, folder))
}

fn is_tree(path: &str) -> bool {
    let ours = TREES.iter().any(|tree| path == *tree || below(path, tree));
    is_path(path) && (ours || IN_TREES.iter().any(|folder| below(path, folder)))
}

fn is_kube_proxy(path: &str) -> bool {
    is_deep(path) && path.ends_with("/kube-proxy")
}

/// `ADDRESS/PREFIX`, and not all addresses.
fn is_network(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else { return false };
    let longest = address.parse::<IpAddr>().ok().map(|address| if address.is_ipv4() { 32 } else { 128 });
    let prefix = prefix.parse::<u8>().ok().filter(|number| number.to_string() == prefix);
    longest.zip(prefix).is_some_and(|(longest, prefix)| (1..=longest).contains(&prefix))
}

/// Begins with a letter or digit, so that no program takes it for an option.
fn is_word(text: &str, others: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

fn is_unit(name: &str) -> bool {
    is_word(name, ":-_.\\@")
}

/// The package that a request to a package manager names: `name`, or `name=version`; none for a group of packages.
pub fn package_of(request: &str) -> Option<&str> {
    let name = request.split('=').next().unwrap_or(request);
    is_package(name).then_some(name)
}

fn is_package(name: &str) -> bool {
    is_word(name, "+-._~:")
}

fn is_image(name: &str) -> bool {
    is_word(name, "+-._:/@")
}

/// The kernel takes any: only what could be read as something else is not one.
fn is_hostname(name: &str) -> bool {
    is_line(name) && !name.starts_with('-') && name.len() <= 255
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Manager;

    #[test]
    fn an_action_reaches_only_what_is_of_its_kind() {
        let text = |word: &str| word.to_string();
        let dpkg = |name: &str| Undo::Packages { manager: Manager::Dpkg, names: vec![text(name)] };
        let image =
            |name: &str| Undo::Images { runtime: RuntimeKind::default(), names: vec![text("a"), text(name)] };
        let links = |into: &str, from: &str| Undo::CniLinks { into: text(into), from: vec![text(from)] };
        let rules = |program: &str| Undo::KubeProxyRules { program: text(program) };
        let route = |network: &str| Undo::ServiceRoute { network: text(network) };
        let hostname = |was: &str| Undo::Hostname { was: text(was) };
        let cluster = |name: &str| Undo::HostsEntry { cluster: text(name) };
        for (sound, unsound) in [
            (
                ["/var/lib/eggo", "/run/eggo", "/var/lib/etcd/default.etcd.new"].map(Undo::tree).to_vec(),
                [
                    "/",
                    "",
                    "/etc",
                    "/var/lib/eggo/..",
                    "/var/lib/eggo/",
                    "/var/lib/eggo-other",
                    "var/lib/eggo",
                ]
                .into_iter()
                .chain(["//var/lib/eggo", "/var/./lib/eggo", "/var/lib/etcd", "/var/lib/eggo\n", "/home/x"])
                .map(Undo::tree)
                .collect(),
            ),
            (
                ["/etc/kubernetes/pki/ca.crt", "/etc/systemd/system/etcd.service"].map(Undo::file).to_vec(),
                ["/etc/passwd", "/etc/kubernetes", "/etc/kubernetes-x/y", "/etc", "/bin/sh"]
                    .map(Undo::file)
                    .to_vec(),
            ),
            (vec![Undo::folder("/opt/cni")], ["/opt", "/", "/opt/../etc/x"].map(Undo::folder).to_vec()),
            (
                ["kubelet", "nftables.service", "a@b"].map(Undo::unit).to_vec(),
                ["--force", "", "a b", "a\n"].map(Undo::unit).to_vec(),
            ),
            (
                ["libc6:amd64", "g++", "0ad"].map(dpkg).to_vec(),
                ["-x", "", "a b", "/etc", "$(x)"].map(dpkg).to_vec(),
            ),
            (
                ["k8s.gcr.io/pause:3.2", "a@sha256:00"].map(image).to_vec(),
                ["-f", "", "a b", "../x"].map(image).to_vec(),
            ),
            (
                vec![links("/opt/cni/bin", "/usr/libexec/cni")],
                vec![links("/", "/a"), links("/opt/cni/bin", "/"), links("/opt/cni/bin", "a/..")],
            ),
            (
                vec![rules("/usr/bin/kube-proxy")],
                ["/usr/bin/sh", "kube-proxy", "/kube-proxy"].map(rules).to_vec(),
            ),
            (
                ["10.32.0.0/16", "fd00::/112"].map(route).to_vec(),
                [
                    "",
                    "default",
                    "0.0.0.0/0",
                    "10.32.0.0",
                    "10.32.0.0/33",
                    "10.32.0.0/+8",
                    "-6/1",
                    "10.0.0.0/8 dev x",
                ]
                .map(route)
                .to_vec(),
            ),
            (["a.b", "(none)"].map(hostname).to_vec(), ["", "-a", "a\nb"].map(hostname).to_vec()),
            (vec![cluster("k8s")], ["", "a\nb"].map(cluster).to_vec()),
        ] {
            for undo in sound {
                assert_eq!(undo.check(), Ok(()), "{undo:?}");
            }
            for undo in unsound {
                assert!(undo.check().is_err(), "{undo:?}");
            }
        }
    }
}
