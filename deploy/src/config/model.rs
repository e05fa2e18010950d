//! The normalised configuration. Serialisable without its password, so that the state
//! folder can keep it.

use super::{Cidr, Endpoint, HostKey, Jump, Secret};
use crate::runtimes;
use eggo_bundles::{Arch, Role};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    pub cluster_id: String,
    pub login: Login,
    /// One per address, in the order in which the file first has them: masters, workers, etcds, load balancer.
    pub hosts: Vec<Host>,
    /// The port that the load balancer listens on; there is a host with that role if and only if this is set.
    pub load_balancer_port: Option<u16>,
    /// A folder with a CA that is used in place of a new one.
    pub external_ca: Option<PathBuf>,
    pub service: Service,
    pub dns: Dns,
    pub network: Network,
    pub api: ApiServer,
    pub etcd: Etcd,
    pub runtime: runtimes::Chosen,
    /// Kubelets get serving certificates from the cluster's CA.
    pub kubelet_serving: bool,
    /// Flags without their dashes, per component.
    pub extra_args: BTreeMap<Component, BTreeMap<String, String>>,
    pub open_ports: BTreeMap<Role, Vec<Port>>,
    pub content: Content,
    /// Manifests to apply, in this order.
    pub addons: Vec<Addon>,
    pub hooks: Vec<Hook>,
}

/// How to get onto every node that says nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    pub user: String,
    /// Never saved.
    #[serde(skip)]
    pub password: Option<Secret>,
    /// As written; `~` is not expanded yet.
    pub private_key: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    pub ip: IpAddr,
    /// Where its sshd listens.
    pub port: u16,
    pub arch: Arch,
    pub roles: BTreeSet<Role>,
    /// Who logs in here; otherwise [`Login::user`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its key, as written; otherwise [`Login::private_key`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key: Option<PathBuf>,
    /// The only key that the host may show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_key: Option<HostKey>,
    /// The host that connections to this one go through: its own, or that of all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump: Option<Jump>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    pub cidr: Cidr,
    /// The cluster IP of the DNS service.
    pub dns: IpAddr,
    /// The cluster IP of the `kubernetes` service, as deploy.yaml has it.
    pub gateway: IpAddr,
}

impl Service {
    /// The cluster IP that Kubernetes gives its own service: always the first.
    pub fn api(&self) -> IpAddr {
        self.cidr.nth(1).unwrap_or(self.gateway)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    pub domain: String,
    pub kind: DnsKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DnsKind {
    /// coredns as a systemd service on the masters.
    Binary,
    /// coredns as a deployment.
    Pod { image_version: String, replicas: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    pub pod_cidr: Cidr,
    /// calico, flannel…: whose manifest is adapted to `pod_cidr`.
    pub plugin: Option<String>,
    pub plugin_args: BTreeMap<String, String>,
    /// Where the runtime and the kubelet look for CNI programs.
    pub cni_bin_dirs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiServer {
    /// Resolved: the configured one, else the load balancer, else the first master.
    pub endpoint: Endpoint,
    pub sans: Sans,
    pub timeout: Duration,
}

/// More subjects for the API server's certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sans {
    pub dns_names: Vec<String>,
    pub ips: Vec<IpAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Etcd {
    /// The cluster token.
    pub token: String,
    /// An etcd that already exists; then no host has the role etcd.
    pub external: Option<ExternalEtcd>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalEtcd {
    /// `https://host:port`
    pub endpoints: Vec<String>,
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    Etcd,
    KubeApiserver,
    KubeControllerManager,
    KubeScheduler,
    KubeProxy,
    Kubelet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Port {
    pub port: u16,
    pub protocol: Protocol,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Tcp,
    Udp,
}

/// What is to be installed, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    pub choice: Choice,
    /// eggo's own unsigned tarballs, used only when no bundle is given.
    pub tarballs: BTreeMap<Arch, PathBuf>,
    pub items: Vec<Item>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Every item of the bundle goes to the nodes of its roles.
    ByRole,
    /// Only what [`Content::items`] names.
    Listed,
}

/// One entry of a package list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub section: Section,
    pub kind: ItemKind,
    pub names: Vec<String>,
    /// Checked against the whitelist; set for binaries, files and folders.
    pub dst: Option<String>,
    /// Where it is in the file.
    pub line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ItemKind {
    Pkg,
    /// A package from the node's own repositories.
    Repo,
    Bin,
    File,
    Dir,
    Image,
}

/// The list that an item is in, which decides the nodes that get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Section {
    KubernetesMaster,
    KubernetesWorker,
    Network,
    Etcd,
    Loadbalance,
    Container,
    Image,
    Dns,
    Addition(Role),
}

/// A manifest in the bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addon {
    /// `calico.yaml`
    pub name: String,
    pub line: usize,
}

/// A script of the bundle that runs on the nodes of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// `prejoin.sh`
    pub name: String,
    pub role: Role,
    pub schedule: Schedule,
    pub timeout: Duration,
    pub line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    Prejoin,
    Postjoin,
    Precleanup,
    Postcleanup,
}

impl Config {
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(move |host| host.has(role))
    }

    /// Every loaded configuration has at least one master.
    pub fn first_master(&self) -> Option<&Host> {
        self.with_role(Role::Master).next()
    }

    pub fn load_balancer(&self) -> Option<&Host> {
        self.with_role(Role::Loadbalance).next()
    }

    /// By name or address.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name || host.ip.to_string() == name)
    }

    /// Every private key of this machine that the file names, however often.
    pub fn private_keys_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let own = self.hosts.iter_mut().flat_map(|host| {
            host.private_key
                .iter_mut()
                .chain(host.jump.iter_mut().filter_map(|jump| jump.private_key.as_mut()))
        });
        self.login.private_key.iter_mut().chain(own)
    }

    pub fn archs(&self) -> BTreeSet<Arch> {
        self.hosts.iter().map(|host| host.arch).collect()
    }

    pub fn extra_args(&self, component: Component) -> impl Iterator<Item = (&str, &str)> {
        let args = self.extra_args.get(&component).into_iter().flatten();
        args.map(|(flag, value)| (flag.as_str(), value.as_str()))
    }

    /// The ports that deploy.yaml asks to open on `host`, beyond what its components need.
    pub fn open_ports(&self, host: &Host) -> BTreeSet<Port> {
        let roles = host.roles.iter().filter_map(|role| self.open_ports.get(role));
        roles.flatten().copied().collect()
    }
}

impl Host {
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

impl Component {
    pub const ALL: [Component; 6] = [
        Component::Etcd,
        Component::KubeApiserver,
        Component::KubeControllerManager,
        Component::KubeScheduler,
        Component::KubeProxy,
        Component::Kubelet,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Component::Etcd => "etcd",
            Component::KubeApiserver => "kube-apiserver",
            Component::KubeControllerManager => "kube-controller-manager",
            Component::KubeScheduler => "kube-scheduler",
            Component::KubeProxy => "kube-proxy",
            Component::Kubelet => "kubelet",
        }
    }
}

impl Protocol {
    pub const ALL: [Protocol; 2] = [Protocol::Tcp, Protocol::Udp];

    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }
}

impl ItemKind {
    /// The room of a bundle that holds it; `None` for what comes from the node's repositories.
    pub fn kind(self) -> Option<eggo_bundles::Kind> {
        use eggo_bundles::Kind;
        match self {
            ItemKind::Pkg => Some(Kind::Pkg),
            ItemKind::Repo => None,
            ItemKind::Bin => Some(Kind::Bin),
            ItemKind::File => Some(Kind::File),
            ItemKind::Dir => Some(Kind::Dir),
            ItemKind::Image => Some(Kind::Image),
        }
    }
}

impl Section {
    /// Whose nodes get the list's items.
    pub fn role(self) -> Role {
        match self {
            Section::KubernetesMaster | Section::Dns => Role::Master,
            Section::KubernetesWorker | Section::Network | Section::Container | Section::Image => {
                Role::Worker
            }
            Section::Etcd => Role::Etcd,
            Section::Loadbalance => Role::Loadbalance,
            Section::Addition(role) => role,
        }
    }

    /// The key below `install`.
    pub fn key(self) -> &'static str {
        match self {
            Section::KubernetesMaster => "kubernetes-master",
            Section::KubernetesWorker => "kubernetes-worker",
            Section::Network => "network",
            Section::Etcd => "etcd",
            Section::Loadbalance => "loadbalance",
            Section::Container => "container",
            Section::Image => "image",
            Section::Dns => "dns",
            Section::Addition(_) => "addition",
        }
    }
}

impl Schedule {
    pub const ALL: [Schedule; 4] =
        [Schedule::Prejoin, Schedule::Postjoin, Schedule::Precleanup, Schedule::Postcleanup];

    pub fn as_str(self) -> &'static str {
        match self {
            Schedule::Prejoin => "prejoin",
            Schedule::Postjoin => "postjoin",
            Schedule::Precleanup => "precleanup",
            Schedule::Postcleanup => "postcleanup",
        }
    }
}

/// Display and FromStr by the words of deploy.yaml, ignoring case.
macro_rules! words {
    ($($type:ty),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                let found = Self::ALL.into_iter().find(|word| word.as_str().eq_ignore_ascii_case(text));
                found.ok_or(())
            }
        }
    )*};
}

words!(Component, Protocol, Schedule);

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Section::Addition(role) => write!(f, "install.addition.{role}"),
            other => write!(f, "install.{}", other.key()),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.port, self.protocol)
    }
}
