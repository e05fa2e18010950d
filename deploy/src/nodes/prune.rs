//! The node's store after a whole install: what this one and the one before it need stays, so that a
//! way back and a delta need nothing sent again.

use super::Nodes;
use crate::node::Planned;
use crate::remote::Command;
use crate::run::{Outcome, Step};
use crate::store;
use eggo_errors::Report;
use std::collections::BTreeSet;

/// Removes what is needed no more. Our folder goes as a whole on cleanup: there is nothing to undo.
pub(super) async fn prune(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    let items = node.plan.items.iter().filter(|wanted| wanted.item.link.is_none());
    let needed: BTreeSet<String> = items.map(|wanted| wanted.item.sha256.hex()).collect();
    let step = Step::new("store/prune", "tidy the store").fingerprint_of(&needed).always();
    let work = async |permit| {
        let list: String = needed.iter().map(|digest| format!("{digest}\n")).collect();
        let command = Command::change(permit, "tidy the store", store::prune_script()).stdin(list);
        let removed = node.remote.run(command).await?.text();
        Ok(Outcome::changed_if(!removed.is_empty()))
    };
    all.run.step(&node.host.name, step, work).await.map(|_| ())
}
