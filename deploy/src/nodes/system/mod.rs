//! What Kubernetes wants of the system below it: the host's name, names of the other nodes, kernel
//! modules and settings, open ports. What was there before is kept and comes back on cleanup.

mod firewall;
mod hosts;
mod kernel;

pub use firewall::Firewall;

use super::{Node, Nodes};
use crate::journal::Undo;
use crate::remote::{Command, quote};
use crate::run::{Outcome, Step};
use eggo_errors::Report;

/// Does all of it on one node.
pub(super) async fn prepare(all: &Nodes, node: &Node) -> Result<(), Report> {
    hostname(all, node).await?;
    hosts::write(all, node).await?;
    kernel::set(all, node).await?;
    firewall::open(all, node).await
}

async fn hostname(all: &Nodes, node: &Node) -> Result<(), Report> {
    let (name, old) = (&node.host.name, &node.facts.hostname);
    if name == old {
        return Ok(());
    }
    let set = |name: &str| {
        let name = quote(name);
        format!(
            "hostnamectl set-hostname {name} 2>/dev/null || {{ echo {name} > /etc/hostname; hostname {name}; }}"
        )
    };
    let step = Step::new("system/hostname", "set the hostname")
        .fingerprint(name.clone())
        .undo(Undo::script(format!("set the hostname back to {old}"), set(old)))
        .always();
    let work = || async {
        node.remote.run(Command::sh("set the hostname", set(name))).await?;
        Ok(Outcome::Changed)
    };
    all.run.step(name, step, work).await.map(|_| ())
}
