//! What Kubernetes wants of the system below it: the host's name, names of the other nodes, kernel
//! modules and settings, open ports. What was there before is kept and comes back on cleanup.

mod firewall;
mod hosts;
mod kernel;

use super::Nodes;
use crate::node::Planned;
use crate::remote::Command;
use crate::run::{Outcome, Step};
use crate::undo::{self, Undo};
use eggo_errors::Report;

/// Does all of it on one node.
pub(super) async fn prepare(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    hostname(all, node).await?;
    hosts::write(all, node).await?;
    kernel::set(all, node).await?;
    firewall::open(all, node).await
}

async fn hostname(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    let (name, old) = (&node.host.name, &node.facts.hostname);
    if name == old {
        return Ok(());
    }
    let step = Step::new("system/hostname", "set the hostname")
        .fingerprint(name.clone())
        .undo(Undo::Hostname { was: old.clone() })
        .always();
    let work = async |permit| {
        let script = undo::call(["set_hostname", name]);
        node.remote.run(Command::change(permit, "set the hostname", script)).await?;
        Ok(Outcome::Changed)
    };
    all.run.step(name, step, work).await.map(|_| ())
}
