//! The end of a deploy: every node Ready.

use crate::cluster::{Cluster, kubectl};
use crate::config::DnsKind;
use crate::phases::{Failure, PhaseError};
use crate::remote::Script;
use eggo_bundles::Role;
use eggo_errors::Report;
use serde_json::Value;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    let workers = cluster.with_role(Role::Worker);
    let names: Vec<&str> = workers
        .iter()
        .map(|node| node.host.name.as_str())
        .filter(|name| !cluster.run.has_failed(name))
        .collect();
    wait(cluster, &names, LIMIT).await?;
    if let DnsKind::Pod { .. } = cluster.config.dns.kind {
        let kubectl = cluster.kubectl().await.map_err(PhaseError::Whole)?;
        let _waits = cluster.run.waits_for([kubectl.host().name()], "roll out coredns");
        let words = ["-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=300s"];
        kubectl
            .run(kubectl.look("wait for coredns", kubectl::words(&words)))
            .await
            .map_err(PhaseError::Whole)?;
    }
    Ok(())
}

/// Waits until the nodes are Ready; says of each that is not what it lacks.
pub async fn wait(cluster: &Cluster, names: &[&str], limit: Duration) -> Result<(), PhaseError> {
    if names.is_empty() {
        return Ok(());
    }
    let kubectl = cluster.kubectl().await.map_err(PhaseError::Whole)?;
    let script = Script::new([include_str!("ready.sh")]).set("LIMIT", limit.as_secs().to_string());
    let command = kubectl.look("wait for the nodes", script.args(names.iter().copied()));
    let command = command.timeout(limit + Duration::from_secs(60));
    let waits = cluster.run.waits_for(names.iter().copied(), "become Ready");
    let output = kubectl.run(command).await.map_err(PhaseError::Whole)?;
    drop(waits);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let mut failures = Vec::new();
    for name in names {
        let items = list["items"].as_array().into_iter().flatten();
        let found = items.clone().find(|item| item["metadata"]["name"] == **name);
        let conditions = found.and_then(|node| node["status"]["conditions"].as_array());
        let ready = conditions.and_then(|list| list.iter().find(|entry| entry["type"] == "Ready"));
        let report = match (found, ready) {
            (None, _) => Report::new("it did not join the cluster"),
            (_, Some(condition)) if condition["status"] == "True" => continue,
            (_, condition) => {
                let message = condition.and_then(|condition| condition["message"].as_str());
                Report::new("it is not Ready")
                    .note(message.unwrap_or("its kubelet has not said why"))
                    .note("`journalctl -u kubelet` there says more; `systemctl restart kubelet` may fix it")
            }
        };
        failures.push(Failure { node: name.to_string(), report });
    }
    if failures.is_empty() {
        return Ok(());
    }
    failures.iter().for_each(|failure| cluster.run.mark_failed(&failure.node));
    Err(PhaseError::Nodes(failures))
}
