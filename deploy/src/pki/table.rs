//! The table of leaves: kubeadm's, and the few that binary mode needs besides.

use super::AuthorityName;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a certificate is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    Server,
    Client,
    Both,
}

/// The alternative names of a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    pub dns: Vec<String>,
    pub ips: Vec<IpAddr>,
}

/// Everything about a leaf but its key and its dates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub common_name: String,
    pub organisation: Option<String>,
    pub usage: Usage,
    pub names: Names,
}

/// A leaf of one node, ready to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its files' name below the pki folder, without `.crt` and `.key`.
    pub path: &'static str,
    pub authority: AuthorityName,
    pub profile: Profile,
}

/// For whom rows are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub name: &'a str,
    pub ip: IpAddr,
    /// Those that it holds.
    pub leaves: &'a [&'a str],
    /// What the apiserver is called besides the node's own name and address: the service's
    /// names, the endpoint, what the user adds.
    pub api: &'a Names,
}

enum Common {
    Fixed(&'static str),
    Node,
    /// `system:node:NAME`
    Kubelet,
}

enum Alternative {
    None,
    /// The node, and all names of the API.
    Api,
    /// The node and the loopback.
    Local,
    Node,
}

struct Entry {
    path: &'static str,
    authority: AuthorityName,
    common: Common,
    organisation: Option<&'static str>,
    usage: Usage,
    names: Alternative,
}

const MASTERS: Option<&str> = Some("system:masters");

#[rustfmt::skip]
const TABLE: [Entry; 14] = {
    use AuthorityName::{Cluster, Etcd, FrontProxy};
    use Common::{Fixed, Kubelet, Node};
    use Usage::{Both, Client, Server};
    [
        Entry { path: "apiserver", authority: Cluster, common: Fixed("kube-apiserver"), organisation: None, usage: Server, names: Alternative::Api },
        Entry { path: "apiserver-kubelet-client", authority: Cluster, common: Fixed("kube-apiserver-kubelet-client"), organisation: MASTERS, usage: Client, names: Alternative::None },
        Entry { path: "apiserver-etcd-client", authority: Etcd, common: Fixed("kube-apiserver-etcd-client"), organisation: MASTERS, usage: Client, names: Alternative::None },
        Entry { path: "front-proxy-client", authority: FrontProxy, common: Fixed("front-proxy-client"), organisation: None, usage: Client, names: Alternative::None },
        Entry { path: "etcd/server", authority: Etcd, common: Node, organisation: None, usage: Both, names: Alternative::Local },
        Entry { path: "etcd/peer", authority: Etcd, common: Node, organisation: None, usage: Both, names: Alternative::Local },
        Entry { path: "etcd/healthcheck-client", authority: Etcd, common: Fixed("kube-etcd-healthcheck-client"), organisation: MASTERS, usage: Client, names: Alternative::None },
        Entry { path: "controller-manager", authority: Cluster, common: Fixed("system:kube-controller-manager"), organisation: None, usage: Client, names: Alternative::None },
        Entry { path: "scheduler", authority: Cluster, common: Fixed("system:kube-scheduler"), organisation: None, usage: Client, names: Alternative::None },
        Entry { path: "kube-proxy", authority: Cluster, common: Fixed("system:kube-proxy"), organisation: None, usage: Client, names: Alternative::None },
        Entry { path: "kubelet", authority: Cluster, common: Kubelet, organisation: Some("system:nodes"), usage: Server, names: Alternative::Node },
        Entry { path: KUBELET_CLIENT, authority: Cluster, common: Kubelet, organisation: Some("system:nodes"), usage: Client, names: Alternative::None },
        Entry { path: "coredns", authority: Cluster, common: Fixed("system:coredns"), organisation: None, usage: Client, names: Alternative::None },
        Entry { path: ADMIN, authority: Cluster, common: Fixed("kubernetes-admin"), organisation: MASTERS, usage: Client, names: Alternative::None },
    ]
};

/// The leaf by which the administrator talks to the API. Only the control machine holds it.
pub const ADMIN: &str = "admin";

/// The leaf by which a kubelet talks to the API. Only its node holds it, and renews it by itself.
pub const KUBELET_CLIENT: &str = "kubelet-client";

/// The leaves that `subject` holds.
pub fn rows(subject: &Subject<'_>) -> Vec<Row> {
    TABLE
        .iter()
        .filter(|entry| subject.leaves.contains(&entry.path))
        .map(|entry| row(entry, subject))
        .collect()
}

fn row(entry: &Entry, subject: &Subject<'_>) -> Row {
    let node = Names { dns: vec![subject.name.to_string()], ips: vec![subject.ip] };
    let names = match entry.names {
        Alternative::None => Names::default(),
        Alternative::Node => node,
        Alternative::Api => node.and(subject.api),
        Alternative::Local => node.and(&Names {
            dns: vec!["localhost".to_string()],
            ips: vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
        }),
    };
    let common_name = match entry.common {
        Common::Fixed(name) => name.to_string(),
        Common::Node => subject.name.to_string(),
        Common::Kubelet => format!("system:node:{}", subject.name),
    };
    Row {
        path: entry.path,
        authority: entry.authority,
        profile: Profile {
            common_name,
            organisation: entry.organisation.map(str::to_string),
            usage: entry.usage,
            names,
        },
    }
}

impl Names {
    /// The names by which the API is called in every cluster: the service's, then the endpoint
    /// (a domain or an address) and the user's own.
    pub fn of_api(domain: &str, service: IpAddr, endpoint: &str, extra: &Names) -> Self {
        let mut names = Self::default();
        for name in ["kubernetes", "kubernetes.default", "kubernetes.default.svc"] {
            names.add(name);
        }
        names.add(&format!("kubernetes.default.svc.{domain}"));
        names.add(&service.to_string());
        names.add(endpoint);
        names.and(extra)
    }

    /// Adds a domain or an address, whichever `name` is.
    pub fn add(&mut self, name: &str) {
        match name.parse::<IpAddr>() {
            Ok(ip) if !self.ips.contains(&ip) => self.ips.push(ip),
            Err(_) if !self.dns.iter().any(|known| known == name) => self.dns.push(name.to_string()),
            _ => {}
        }
    }

    fn and(mut self, more: &Names) -> Self {
        more.dns.iter().for_each(|name| self.add(name));
        more.ips.iter().for_each(|ip| self.add(&ip.to_string()));
        self
    }

    /// The same names, whatever their order.
    pub fn same(&self, dns: &[String], ips: &[IpAddr]) -> bool {
        let sorted = |mut list: Vec<String>| {
            list.sort();
            list.dedup();
            list
        };
        let texts = |ips: &[IpAddr]| ips.iter().map(IpAddr::to_string).collect::<Vec<_>>();
        sorted(self.dns.clone()) == sorted(dns.to_vec()) && sorted(texts(&self.ips)) == sorted(texts(ips))
    }
}
