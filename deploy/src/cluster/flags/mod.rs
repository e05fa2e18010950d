//! The components' command lines, as tables.
//!
//! Each component has a table of flags; each flag says from which minor version of Kubernetes on
//! it is written, and from which on it is not any more. A new version of Kubernetes changes
//! entries here and nothing else.

mod apiserver;
mod controller_manager;
mod etcd;
mod kubelet;
mod scheduler;

use super::paths;
use crate::config::{Component, Config, Host, defaults};
use crate::facts::Facts;
use crate::version::Version;
use eggo_bundles::Role;

/// What a flag's value may depend on.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub config: &'a Config,
    pub host: &'a Host,
    /// Of the program that gets the flags.
    pub version: Version,
    pub facts: &'a Facts,
}

/// One line of a table.
struct Flag {
    name: &'static str,
    /// The first minor version that gets it.
    since: u16,
    /// The first minor version that does not any more.
    gone: u16,
    /// Its value; none: not on this node.
    value: fn(&Scope<'_>) -> Option<String>,
}

const ALWAYS: u16 = 0;
const NEVER: u16 = u16::MAX;

/// A flag that every version knows.
const fn flag(name: &'static str, value: fn(&Scope<'_>) -> Option<String>) -> Flag {
    Flag { name, since: ALWAYS, gone: NEVER, value }
}

/// A flag that was dropped in a minor version.
const fn until(gone: u16, name: &'static str, value: fn(&Scope<'_>) -> Option<String>) -> Flag {
    Flag { name, since: ALWAYS, gone, value }
}

fn text(value: &str) -> Option<String> {
    Some(value.to_string())
}

/// The flags of `component` as `(name, value)`, the user's own in place of ours or after them.
pub fn of(component: Component, scope: &Scope<'_>) -> Vec<(String, String)> {
    let table = match component {
        Component::Etcd => etcd::TABLE,
        Component::KubeApiserver => apiserver::TABLE,
        Component::KubeControllerManager => controller_manager::TABLE,
        Component::KubeScheduler => scheduler::TABLE,
        Component::Kubelet => kubelet::TABLE,
        Component::KubeProxy => PROXY,
    };
    let minor = scope.version.minor;
    // etcd's own version has nothing to do with that of Kubernetes.
    let known = |flag: &&Flag| component == Component::Etcd || (flag.since <= minor && minor < flag.gone);
    let mut flags: Vec<(String, String)> = table
        .iter()
        .filter(known)
        .filter_map(|flag| Some((flag.name.to_string(), (flag.value)(scope)?)))
        .collect();
    for (name, value) in scope.config.extra_args(component) {
        // kube-proxy reads nearly everything from its file alone once it has one.
        if component == Component::KubeProxy && crate::config::proxy::field_of(name).is_some() {
            continue;
        }
        match flags.iter_mut().find(|(known, _)| known == name) {
            Some(found) => found.1 = value.to_string(),
            None => flags.push((name.to_string(), value.to_string())),
        }
    }
    flags
}

const PROXY: &[Flag] = &[flag("config", |_| text(paths::KUBE_PROXY_CONFIG))];

/// Where the apiservers find etcd.
pub fn etcd_endpoints(config: &Config) -> Vec<String> {
    match &config.etcd.external {
        Some(external) => external.endpoints.clone(),
        None => config.with_role(Role::Etcd).map(client_url).collect(),
    }
}

/// The apiserver on a master.
pub fn api_url(host: &Host) -> String {
    format!("https://{}:{}", bracketed(host), defaults::API_PORT)
}

pub fn client_url(host: &Host) -> String {
    format!("https://{}:2379", bracketed(host))
}

pub fn peer_url(host: &Host) -> String {
    format!("https://{}:2380", bracketed(host))
}

/// The address as it is in a URL.
pub fn bracketed(host: &Host) -> String {
    match host.ip {
        std::net::IpAddr::V4(ip) => ip.to_string(),
        std::net::IpAddr::V6(ip) => format!("[{ip}]"),
    }
}
