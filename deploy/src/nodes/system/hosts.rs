//! A block of our own in /etc/hosts with every node's name; the rest of the file is not ours.

use crate::config::Config;
use crate::node::Planned;
use crate::nodes::Nodes;
use crate::remote::Command;
use crate::run::{Outcome, Step};
use crate::undo::{self, Undo};
use eggo_errors::Report;

/// As `add_hosts` finds it again.
fn block(config: &Config) -> String {
    let cluster = &config.cluster_id;
    let lines: String = config.hosts.iter().map(|host| format!("{}\t{}\n", host.ip, host.name)).collect();
    format!("# begin eggo {cluster}\n{lines}# end eggo {cluster}\n")
}

pub(super) async fn write(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    let config = &all.config;
    let block = block(config);
    let step = Step::new("system/hosts", "write /etc/hosts")
        .fingerprint_of([&block])
        .undo(Undo::HostsEntry { cluster: config.cluster_id.clone() });
    let work = async |permit| {
        let script = undo::call(["add_hosts", &config.cluster_id]);
        let command = Command::change(permit, "write /etc/hosts", script).stdin(block.clone());
        let output = node.remote.run(command).await?;
        Ok(Outcome::changed_if(output.text() != "same"))
    };
    all.run.step(&node.host.name, step, work).await.map(|_| ())
}
