//! masters, workers, etcds and loadbalance → one [`Host`] per address.

use super::address::is_subdomain;
use super::defaults;
use super::model::Host;
use super::warnings::Warnings;
use super::way::{self, HostKey, Jump, Way};
use eggo_bundles::{Arch, Role};
use eggo_yaml::{Fields, Node, Reader};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

/// All hosts, and the load balancer's port. Without `etcds` every master runs etcd. Hosts without a name are
/// called after the cluster, as eggo did.
pub(super) fn read<'a>(
    top: &Fields<'a>,
    warnings: &Warnings,
    cluster_id: &str,
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
    let jump = match Way::read(top) {
        Some(Way::Through(jump)) => Some(*jump),
        Some(Way::Direct) | None => None,
    };
    let mut hosts = hosts.finish(warnings, cluster_id, jump.as_ref());

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
    warn_without_kubelet(top, warnings, workers, &hosts);
    if let (Some(port), Some(node)) = (bind_port, top.node(balancer))
        && port == defaults::API_PORT
        && hosts.iter().any(|host| host.has(Role::Loadbalance) && host.has(Role::Master))
    {
        let message = format!("`loadbalance.bind-port` {port} is taken by the API server of the same host");
        reader.at_hinted(node, message, format!("use another port, such as {}", defaults::BIND_PORT));
    }
    (hosts, bind_port)
}

/// An API server reaches pods only through the kube-proxy and the network of its own node.
fn warn_without_kubelet(top: &Fields<'_>, warnings: &Warnings, workers: &str, hosts: &[Host]) {
    let without = hosts.iter().filter(|host| host.has(Role::Master) && !host.has(Role::Worker));
    let names: Vec<String> = without.map(|host| format!("`{}`", host.name)).collect();
    let (Some(node), false) = (top.node("masters"), names.is_empty()) else { return };
    let message = format!(
        "no kubelet on {}: an API server reaches pods only through its own node, so admission webhooks, metrics-server \
         and other aggregated APIs will not work",
        names.join(", ")
    );
    let hint =
        format!("list every master under `{workers}`, too; ordinary pods stay away from masters (a taint)");
    warnings.at_hinted(node, message, hint);
}

/// Merges the hosts of every list, as they are read.
struct Hosts<'a> {
    reader: &'a Reader,
    hosts: Vec<Known<'a>>,
}

/// A host as its entries have it so far.
struct Known<'a> {
    name: Option<String>,
    ip: IpAddr,
    port: u16,
    arch: Option<Arch>,
    roles: BTreeSet<Role>,
    user: Option<String>,
    private_key: Option<PathBuf>,
    host_key: Option<HostKey>,
    jump: Option<Way>,
    /// The entry that said it first, and what it is called: `masters[0]`.
    node: &'a Node,
    what: String,
    /// What eggo called such a host, behind the name of the cluster: `master-0`.
    place: String,
}

impl<'a> Hosts<'a> {
    fn new(reader: &'a Reader) -> Self {
        Self { reader, hosts: Vec::new() }
    }

    fn list(&mut self, fields: &Fields<'a>, key: &'static str, role: Role) {
        let mut seen: Vec<(Option<String>, IpAddr)> = Vec::new();
        for (i, node) in fields.list(key).iter().enumerate() {
            let what = format!("{key}[{i}]");
            let entry = self.reader.fields(node, &what);
            let host = self.entry(&entry, node, what, (role, format!("{role}-{i}")));
            entry.finish();
            let Some(host) = host else { continue };
            if seen.iter().any(|(_, ip)| *ip == host.ip) {
                self.reader.at(node, format!("address `{}` is listed twice in `{key}`", host.ip));
            } else if let Some(name) = &host.name
                && seen.iter().any(|(known, _)| known.as_ref() == Some(name))
            {
                self.reader.at(node, format!("name `{name}` is listed twice in `{key}`"));
            }
            seen.push((host.name.clone(), host.ip));
            self.merge(host);
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
        let role = Role::Loadbalance;
        let host = self.entry(&entry, node, key.to_string(), (role, role.to_string()));
        entry.finish();
        self.merge(host?);
        Some(port.map_or(super::defaults::BIND_PORT, Into::into))
    }

    fn entry(
        &self,
        entry: &Fields<'a>,
        node: &'a Node,
        what: String,
        (role, place): (Role, String),
    ) -> Option<Known<'a>> {
        let name = entry.text("name");
        let name_is_good = match (&name, entry.node("name")) {
            (Some(name), Some(node)) if !is_subdomain(name) => {
                self.reader.at_hinted(
                    node,
                    format!("`{}` is `{name}`, which is not an RFC 1123 name", entry.name("name")),
                    "use lowercase letters, digits, `-` and `.`",
                );
                false
            }
            (name, node) => name.is_some() == node.is_some(),
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
        let arch = entry.parsed::<Arch>("arch", "amd64 (= x86_64) or arm64 (= aarch64)");
        let arch_is_good = arch.is_some() == entry.node("arch").is_some();
        let user = way::user(entry, entry.spelled(&["username", "user"]));
        let (private_key, host_key, jump) = (way::private_key(entry), way::host_key(entry), Way::read(entry));
        let host = Known {
            name,
            ip: ip?,
            port: port.map_or(super::defaults::SSH_PORT, Into::into),
            arch,
            roles: [role].into(),
            user,
            private_key,
            host_key,
            jump,
            node,
            what,
            place,
        };
        (name_is_good && arch_is_good).then_some(host)
    }

    /// The same address in several lists is one host, if the entries agree.
    fn merge(&mut self, host: Known<'a>) {
        if let Some(known) = self.hosts.iter_mut().find(|known| known.ip == host.ip) {
            let differ = |key: &str, here: &dyn std::fmt::Display, there: &dyn std::fmt::Display| {
                let Known { ip, node, what, .. } = &host;
                let message =
                    format!("`{what}.{key}` is `{here}`, but `{}` says `{there}` for {ip}", known.what);
                self.reader.at_hinted(node, message, "the entries of one host must be equal in every list");
            };
            if known.port != host.port {
                differ("port", &host.port, &known.port);
            }
            for (key, here, there) in [
                ("name", shown(&host.name), shown(&known.name)),
                ("arch", shown(&host.arch), shown(&known.arch)),
                ("username", shown(&host.user), shown(&known.user)),
                ("private-key-path", path(&host.private_key), path(&known.private_key)),
                ("host-key", shown(&host.host_key), shown(&known.host_key)),
                ("jump", shown(&host.jump), shown(&known.jump)),
            ] {
                if let (Some(here), Some(there)) = (here, there)
                    && here != there
                {
                    differ(key, &here, &there);
                }
            }
            known.name = known.name.take().or(host.name);
            known.arch = known.arch.or(host.arch);
            known.roles.extend(host.roles);
            known.user = known.user.take().or(host.user);
            known.private_key = known.private_key.take().or(host.private_key);
            known.host_key = known.host_key.take().or(host.host_key);
            known.jump = known.jump.take().or(host.jump);
            return;
        }
        self.unique(&host);
        self.hosts.push(host);
    }

    fn unique(&self, host: &Known<'a>) {
        let Some(name) = &host.name else { return };
        let same = |known: &&Known<'a>| known.name.as_ref() == Some(name) && known.ip != host.ip;
        if let Some(known) = self.hosts.iter().find(same) {
            let message = format!(
                "`{}.name` is `{name}`, which is already `{}` with address {}",
                host.what, known.what, known.ip
            );
            self.reader.at_hinted(host.node, message, "every host needs a name of its own");
        }
    }

    /// What no entry of a host says is what it was with eggo.
    fn finish(mut self, warnings: &Warnings, cluster_id: &str, jump: Option<&Jump>) -> Vec<Host> {
        // Names of nodes are narrower than those of clusters.
        let cluster = cluster_id.to_ascii_lowercase().replace('_', "-");
        for i in 0..self.hosts.len() {
            let host = &mut self.hosts[i];
            if host.arch.is_none() {
                warnings.at(
                    host.node,
                    format!("`{}.arch` is missing; it is taken for {}", host.what, defaults::ARCH),
                );
            }
            if host.name.is_some() {
                continue;
            }
            let name = format!("{cluster}-{}", host.place);
            if is_subdomain(&name) {
                warnings
                    .at(host.node, format!("`{}.name` is missing; the node is called `{name}`", host.what));
                host.name = Some(name);
                self.unique(&self.hosts[i]);
            } else {
                self.reader.at(host.node, format!("`{}.name` is missing", host.what));
            }
        }
        let done = |host: Known<'a>| {
            let Known { name, ip, port, arch, roles, user, private_key, host_key, .. } = host;
            let jump = match host.jump {
                Some(Way::Direct) => None,
                Some(Way::Through(own)) => Some(*own),
                None => jump.cloned(),
            };
            let arch = arch.unwrap_or(defaults::ARCH);
            Some(Host { name: name?, ip, port, arch, roles, user, private_key, host_key, jump })
        };
        self.hosts.into_iter().filter_map(done).collect()
    }
}

fn shown(value: &Option<impl std::fmt::Display>) -> Option<String> {
    value.as_ref().map(ToString::to_string)
}

fn path(value: &Option<PathBuf>) -> Option<String> {
    value.as_ref().map(|path| path.display().to_string())
}
