//! masters, workers, etcds and loadbalance → one [`Host`] per address.

use super::address::is_subdomain;
use super::defaults;
use super::model::Host;
use super::warnings::Warnings;
use eggo_bundles::{Arch, Role};
use eggo_yaml::{Fields, Node, Reader};
use std::net::IpAddr;

/// All hosts, and the load balancer's port. Without `etcds` every master runs etcd.
pub(super) fn read<'a>(
    top: &Fields<'a>,
    warnings: &Warnings,
    etcd_is_external: bool,
) -> (Vec<Host>, Option<u16>) {
    let reader = top.reader();
    let mut hosts = Hosts::new(reader);
    let workers = top.spelled(&["workers", "nodes"]);
    let balancer = top.spelled(&["loadbalance", "loadbalancer"]);
    hosts.list(top, "masters", Role::Master);
    hosts.list(top, workers, Role::Worker);
    hosts.list(top, "etcds", Role::Etcd);
    let bind_port = hosts.load_balancer(top, balancer);
    let mut hosts = hosts.finish();

    for key in ["masters", workers] {
        match top.node(key) {
            None => top.missing(key),
            Some(node) if node.as_sequence().is_some_and(<[_]>::is_empty) => {
                reader.at(node, format!("`{key}` is empty; a cluster needs at least one"));
            }
            Some(_) => {}
        }
    }
    let etcds = top.node("etcds").filter(|node| node.as_sequence().is_some_and(|list| !list.is_empty()));
    match (etcds, etcd_is_external) {
        (Some(node), true) => reader.at(node, "`etcds` cannot be combined with `etcd-external`"),
        (None, false) => {
            for host in hosts.iter_mut().filter(|host| host.has(Role::Master)) {
                host.roles.insert(Role::Etcd);
            }
        }
        _ => {}
    }
    let members = hosts.iter().filter(|host| host.has(Role::Etcd)).count();
    if let Some(node) = etcds.or(top.node("masters")).filter(|_| members > 0) {
        if members % 2 == 0 {
            let message = format!(
                "{members} etcd members survive the loss of {}, no more than {} do",
                (members - 1) / 2,
                members - 1
            );
            warnings.at_hinted(node, message, "use an odd number");
        } else if members > 7 {
            warnings.at(node, format!("{members} etcd members slow every write down; 3 or 5 are usual"));
        }
    }
    if let (Some(port), Some(node)) = (bind_port, top.node(balancer))
        && port == defaults::API_PORT
        && hosts.iter().any(|host| host.has(Role::Loadbalance) && host.has(Role::Master))
    {
        let message = format!("`loadbalance.bind-port` {port} is taken by the API server of the same host");
        reader.at_hinted(node, message, format!("use another port, such as {}", defaults::BIND_PORT));
    }
    (hosts, bind_port)
}

/// Merges the hosts of every list, as they are read.
struct Hosts<'a> {
    reader: &'a Reader,
    /// With the name of the entry that said it first: `masters[0]`.
    hosts: Vec<(Host, String)>,
}

impl<'a> Hosts<'a> {
    fn new(reader: &'a Reader) -> Self {
        Self { reader, hosts: Vec::new() }
    }

    fn list(&mut self, fields: &Fields<'a>, key: &'static str, role: Role) {
        let mut seen: Vec<(String, IpAddr)> = Vec::new();
        for (i, node) in fields.list(key).iter().enumerate() {
            let what = format!("{key}[{i}]");
            let entry = self.reader.fields(node, &what);
            let host = self.entry(&entry, role);
            entry.finish();
            let Some(host) = host else { continue };
            if seen.iter().any(|(_, ip)| *ip == host.ip) {
                self.reader.at(node, format!("address `{}` stands twice in `{key}`", host.ip));
            } else if seen.iter().any(|(name, _)| *name == host.name) {
                self.reader.at(node, format!("name `{}` stands twice in `{key}`", host.name));
            }
            seen.push((host.name.clone(), host.ip));
            self.merge(node, host, what);
        }
    }

    /// The load balancer: an entry like the others, with a port to bind. Returns that port.
    fn load_balancer(&mut self, fields: &Fields<'a>, key: &'static str) -> Option<u16> {
        let node = fields.node(key)?;
        if node.as_mapping().is_some_and(<[_]>::is_empty) {
            return None;
        }
        let entry = self.reader.fields(node, key);
        // As with eggo: no address, no load balancer.
        if entry.entry("ip").is_some() && entry.node("ip").is_none() {
            return None;
        }
        let port = entry.parsed::<std::num::NonZeroU16>("bind-port", "a port number");
        let host = self.entry(&entry, Role::Loadbalance);
        entry.finish();
        self.merge(node, host?, key.to_string());
        Some(port.map_or(super::defaults::BIND_PORT, Into::into))
    }

    fn entry(&self, entry: &Fields<'a>, role: Role) -> Option<Host> {
        let name = entry.required("name");
        let name_is_good = match (&name, entry.node("name")) {
            (Some(name), Some(node)) if !is_subdomain(name) => {
                self.reader.at_hinted(
                    node,
                    format!("`{}` is `{name}`, which is not an RFC 1123 name", entry.name("name")),
                    "use lowercase letters, digits, `-` and `.`",
                );
                false
            }
            (name, _) => name.is_some(),
        };
        if entry.node("ip").is_none() {
            entry.missing("ip");
        }
        let ip = entry.parsed::<IpAddr>("ip", "an IP address");
        if let (Some(ip), Some(node)) = (ip, entry.node("ip"))
            && (ip.is_unspecified() || ip.is_multicast())
        {
            self.reader.at(node, format!("`{}` is `{ip}`, which is no host's address", entry.name("ip")));
        }
        let port = entry.parsed::<std::num::NonZeroU16>("port", "a port number");
        if entry.node("arch").is_none() {
            entry.missing("arch");
        }
        let arch = entry.parsed::<Arch>("arch", "amd64 (= x86_64) or arm64 (= aarch64)");
        Some(Host {
            name: name.filter(|_| name_is_good)?,
            ip: ip?,
            port: port.map_or(super::defaults::SSH_PORT, Into::into),
            arch: arch?,
            roles: [role].into(),
        })
    }

    /// The same address in several lists is one host, if the entries agree.
    fn merge(&mut self, node: &Node, host: Host, what: String) {
        if let Some((known, first)) = self.hosts.iter_mut().find(|(known, _)| known.ip == host.ip) {
            let differ = |key: &str, here: &dyn std::fmt::Display, there: &dyn std::fmt::Display| {
                let message =
                    format!("`{what}.{key}` is `{here}`, but `{first}` says `{there}` for {}", host.ip);
                self.reader.at_hinted(node, message, "the entries of one host must be equal in every list");
            };
            if known.name != host.name {
                differ("name", &host.name, &known.name);
            }
            if known.port != host.port {
                differ("port", &host.port, &known.port);
            }
            if known.arch != host.arch {
                differ("arch", &host.arch, &known.arch);
            }
            known.roles.extend(host.roles);
            return;
        }
        if let Some((known, first)) = self.hosts.iter().find(|(known, _)| known.name == host.name) {
            let message = format!(
                "`{what}.name` is `{}`, which is already `{first}` with address {}",
                host.name, known.ip
            );
            self.reader.at_hinted(node, message, "every host needs a name of its own");
        }
        self.hosts.push((host, what));
    }

    fn finish(self) -> Vec<Host> {
        self.hosts.into_iter().map(|(host, _)| host).collect()
    }
}
