//! Ports that the node's firewall must let in, with whatever firewall runs there; without one there
//! is nothing to open. Only ports that were closed are opened, and only those are closed again.

use crate::components;
use crate::config::Port;
use crate::facts::Facts;
use crate::node::Planned;
use crate::nodes::Nodes;
use crate::remote::Command;
use crate::run::{Outcome, Step};
use crate::undo::{self, Firewall, Undo};
use eggo_errors::Report;

/// The one that runs.
fn running(facts: &Facts) -> Option<Firewall> {
    if facts.runs("firewalld") {
        return Some(Firewall::Firewalld);
    }
    if facts.runs("ufw") || (facts.has("ufw") && facts.enabled_services.contains("ufw")) {
        return Some(Firewall::Ufw);
    }
    let nftables = facts.has("nft") && facts.enabled_services.contains("nftables");
    nftables.then_some(Firewall::Nftables)
}

pub(super) async fn open(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    let Some(firewall) = running(&node.facts) else { return Ok(()) };
    let ports: Vec<String> = components::ports(&all.config, &node.host).iter().map(Port::to_string).collect();
    if ports.is_empty() {
        return Ok(());
    }
    let title = format!("open {} ports in {}", ports.len(), firewall.as_str());
    let step = Step::new("system/ports", title.clone())
        .fingerprint_of(std::iter::once(firewall.as_str()).chain(ports.iter().map(String::as_str)))
        .undo(Undo::FirewallPorts { firewall });
    let work = async |permit| {
        let script =
            undo::call(["open_ports", firewall.as_str()].into_iter().chain(ports.iter().map(String::as_str)));
        node.remote.run(Command::change(permit, title, script)).await?;
        Ok(Outcome::Changed)
    };
    all.run.step(&node.host.name, step, work).await.map(|_| ())
}
