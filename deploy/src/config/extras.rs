//! What users add: flags of components, ports of roles.

use super::install::ROLE_KEYS;
use super::model::{Component, Port, Protocol};
use super::proxy;
use super::warnings::Warnings;
use eggo_bundles::Role;
use eggo_yaml::Fields;
use std::collections::BTreeMap;

pub(super) fn extra_args(
    top: &Fields<'_>,
    warnings: &Warnings,
) -> BTreeMap<Component, BTreeMap<String, String>> {
    let reader = top.reader();
    let mut all: BTreeMap<Component, BTreeMap<String, String>> = BTreeMap::new();
    for (i, node) in top.list("config-extra-args").iter().enumerate() {
        let entry = reader.fields(node, format!("config-extra-args[{i}]"));
        let known = Component::ALL.map(Component::as_str).join(", ");
        if entry.node("name").is_none() {
            entry.missing("name");
        }
        let component = entry.parsed::<Component>("name", &format!("one of {known}"));
        if let Some(args) = entry.fields("extra-args") {
            for argument in args.entries() {
                let flag = argument.key.trim_start_matches('-').to_string();
                if flag.is_empty() || flag.contains(|c: char| c.is_control() || "= ".contains(c)) {
                    reader.at(&argument.node, format!("`{}` is not a flag", args.name(&argument.key)));
                    continue;
                }
                let value = match argument.node.is_null() {
                    true => String::new(),
                    false => match reader.text(&argument.node, &args.name(&argument.key)) {
                        Some(text) => text,
                        None => continue,
                    },
                };
                let Some(component) = component else { continue };
                if component == Component::KubeProxy && !proxy::counts(&flag) {
                    let message = format!("kube-proxy reads `--{flag}` only without a file, and it gets one");
                    warnings.at(&argument.node, message);
                }
                if all.entry(component).or_default().insert(flag, value).is_some() {
                    let message = format!("`{}` is given twice for {component}", argument.key);
                    reader.at(&argument.node, message);
                }
            }
        }
        entry.finish();
    }
    all
}

pub(super) fn open_ports(top: &Fields<'_>) -> BTreeMap<Role, Vec<Port>> {
    let mut all: BTreeMap<Role, Vec<Port>> = BTreeMap::new();
    let Some(roles) = top.fields("open-ports") else { return all };
    for (keys, role) in ROLE_KEYS {
        let key = roles.spelled(keys);
        for (i, node) in roles.list(key).iter().enumerate() {
            let entry = top.reader().fields(node, format!("open-ports.{key}[{i}]"));
            if entry.node("port").is_none() {
                entry.missing("port");
            }
            let port = entry.parsed::<std::num::NonZeroU16>("port", "a port number");
            let protocol = entry.parsed::<Protocol>("protocol", "tcp or udp").unwrap_or(Protocol::Tcp);
            entry.finish();
            if let Some(port) = port {
                all.entry(role).or_default().push(Port { port: port.into(), protocol });
            }
        }
    }
    roles.finish();
    all
}
