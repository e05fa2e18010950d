//! A node that is the machine that we run on: what is done to a node is then done to us.

use super::Circumstances;
use super::checks::{Found, error, warning};
use crate::cleanup::removed_folder;
use crate::node::Planned;

pub(super) fn check(circumstances: &Circumstances<'_>, node: &Planned<'_>) -> Vec<Found> {
    if !circumstances.this_machine.contains(&node.host.name) {
        return Vec::new();
    }
    let (host, state) = (&node.host, circumstances.state.display());
    let mut found = Vec::new();
    if let Some(folder) = removed_folder(circumstances.state) {
        let message = format!(
            "it is this machine, and a cleanup removes `{folder}` with the cluster's state in it (`{state}`)"
        );
        found.push(error(message + "; choose another --state-dir"));
    }
    let others = circumstances.config.hosts.len() - 1;
    if host.ip.is_loopback() && others > 0 {
        let message =
            format!("no other node reaches it by {}; give it its address in their network", host.ip);
        found.push(error(message));
    } else if host.ip.is_loopback() {
        let message = format!("no other node will ever reach it by {}", host.ip);
        found.push(warning(message));
    }
    let name = match node.facts.hostname == host.name {
        true => String::new(),
        false => format!(" its name becomes `{}`,", host.name),
    };
    let message = format!(
        "it is this machine:{name} /etc/hosts, kernel settings and packages change here too; \
         the cluster's state in `{state}` is not part of the node and stays out of what is undone on it"
    );
    found.push(warning(message));
    found
}
