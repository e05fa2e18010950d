//! The user's scripts, on the nodes of their role.

use crate::cluster::Cluster;
use crate::cluster::context::Node;
use crate::config::{Hook, Schedule};
use crate::events::Event;
use crate::phases::PhaseError;
use crate::remote::{Command, quote};
use crate::run::{Outcome, Step};
use eggo_bundles::Role;
use eggo_terminal::Report;

pub fn any(cluster: &Cluster, schedule: Schedule) -> bool {
    cluster.config.hooks.iter().any(|hook| hook.schedule == schedule)
}

/// Runs the hooks of a schedule. `operator` is the command that the user gave: deploy, join…
pub async fn run(cluster: &Cluster, schedule: Schedule, operator: &'static str) -> Result<(), PhaseError> {
    for hook in cluster.config.hooks.iter().filter(|hook| hook.schedule == schedule) {
        let nodes = cluster.with_role(hook.role);
        super::on_each(&cluster.run, &nodes, |node| Box::pin(one(cluster, node, hook, operator))).await?;
    }
    Ok(())
}

async fn one(cluster: &Cluster, node: &Node, hook: &Hook, operator: &str) -> Result<(), Report> {
    let script = cluster.shelf.file(&hook.name, node.host.arch)?.ok_or_else(|| {
        Report::new(format!("the hook `{}` is not in the bundle", hook.name))
            .note(format!("named in deploy.yaml line {}", hook.line))
    })?;
    let id = format!("hook/{}/{}/{}", hook.schedule, hook.role, hook.name);
    let step = Step::new(id, format!("run the hook {}", hook.name)).fingerprint_of([&script]);
    let work = || async {
        let output = node.remote.run(command(cluster, node, hook, operator, script.clone())).await?;
        let words = output.text();
        if !words.is_empty() {
            let text = format!("{}: {words}", hook.name);
            cluster.run.event(Event::note(Some(&node.host.name), text));
        }
        Ok(Outcome::Changed)
    };
    cluster.run.step(&node.host.name, step, work).await?;
    Ok(())
}

/// The script comes through standard input and runs as a file of its own, so that its first line
/// decides what it is written in; it and what it started are ended when its time is over.
fn command(cluster: &Cluster, node: &Node, hook: &Hook, operator: &str, script: Vec<u8>) -> Command {
    let config = &cluster.config;
    let role = if hook.role == Role::Worker { "worker" } else { hook.role.as_str() };
    let environment = [
        ("EGGO_CLUSTER_ID", config.cluster_id.clone()),
        ("EGGO_CLUSTER_API_ENDPOINT", config.api.endpoint.to_string()),
        ("EGGO_CLUSTER_CONFIG_DIR", crate::cluster::paths::KUBERNETES.to_string()),
        ("EGGO_NODE_IP", node.host.ip.to_string()),
        ("EGGO_NODE_NAME", node.host.name.clone()),
        ("EGGO_NODE_ARCH", node.host.arch.to_string()),
        ("EGGO_NODE_ROLE", role.to_string()),
        ("EGGO_HOOK_TYPE", hook.schedule.to_string()),
        ("EGGO_OPERATOR", operator.to_string()),
    ];
    let exports: String =
        environment.iter().map(|(name, value)| format!("export {name}={}\n", quote(value))).collect();
    let seconds = hook.timeout.as_secs().max(1);
    // Not on /run, which may forbid execution.
    let text = format!(
        "umask 077; mkdir -p /var/lib/eggo; d=$(mktemp -d /var/lib/eggo/hook.XXXXXX); trap 'rm -rf \"$d\"' EXIT\n\
         cat > \"$d/hook\"; chmod 0700 \"$d/hook\"; head -c 2 \"$d/hook\" | grep -q '#!' || sed -i '1i #!/bin/sh' \"$d/hook\"\n\
         umask 022; cd /\n{exports}timeout -k 5 {seconds} \"$d/hook\" 2>&1 </dev/null || {{ s=$?\n\
         [ $s -ne 124 ] || echo 'it took longer than {seconds} s' >&2; exit $s; }}\n"
    );
    Command::sh(format!("run the hook {}", hook.name), text)
        .stdin(script)
        .timeout(hook.timeout + std::time::Duration::from_secs(30))
        .once()
}
