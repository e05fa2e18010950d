//! An action as a function of the `.sh` files, with its arguments.

use super::Undo;
use crate::paths;
use crate::runtimes::users::{self, USERS};
use crate::script::{COMMON, KEPT, Script};
use eggo_bundles::dst;

pub const HOSTS: &str = "/etc/hosts";
pub const MODULES_FILE: &str = "/etc/modules-load.d/eggo.conf";
pub const SYSCTL_FILE: &str = "/etc/sysctl.d/90-eggo.conf";
const NFT_FILE: &str = "/etc/nftables-eggo.nft";
const NFT_DROP_IN: &str = "/etc/systemd/system/nftables.service.d/eggo.conf";
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// The line by which our own policy-rc.d is told from the administrator's.
const POLICY_MARK: &str = "# eggo: no service starts while packages are installed";
/// The routing protocol that a route of ours names as its origin: the user's have another.
pub const ROUTE_MARK: &str = "235";
/// Links that the cluster's network makes under these names.
const LINKS: [&str; 7] =
    ["cni0", "flannel.1", "flannel-v6.1", "kube-ipvs0", "kube-bridge", "vxlan.calico", "tunl0"];
/// What pods fill.
pub(super) const PODS: [&str; 3] = ["/var/lib/kubelet", "/var/log/pods", "/var/log/containers"];

/// A script that has all functions, and what they need to know.
pub fn library() -> Script {
    let texts = [
        COMMON,
        USERS,
        include_str!("place.sh"),
        include_str!("files.sh"),
        include_str!("mounts.sh"),
        include_str!("networks.sh"),
        include_str!("containers.sh"),
        include_str!("system.sh"),
        include_str!("firewall.sh"),
        include_str!("packages.sh"),
        include_str!("accounts.sh"),
    ];
    users::noted(Script::new(texts))
        .set("KEPT", KEPT)
        .set("NODE", "")
        .set("WHITELIST", dst::ALLOWED.join(" "))
        .set("NAMED_LINKS", LINKS.join(" "))
        .set("HOSTS", HOSTS)
        .set("NFT_FILE", NFT_FILE)
        .set("NFT_DROP_IN", NFT_DROP_IN)
        .set("ROUTE_MARK", ROUTE_MARK)
        .set("POLICY", POLICY)
        .set("POLICY_MARK", POLICY_MARK)
}

/// A script that calls one of the functions.
pub fn call<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Script {
    library().then(words)
}

/// A script that undoes entries, each the actions that follow each other. Prints `@failed NUMBER` for one of which any
/// failed; the others are undone all the same.
pub fn undoing<'a>(entries: impl IntoIterator<Item = Vec<&'a Undo>>) -> Script {
    let mut script = library().and(include_str!("undo.sh"));
    for (number, entry) in entries.into_iter().enumerate() {
        for undo in entry {
            script = script.then(["undo".to_string()].into_iter().chain(undo.words()));
        }
        script = script.then(["entry".to_string(), number.to_string()]);
    }
    script
}

impl Undo {
    /// The function that does it, and its arguments.
    pub(super) fn words(&self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        let with = |first: &[&str], more: &[String]| [words(first), more.to_vec()].concat();
        match self {
            Self::File { path } => words(&["restore_file", path]),
            Self::Item { path } => words(&["restore_item", path]),
            Self::Tree { path } => words(&["remove_tree", path]),
            Self::Folder { path } => words(&["remove_empty", path]),
            Self::Unit { name } => words(&["stop_unit", name]),
            Self::Packages { manager, names } => with(&["remove_packages", manager.as_str()], names),
            Self::BroughtAlong { manager } => words(&["remove_brought", manager.as_str()]),
            Self::ReleaseServices => words(&["release_services"]),
            Self::Images { runtime, names } => with(&["remove_images_of", runtime.shell], names),
            Self::ReleaseImages { runtime } => words(&["release_images_of", runtime.shell]),
            Self::Hostname { was } => words(&["set_hostname", was]),
            Self::HostsEntry { cluster } => words(&["remove_hosts", cluster]),
            Self::FirewallPorts { firewall } => words(&["close_ports", firewall.as_str()]),
            Self::KernelSettings { noted } => words(&["restore_settings", noted.file()]),
            Self::CniLinks { into, from } => with(&["remove_links", into], from),
            Self::RuntimeLink { runtime } => match runtime.containers.link {
                Some(link) => words(&["remove_bridge", runtime.service, link]),
                None => words(&[":"]),
            },
            Self::ContainersOf { runtime } => {
                let containers = &runtime.containers;
                let (shim, namespace, pods) = (containers.shim, containers.namespace, containers.pods);
                let mut all =
                    words(&["remove_containers", runtime.service, shim, namespace, pods, runtime.shell]);
                all.extend(words(containers.folders));
                if let Some((other, folders)) = containers.uses {
                    all.extend(words(&["--", other]).into_iter().chain(words(folders)));
                }
                all
            }
            Self::RuntimeAsBefore { runtime } => words(&["as_before", runtime.service]),
            Self::Pods => [words(&["forget_pods", paths::KUBELET]), words(&PODS)].concat(),
            Self::Accounts => words(&["remove_accounts"]),
            Self::KubeProxyRules { program } => words(&["remove_rules", program]),
            Self::ServiceRoute { network } => words(&["remove_service_route", network]),
        }
    }
}
