//! The hooks around joining, out of the bundle.

use crate::cluster::Cluster;
use crate::cluster::context::Node;
use crate::config::{Hook, Schedule};
use crate::hooks::Hooks;
use crate::phases::PhaseError;
use eggo_errors::Report;

/// Runs the hooks of a schedule.
pub async fn run(cluster: &Cluster, schedule: Schedule) -> Result<(), PhaseError> {
    let hooks = Hooks { config: &cluster.config, run: &cluster.run, operator: cluster.run.command() };
    for hook in cluster.config.hooks.iter().filter(|hook| hook.schedule == schedule) {
        let nodes = cluster.with_role(hook.role);
        super::on_each(&cluster.run, &nodes, |node| Box::pin(one(cluster, node, hooks, hook))).await?;
    }
    Ok(())
}

async fn one(cluster: &Cluster, node: &Node, hooks: Hooks<'_>, hook: &Hook) -> Result<(), Report> {
    let (name, arch) = (hook.name.clone(), node.host.arch);
    let script = cluster.from_shelf(move |shelf| shelf.file(&name, arch)).await?.ok_or_else(|| {
        Report::new(format!("the hook `{}` is not in the bundle", hook.name))
            .note(format!("named in deploy.yaml line {}", hook.line))
    })?;
    hooks.run_on(&node.host, &*node.remote, hook, script).await
}
