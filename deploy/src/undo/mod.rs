//! How changes to a node are undone: a list of registered actions. The journal keeps an action with its parameters and
//! never any shell, so that a corrected action also serves clusters that an older version installed.
//!
//! Each action is a function in one of the `.sh` files beside this one, which may run twice. Where doing and undoing share
//! a note on the node, the function that does is in the same file.

pub(crate) mod legacy;
mod script;
mod sound;
#[cfg(test)]
mod tests;

pub use script::{HOSTS, MODULES_FILE, ROUTE_MARK, SYSCTL_FILE, call, library, undoing};
pub use sound::{Unsound, package_of, removable};

use crate::manager::Manager;
use crate::runtimes::RuntimeKind;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Undo {
    /// A file that [`crate::remote::Host::write_files`] put there: what was there before comes back, or it goes.
    File { path: String },
    /// The same for an item of the bundle: its place must still be in the whitelist, on the node too.
    Item { path: String },
    /// A folder of ours: it goes with everything in it.
    Tree { path: String },
    /// A folder that was made for others to use: it goes if it is empty.
    Folder { path: String },
    /// A unit that was started: stopped, disabled, and forgotten if it failed.
    Unit { name: String },
    /// Packages that were not there before.
    Packages { manager: Manager, names: Vec<String> },
    /// What the node's repositories brought along with them, as the node noted.
    BroughtAlong { manager: Manager },
    /// Services that maintainer scripts were not to start.
    ReleaseServices,
    /// Images that were loaded; only done on request.
    Images { runtime: RuntimeKind, names: Vec<String> },
    /// Images that the kubelet was to keep.
    ReleaseImages { runtime: RuntimeKind },
    /// The host's name.
    Hostname { was: String },
    /// A cluster's block in /etc/hosts.
    HostsEntry { cluster: String },
    /// Ports that were opened, as the node noted.
    FirewallPorts { firewall: Firewall },
    /// Kernel settings, as the node noted them.
    KernelSettings { noted: KernelNote },
    /// Links in a folder to CNI programs in others.
    CniLinks { into: String, from: Vec<String> },
    /// The network link that a runtime makes by itself.
    RuntimeLink { runtime: RuntimeKind },
    /// A runtime's containers and their data; of a runtime of the user's only the pods.
    ContainersOf { runtime: RuntimeKind },
    /// A runtime that was there before runs again as it did.
    RuntimeAsBefore { runtime: RuntimeKind },
    /// What a kubelet leaves behind: its key, the pods' mounts, data and network.
    Pods,
    /// The rules of kube-proxy, the kubelet and CNI plugins.
    KubeProxyRules { program: String },
    /// The route by which a node itself reaches services.
    ServiceRoute { network: String },
    /// Users and groups that were made for us, as the node noted.
    Accounts,
}

/// A firewall that we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Firewall {
    Firewalld,
    Ufw,
    Nftables,
}

impl Firewall {
    pub const ALL: [Self; 3] = [Self::Firewalld, Self::Ufw, Self::Nftables];

    /// As its functions in `firewall.sh` end.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Firewalld => "firewalld",
            Self::Ufw => "ufw",
            Self::Nftables => "nftables",
        }
    }
}

/// Who has changed the kernel's settings, and noted before what they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelNote {
    /// What Kubernetes needs of every node.
    System,
    /// What the kubelet insists on.
    Kubelet,
}

impl KernelNote {
    /// The note's name among those of the node.
    pub fn file(self) -> &'static str {
        match self {
            Self::System => "sysctl",
            Self::Kubelet => "sysctl-kubelet",
        }
    }
}

impl Undo {
    pub fn file(path: impl Into<String>) -> Self {
        Self::File { path: path.into() }
    }

    pub fn tree(path: impl Into<String>) -> Self {
        Self::Tree { path: path.into() }
    }

    pub fn folder(path: impl Into<String>) -> Self {
        Self::Folder { path: path.into() }
    }

    pub fn unit(name: impl Into<String>) -> Self {
        Self::Unit { name: name.into() }
    }

    /// The folders that it removes with everything in them.
    pub fn trees(&self) -> Vec<&str> {
        match self {
            Self::Tree { path } => vec![path],
            Self::ContainersOf { runtime } => runtime.containers.folders.to_vec(),
            Self::Pods => script::PODS.to_vec(),
            _ => Vec::new(),
        }
    }

    /// What it does, for the report.
    pub fn title(&self) -> String {
        match self {
            Self::File { path } | Self::Item { path } => format!("restore or remove {path}"),
            Self::Tree { path } => format!("remove {path}"),
            Self::Folder { path } => format!("remove {path} if empty"),
            Self::Unit { name } => format!("stop {name}"),
            Self::Packages { names, .. } => format!("remove {} packages", names.len()),
            Self::BroughtAlong { .. } => "remove what packages brought along".into(),
            Self::ReleaseServices => "let services start again".into(),
            Self::Images { names, .. } => format!("remove {} images", names.len()),
            Self::ReleaseImages { .. } => "release images".into(),
            Self::Hostname { was } => format!("set the hostname back to {was}"),
            Self::HostsEntry { .. } => "remove our names from /etc/hosts".into(),
            Self::FirewallPorts { firewall } => format!("close ports in {}", firewall.as_str()),
            Self::KernelSettings { .. } => "restore kernel settings".into(),
            Self::CniLinks { into, .. } => format!("remove links to CNI programs in {into}"),
            Self::RuntimeLink { runtime } => format!("remove {runtime}'s bridge"),
            Self::ContainersOf { runtime } => format!("end {runtime}'s containers and remove their data"),
            Self::RuntimeAsBefore { runtime } => format!("leave {runtime} as it was if it was there before"),
            Self::Pods => "remove pods, their mounts and interfaces".into(),
            Self::KubeProxyRules { .. } => "remove kube-proxy's rules".into(),
            Self::ServiceRoute { network } => format!("remove our route to {network}"),
            Self::Accounts => "remove users and groups that were made for services".into(),
        }
    }
}
