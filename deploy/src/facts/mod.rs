//! What a node is and has, asked in one round trip: before anything is decided, and again once its content is installed.
//! Nothing is judged here: `preflight` and `status` do that.

pub mod baseline;
mod look;
mod packages;
mod parse;

pub use crate::manager::Manager;
pub use look::{Look, MODULES, look, tools};
pub use packages::{Listed, Package, Packages};
pub use parse::parse;

use crate::claim::Claim;
use crate::pki::Certificate;
use crate::store;
use crate::version::Version;
use eggo_bundles::Arch;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

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
    /// Those of a cluster that the node has.
    pub programs: BTreeMap<String, Program>,
    /// That run now.
    pub services: BTreeSet<String>,
    /// That start with the machine.
    pub enabled_services: BTreeSet<String>,
    /// systemd's word on each service of a cluster: `active`.
    pub states: BTreeMap<String, String>,
    pub ports: BTreeSet<Port>,
    pub addresses: BTreeSet<IpAddr>,
    pub selinux: Option<Selinux>,
    /// What is in the node's store.
    pub store: store::Contents,
    /// Whose the node is, if anybody has installed anything there.
    pub claim: Option<Claim>,
    /// Traces of a Kubernetes that are there.
    pub leftovers: Vec<String>,
    pub packages: Packages,
    /// Units of a cluster's services that packages brought.
    pub units: BTreeSet<String>,
    /// systemd-resolved has a list of the real name servers, where `/etc/resolv.conf` names only its stub.
    pub resolved: bool,
    /// Whether there is somewhere to forward names to.
    pub name_servers: bool,
    /// nginx's module for TCP, where it is a file of its own.
    pub stream_module: Option<String>,
    /// Of the configured folders, those with CNI programs in them.
    pub cni_bin_dirs: Vec<String>,
    /// The user's settings of container runtimes, by path. They may hold passwords.
    #[serde(skip)]
    pub settings: BTreeMap<String, Vec<u8>>,
    /// etcd has run here.
    pub etcd_data: bool,
    /// By which the kubelet talks to the API; none if it has none, or one that cannot be read.
    #[serde(skip)]
    pub kubelet_client: Option<Certificate>,
}

/// A program and the version that it reports, if it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    pub path: String,
    pub version: Option<Version>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Os {
    pub id: String,
    pub version: String,
    pub name: String,
    pub like: Vec<String>,
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

impl Facts {
    /// The mount that `path` is on.
    pub fn mount(&self, path: &str) -> Option<&Mount> {
        let fits = |mount: &&Mount| Path::new(path).starts_with(&mount.path);
        self.mounts.iter().filter(fits).max_by_key(|mount| mount.path.len())
    }

    pub fn has(&self, tool: &str) -> bool {
        self.tools.contains(tool) || self.programs.contains_key(tool)
    }

    /// Where a program of a cluster is.
    pub fn path(&self, program: &str) -> Option<&str> {
        self.programs.get(program).map(|found| found.path.as_str())
    }

    pub fn version(&self, program: &str) -> Option<Version> {
        self.programs.get(program)?.version
    }

    pub fn package(&self, name: &str) -> Option<Listed<'_>> {
        self.packages.get(name)
    }

    pub fn runs(&self, service: &str) -> bool {
        self.services.contains(service)
    }
}
