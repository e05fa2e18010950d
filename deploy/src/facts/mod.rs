//! What a node is and has, asked in one round trip. Nothing is judged here: `preflight` does that.

pub mod baseline;
mod parse;

pub use parse::parse;

use crate::components;
use crate::remote::{Command, Host, RemoteError, Script};
use crate::runtimes::RuntimeKind;
use crate::store;
use eggo_bundles::Arch;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SCRIPT: &str = include_str!("gather.sh");

/// Kernel modules that a Kubernetes node uses.
pub const MODULES: [&str; 5] = ["br_netfilter", "overlay", "nf_conntrack", "ip_tables", "ip_vs"];

/// Besides those of components and container runtimes.
const TOOLS: [&str; 26] = [
    "tar",
    "sha256sum",
    "gzip",
    "systemctl",
    "sudo",
    "modprobe",
    "sysctl",
    "mount",
    "apt-get",
    "dpkg",
    "rpm",
    "dnf",
    "yum",
    "runc",
    "firewall-cmd",
    "ufw",
    "nft",
    "iptables",
    "conntrack",
    "socat",
    "hostnamectl",
    "ip",
    "cmp",
    "stat",
    "awk",
    "grep",
];

/// Programs whose presence decides something.
pub fn tools() -> Vec<&'static str> {
    let clients = RuntimeKind::all().map(|kind| kind.client);
    TOOLS.into_iter().chain(clients).chain(programs()).collect()
}

/// Programs of a cluster, which a bundle brings or a node has.
pub fn programs() -> Vec<&'static str> {
    components::programs().chain(RuntimeKind::all().map(|kind| kind.program)).collect()
}

/// A node as it was found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Facts {
    /// The name in deploy.yaml.
    pub node: String,
    /// Absent: an architecture that no bundle can serve; see `machine`.
    pub arch: Option<Arch>,
    pub machine: String,
    pub kernel: String,
    pub hostname: String,
    pub os: Os,
    pub manager: Option<Manager>,
    pub cpus: u32,
    /// In bytes.
    pub memory: u64,
    pub memory_available: u64,
    pub swap: u64,
    /// How many seconds the node's clock is off, at least; positive: it is ahead.
    pub clock_skew: i64,
    pub init: String,
    pub cgroup: Option<Cgroup>,
    pub mounts: Vec<Mount>,
    pub modules: BTreeMap<String, Module>,
    pub tools: BTreeSet<String>,
    /// That run now.
    pub services: BTreeSet<String>,
    /// That start with the machine.
    pub enabled_services: BTreeSet<String>,
    pub ports: BTreeSet<Port>,
    pub addresses: BTreeSet<IpAddr>,
    pub selinux: Option<Selinux>,
    /// What lies in the node's store.
    pub store: store::Contents,
    /// The random word that the installer left when it first touched the node.
    pub mark: Option<String>,
    /// The cluster that the node was last installed for.
    pub cluster: Option<String>,
    /// Traces of a Kubernetes that are there.
    pub leftovers: Vec<String>,
    pub packages: Vec<Package>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Os {
    pub id: String,
    pub version: String,
    pub name: String,
    pub like: Vec<String>,
}

/// The program that installs packages on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manager {
    Dpkg,
    Rpm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cgroup {
    V1,
    V2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Module {
    Loaded,
    Loadable,
    Missing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Selinux {
    Enforcing,
    Permissive,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Mount {
    pub path: String,
    /// In bytes.
    pub size: u64,
    pub free: u64,
    pub read_only: bool,
}

/// Something listens here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Port {
    pub protocol: Protocol,
    pub port: u16,
    pub address: IpAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Tcp,
    Udp,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    pub name: String,
    /// With epoch and release, as the package manager compares it.
    pub version: String,
    /// As the package manager spells it.
    pub arch: String,
}

impl Facts {
    /// The mount that `path` lies on.
    pub fn mount(&self, path: &str) -> Option<&Mount> {
        let fits = |mount: &&Mount| Path::new(path).starts_with(&mount.path);
        self.mounts.iter().filter(fits).max_by_key(|mount| mount.path.len())
    }

    pub fn has(&self, tool: &str) -> bool {
        self.tools.contains(tool)
    }

    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    pub fn runs(&self, service: &str) -> bool {
        self.services.contains(service)
    }
}

/// Asks a node for its facts.
pub async fn gather(host: &dyn Host) -> Result<Facts, RemoteError> {
    let script = Script::new([SCRIPT]).set("MODULES", MODULES.join(" ")).set("TOOLS", tools().join(" "));
    let before = now();
    let command = Command::sh("look at the node", script).timeout(Duration::from_secs(180));
    let output = host.run(command).await?;
    let after = now();
    let text = String::from_utf8_lossy(&output.stdout);
    parse(host.name(), &text, before, after)
        .map_err(|reason| RemoteError::answer(host.name(), "look at the node", reason))
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use super::SCRIPT;
    use crate::paths::ETCD_DATA;

    #[test]
    fn data_where_our_etcd_would_find_it_is_a_leftover() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display().to_string();
        let (_, script) = SCRIPT.split_once("section leftovers\n").unwrap();
        let script = script.replace("/etc/", &format!("{root}/etc/"));
        let script = script.replace("/var/lib/", &format!("{root}/var/lib/"));
        let look = || {
            let script = format!("section() {{ :; }}\n{script}");
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().replace(&root, "")
        };
        std::fs::create_dir_all(format!("{root}{ETCD_DATA}")).unwrap();
        assert_eq!(look(), "");
        std::fs::create_dir(format!("{root}{ETCD_DATA}/member")).unwrap();
        assert_eq!(look(), format!("{ETCD_DATA}/member\n"));
    }
}
