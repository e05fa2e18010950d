//! The components of a cluster, in the order in which they start: whose role runs them, their services, programs, ports,
//! certificates and kubeconfigs.
//!
//! What is opened in a firewall, asked for by preflight, shown by `status`, stopped by `delete`, renewed by `certs renew`
//! and put back after a failed upgrade comes from this table. Their flags are in `cluster::flags`, the content of their
//! files in `cluster::files`; how a component is started is the business of `cluster::deploy`.

use crate::config::{self, Config, DnsKind, Host, Port, Protocol, defaults};
use crate::paths;
use eggo_bundles::Role;
use std::collections::BTreeSet;

/// What is known of a component.
pub struct Component {
    pub service: Service,
    /// The nodes that run it.
    pub role: Role,
    /// Whether they do, in this cluster.
    pub runs: fn(&Config) -> bool,
    /// Its program, and those that come with it.
    pub programs: &'static [Program],
    /// What others reach it on.
    pub ports: fn(&Config) -> Vec<Port>,
    /// The leaves that it needs, as the table of `pki` names them.
    pub certificates: &'static [Certificate],
    /// How it talks to the API.
    pub kubeconfig: Option<Kubeconfig>,
    /// The flags that it takes, ours and those of deploy.yaml.
    pub flags: Option<config::Component>,
}

/// The systemd service of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    Named(&'static str),
    /// That of the container runtime in deploy.yaml.
    Runtime,
}

pub struct Program {
    pub name: &'static str,
    /// Words in the names of packages that bring it, for distributions cut Kubernetes into different ones. None: nobody looks
    /// for it in a plan, for it always comes with another.
    pub packages: Option<&'static [&'static str]>,
}

pub struct Certificate {
    pub leaf: &'static str,
    /// Whether the nodes hold it, in this cluster.
    pub held: fn(&Config) -> bool,
}

/// A kubeconfig that is made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kubeconfig {
    pub path: &'static str,
    pub user: &'static str,
    pub leaf: &'static str,
}

const NONE: Component = Component {
    service: Service::Runtime,
    role: Role::Worker,
    runs: |_| true,
    programs: &[],
    ports: |_| Vec::new(),
    certificates: &[],
    kubeconfig: None,
    flags: None,
};

/// All of them, in the order in which they start.
pub static TABLE: [&Component; 9] =
    [&ETCD, &LOAD_BALANCER, &API_SERVER, &CONTROLLER_MANAGER, &SCHEDULER, &DNS, &RUNTIME, &KUBELET, &PROXY];

pub static ETCD: Component = Component {
    service: Service::Named("etcd"),
    role: Role::Etcd,
    runs: |config| config.etcd.external.is_none(),
    programs: &[program("etcd", &["etcd"]), Program { name: "etcdctl", packages: None }],
    ports: |_| tcp(&[2379, 2380, 2381]),
    certificates: &[leaf("etcd/server"), leaf("etcd/peer"), leaf("etcd/healthcheck-client")],
    flags: Some(config::Component::Etcd),
    ..NONE
};

pub static LOAD_BALANCER: Component = Component {
    service: Service::Named("nginx"),
    role: Role::Loadbalance,
    programs: &[program("nginx", &["nginx"])],
    ports: |config| tcp(config.load_balancer_port.as_slice()),
    ..NONE
};

pub static API_SERVER: Component = Component {
    service: Service::Named("kube-apiserver"),
    role: Role::Master,
    programs: &[
        program("kube-apiserver", &["kube-apiserver", "kubernetes-master"]),
        program("kubectl", &["kubectl", "kubernetes-client"]),
    ],
    ports: |_| tcp(&[defaults::API_PORT]),
    certificates: &[
        leaf("apiserver"),
        leaf("apiserver-kubelet-client"),
        Certificate { leaf: "apiserver-etcd-client", held: |config| config.etcd.external.is_none() },
        leaf("front-proxy-client"),
    ],
    flags: Some(config::Component::KubeApiserver),
    ..NONE
};

pub static CONTROLLER_MANAGER: Component = Component {
    service: Service::Named("kube-controller-manager"),
    role: Role::Master,
    programs: &[program("kube-controller-manager", &["kube-controller-manager", "kubernetes-master"])],
    ports: |_| tcp(&[10252, CONTROLLER_MANAGER_PORT]),
    certificates: &[leaf("controller-manager")],
    kubeconfig: Some(Kubeconfig {
        path: paths::CONTROLLER_MANAGER,
        user: "system:kube-controller-manager",
        leaf: "controller-manager",
    }),
    flags: Some(config::Component::KubeControllerManager),
    ..NONE
};

pub static SCHEDULER: Component = Component {
    service: Service::Named("kube-scheduler"),
    role: Role::Master,
    programs: &[program("kube-scheduler", &["kube-scheduler", "kubernetes-master"])],
    ports: |_| tcp(&[10251, SCHEDULER_PORT]),
    certificates: &[leaf("scheduler")],
    kubeconfig: Some(Kubeconfig { path: paths::SCHEDULER, user: "system:kube-scheduler", leaf: "scheduler" }),
    flags: Some(config::Component::KubeScheduler),
    ..NONE
};

pub static DNS: Component = Component {
    service: Service::Named("coredns"),
    role: Role::Master,
    runs: |config| config.dns.kind == DnsKind::Binary,
    programs: &[program("coredns", &["coredns"])],
    ports: |_| {
        let udp = Port { port: 53, protocol: Protocol::Udp };
        tcp(&[53, 9153]).into_iter().chain([udp]).collect()
    },
    certificates: &[leaf("coredns")],
    kubeconfig: Some(Kubeconfig { path: paths::COREDNS, user: "coredns", leaf: "coredns" }),
    ..NONE
};

pub static RUNTIME: Component = Component { service: Service::Runtime, role: Role::Worker, ..NONE };

pub static KUBELET: Component = Component {
    service: Service::Named("kubelet"),
    role: Role::Worker,
    programs: &[program("kubelet", &["kubelet", "kubernetes-node"])],
    ports: |_| tcp(&[10250]),
    certificates: &[Certificate { leaf: "kubelet", held: |config| !config.kubelet_serving }],
    flags: Some(config::Component::Kubelet),
    ..NONE
};

pub static PROXY: Component = Component {
    service: Service::Named("kube-proxy"),
    role: Role::Worker,
    programs: &[program("kube-proxy", &["kube-proxy", "kubernetes-node"])],
    ports: |_| tcp(&[10256]),
    certificates: &[leaf("kube-proxy")],
    kubeconfig: Some(Kubeconfig { path: paths::KUBE_PROXY, user: "system:kube-proxy", leaf: "kube-proxy" }),
    flags: Some(config::Component::KubeProxy),
    ..NONE
};

/// Where they answer with TLS; the insecure ports beside them left with 1.24.
pub const CONTROLLER_MANAGER_PORT: u16 = 10257;
pub const SCHEDULER_PORT: u16 = 10259;

const fn program(name: &'static str, packages: &'static [&'static str]) -> Program {
    Program { name, packages: Some(packages) }
}

const fn leaf(leaf: &'static str) -> Certificate {
    Certificate { leaf, held: |_| true }
}

fn tcp(numbers: &[u16]) -> Vec<Port> {
    numbers.iter().map(|port| Port { port: *port, protocol: Protocol::Tcp }).collect()
}

impl Component {
    /// The systemd service, unless that depends on the cluster.
    pub fn name(&self) -> Option<&'static str> {
        match self.service {
            Service::Named(name) => Some(name),
            Service::Runtime => None,
        }
    }

    /// The systemd service, in this cluster.
    pub fn service(&self, config: &Config) -> &'static str {
        self.name().unwrap_or(config.runtime.kind.service)
    }
}

/// Those that a host runs, in the order in which they start.
pub fn of<'a>(config: &'a Config, host: &'a Host) -> impl Iterator<Item = &'static Component> + 'a {
    TABLE.into_iter().filter(|component| host.has(component.role) && (component.runs)(config))
}

/// The services of a host.
pub fn services(config: &Config, host: &Host) -> Vec<&'static str> {
    of(config, host).map(|component| component.service(config)).collect()
}

/// All services of a role that have a name of their own, whether this cluster has them or not.
pub fn named(role: Role) -> Vec<&'static str> {
    TABLE.into_iter().filter(|component| component.role == role).filter_map(Component::name).collect()
}

/// What the components of a host listen on, and what deploy.yaml asks for beyond.
pub fn ports(config: &Config, host: &Host) -> BTreeSet<Port> {
    let ours = of(config, host).flat_map(|component| (component.ports)(config));
    config.open_ports(host).into_iter().chain(ours).collect()
}

/// The leaves that a host holds.
pub fn leaves(config: &Config, host: &Host) -> Vec<&'static str> {
    let all = of(config, host).flat_map(|component| component.certificates);
    all.filter(|certificate| (certificate.held)(config)).map(|certificate| certificate.leaf).collect()
}

/// All programs but those of container runtimes.
pub fn programs() -> impl Iterator<Item = &'static str> {
    TABLE.into_iter().flat_map(|component| component.programs).map(|program| program.name)
}

/// The programs of a role's components, and what comes with them.
pub fn programs_of(role: Role) -> impl Iterator<Item = &'static str> {
    let all = TABLE.into_iter().filter(move |component| component.role == role);
    all.flat_map(|component| component.programs).map(|program| program.name)
}

/// The programs that a host must have, each with the words in the names of packages that bring it.
pub fn needed(config: &Config, host: &Host) -> Vec<(&'static str, &'static [&'static str])> {
    let mut needed = Vec::new();
    for component in of(config, host) {
        if component.service == Service::Runtime {
            needed.push((config.runtime.kind.program, config.runtime.kind.packages));
        }
        needed
            .extend(component.programs.iter().filter_map(|program| Some((program.name, program.packages?))));
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn config(more: &str) -> Config {
        let text = format!(
            "masters: [{{name: m, ip: 10.0.0.1, arch: amd64}}]\nworkers: [{{name: w, ip: 10.0.0.2, arch: amd64}}]\n\
             loadbalance: {{name: lb, ip: 10.0.0.3, arch: amd64, bind-port: 8443}}\n\
             runtime: containerd\ninstall: {{package-source: {{type: bundle}}}}\n{more}"
        );
        crate::config::parse("d.yaml", text.as_bytes()).unwrap().config
    }

    #[test]
    fn a_host_runs_what_its_roles_need() {
        let config = config("");
        let of = |name: &str| services(&config, config.host(name).unwrap()).join(" ");
        assert_eq!(of("m"), "etcd kube-apiserver kube-controller-manager kube-scheduler coredns");
        assert_eq!(of("w"), "containerd kubelet kube-proxy");
        assert_eq!(of("lb"), "nginx");
        let ports = |name: &str| {
            let ports = ports(&config, config.host(name).unwrap());
            ports.iter().map(Port::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            ports("m"),
            "53/tcp 53/udp 2379/tcp 2380/tcp 2381/tcp 6443/tcp 9153/tcp 10251/tcp 10252/tcp 10257/tcp 10259/tcp"
        );
        assert_eq!(ports("w"), "10250/tcp 10256/tcp");
        assert_eq!(ports("lb"), "8443/tcp");
    }

    #[test]
    fn certificates_depend_on_the_cluster() {
        let external = "etcd-external: {endpoints: [https://10.0.0.9:2379], ca: /a, cert: /b, key: /c}\n";
        let leaves = |more: &str, name: &str| {
            let config = config(more);
            leaves(&config, config.host(name).unwrap()).join(" ")
        };
        assert_eq!(leaves("", "w"), "kubelet kube-proxy");
        assert_eq!(leaves("enable-kubelet-serving: true\n", "w"), "kube-proxy");
        assert_eq!(
            leaves(external, "m"),
            "apiserver apiserver-kubelet-client front-proxy-client controller-manager scheduler coredns"
        );
    }

    /// No two components want one name.
    #[test]
    fn every_name_is_there_once() {
        let names: Vec<&str> = TABLE.into_iter().filter_map(Component::name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        let all: Vec<&str> = programs().collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
