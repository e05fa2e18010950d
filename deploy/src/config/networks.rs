//! The networks of services and pods, and the names in them.

use super::address::{BadCidr, Cidr, is_subdomain};
use super::defaults;
use super::model::{Config, Dns, DnsKind, Network, Service};
use super::warnings::Warnings;
use crate::paths;
use eggo_yaml::Fields;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Where distributions' own packages put the CNI plugins: no item goes there, and none need.
const PACKAGED_CNI: [&str; 2] = ["/usr/lib/cni", "/usr/libexec/cni"];

pub(super) fn service(top: &Fields<'_>, warnings: &Warnings) -> Service {
    let fields = top.fields("service");
    let fallback: Cidr = defaults::SERVICE_CIDR.parse().expect("a default");
    let cidr = fields.as_ref().and_then(|fields| network_at(fields, "cidr", warnings)).unwrap_or(fallback);
    let address = |n| cidr.nth(n).unwrap_or(cidr.address());
    let given = |key| fields.as_ref().and_then(|fields| fields.parsed::<IpAddr>(key, "an IP address"));
    let gateway = given("gateway").unwrap_or(address(defaults::GATEWAY));
    let dns = given("dnsaddr");
    let vip = top.parsed::<IpAddr>("dns-vip", "an IP address");
    if let (Some(dns), Some(vip), Some(node)) = (dns, vip, top.node("dns-vip"))
        && dns != vip
    {
        top.reader().at_hinted(
            node,
            format!("`dns-vip` is {vip}, but `service.dnsaddr` is {dns}"),
            "both are the address of the DNS service; keep one",
        );
    }
    if let Some(fields) = fields {
        // The loader of `dns` reads it.
        fields.node("dns");
        fields.finish();
    }
    Service { cidr, dns: dns.or(vip).unwrap_or(address(defaults::DNS)), gateway }
}

pub(super) fn dns(top: &Fields<'_>) -> Dns {
    let service = top.fields("service");
    let fields = service.as_ref().and_then(|service| service.fields("dns"));
    let mut kind = DnsKind::Binary;
    if let Some(fields) = fields {
        let version = fields.text("imageversion");
        let replicas = fields.parsed::<std::num::NonZeroU32>("replicas", "a number above 0");
        match fields.text("corednstype").as_deref() {
            None | Some("" | "binary") => {}
            Some("pod") => {
                kind = DnsKind::Pod {
                    image_version: version.unwrap_or_else(|| defaults::COREDNS_VERSION.to_string()),
                    replicas: replicas.map_or(defaults::COREDNS_REPLICAS, Into::into),
                };
            }
            Some(other) => {
                let message =
                    format!("`{}` is `{other}`, expected `pod` or `binary`", fields.name("corednstype"));
                let node = fields.node("corednstype");
                node.into_iter().for_each(|node| top.reader().at(node, message.clone()));
            }
        }
        fields.finish();
    }
    let domain = top.text("dns-domain").unwrap_or_else(|| defaults::DNS_DOMAIN.to_string());
    if let Some(node) = top.node("dns-domain").filter(|_| !is_subdomain(&domain)) {
        top.reader().at(node, format!("`dns-domain` is `{domain}`, which is not a domain"));
    }
    Dns { domain, kind }
}

pub(super) fn network(top: &Fields<'_>, warnings: &Warnings) -> Network {
    let mut network = Network {
        pod_cidr: defaults::POD_CIDR.parse().expect("a default"),
        plugin: None,
        plugin_args: BTreeMap::new(),
        cni_bin_dirs: vec![defaults::CNI_BIN_DIR.to_string()],
    };
    if let Some(fields) = top.fields("network") {
        network.pod_cidr = network_at(&fields, "podcidr", warnings).unwrap_or(network.pod_cidr);
        network.plugin = fields.text("plugin").filter(|plugin| !plugin.is_empty());
        if let Some(args) = fields.fields(fields.spelled(&["plugin-args", "pluginargs"])) {
            network.plugin_args = texts(&args);
        }
        fields.finish();
    }
    if let (Some(kind), Some(node)) = (top.text("network-plugin"), top.node("network-plugin"))
        && !kind.is_empty()
        && kind != "cni"
    {
        top.reader().at(node, format!("`network-plugin` is `{kind}`, expected `cni`"));
    }
    if let (Some(dirs), Some(node)) = (top.text("cni-bin-dir"), top.node("cni-bin-dir")) {
        let named = dirs.split(',').map(str::trim).filter(|dir| !dir.is_empty());
        network.cni_bin_dirs = named.map(paths::plain).collect();
        for dir in network.cni_bin_dirs.iter().filter(|dir| eggo_bundles::dst::check(dir).is_err()) {
            if !dir.starts_with('/') {
                top.reader().at(node, format!("`cni-bin-dir` names `{dir}`, which is not an absolute path"));
            } else if dir.split('/').any(|part| part == "..") {
                top.reader().at(node, format!("`cni-bin-dir` names `{dir}`, which contains `..`"));
            } else if !PACKAGED_CNI.contains(&dir.as_str()) {
                warnings.at(node, format!("`cni-bin-dir` names `{dir}`, where no item can be installed"));
            }
        }
        if network.cni_bin_dirs.is_empty() {
            network.cni_bin_dirs.push(defaults::CNI_BIN_DIR.to_string());
        }
    }
    network
}

pub(super) fn check(top: &Fields<'_>, config: &Config, warnings: &Warnings) {
    let reader = top.reader();
    let place = top.node("service").or(top.node("dns-vip"));
    let fail = |message: String| match place {
        Some(node) => reader.at(node, message),
        None => reader.problem(eggo_yaml::Problem::new(1, 1, message)),
    };
    let Service { cidr, dns, gateway } = &config.service;
    let pods = &config.network.pod_cidr;
    if !cidr.contains(*dns) {
        fail(format!("the DNS address {dns} is outside of `service.cidr` {cidr}"));
    }
    if !cidr.contains(*gateway) {
        fail(format!("`service.gateway` {gateway} is outside of `service.cidr` {cidr}"));
    }
    if dns == gateway {
        fail(format!("the DNS address and `service.gateway` are both {dns}"));
    } else if *dns == config.service.api() {
        fail(format!("the DNS address {dns} is that of the API's own service, the first of `service.cidr`"));
    }
    let api = config.service.api();
    if *gateway != api
        && let Some(node) = top.fields("service").and_then(|service| service.node("gateway"))
    {
        let message = format!("`service.gateway` is {gateway}, but the API's service gets {api}");
        let hint = "Kubernetes gives it the first address of `service.cidr`; leave the key out";
        warnings.at_hinted(node, message, hint);
    }
    if cidr.overlaps(pods) {
        fail(format!("`service.cidr` {cidr} and `network.podcidr` {pods} overlap"));
    }
    for host in &config.hosts {
        for (network, key) in [(cidr, "service.cidr"), (pods, "network.podcidr")] {
            if network.contains(host.ip) {
                fail(format!("node `{}` ({}) is inside of `{key}` {network}", host.name, host.ip));
            }
        }
    }
}

fn network_at(fields: &Fields<'_>, key: &'static str, warnings: &Warnings) -> Option<Cidr> {
    let node = fields.node(key)?;
    let error = match fields.text(key)?.parse::<Cidr>() {
        Ok(cidr) => return Some(cidr),
        Err(error) => error,
    };
    let message = format!("`{}`: {error}", fields.name(key));
    match error {
        // eggo's own default was 10.244.64.0/16.
        BadCidr::HostBits(_, network) => {
            warnings.at(node, format!("{message}, which is used"));
            Some(network)
        }
        BadCidr::Form(_) => {
            fields.reader().at(node, message);
            None
        }
    }
}

fn texts(fields: &Fields<'_>) -> BTreeMap<String, String> {
    let text = |entry: &eggo_yaml::Entry| fields.reader().text(&entry.node, &fields.name(&entry.key));
    fields.entries().iter().filter_map(|entry| Some((entry.key.clone(), text(entry)?))).collect()
}
