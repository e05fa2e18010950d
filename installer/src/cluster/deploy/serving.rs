//! Serving certificates of the kubelets, when the cluster is to sign them.

use super::requests::{Verdict, judge_serving, pending};
use crate::cluster::Cluster;
use crate::cluster::context::Node;
use crate::cluster::kubectl::until;
use crate::events::Event;
use crate::phases::PhaseError;
use crate::remote::{Command, words};
use eggo_bundles::Role;
use eggo_terminal::Report;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
const FILE: &str = "/var/lib/kubelet/pki/kubelet-server-current.pem";

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    approve_all(cluster, LIMIT).await.map_err(PhaseError::Whole)?;
    let workers = cluster.with_role(Role::Worker);
    super::on_each(&cluster.run, &workers, |node| Box::pin(has_certificate(node))).await
}

async fn has_certificate(node: &Node) -> Result<(), Report> {
    let script = until(&format!("[ -s {FILE} ]"), LIMIT);
    let title = "get the kubelet's serving certificate";
    node.remote.run(Command::sh(title, script).timeout(LIMIT + Duration::from_secs(30))).await?;
    Ok(())
}

/// Approves what is asked for until every worker that lacks its certificate has asked.
pub async fn approve_all(cluster: &Cluster, limit: Duration) -> Result<Vec<String>, Report> {
    let mut missing = Vec::new();
    for node in cluster.with_role(Role::Worker) {
        if cluster.run.has_failed(&node.host.name) {
            continue;
        }
        let there = node
            .remote
            .run(Command::sh("look for the serving certificate", format!("[ -s {FILE} ]")).unchecked());
        if !there.await?.success() {
            missing.push(node.host.name.clone());
        }
    }
    let kubectl = cluster.kubectl().await?;
    let end = Instant::now() + limit;
    let mut approved = Vec::new();
    while !missing.is_empty() && Instant::now() < end {
        let wait = "kubectl get csr --no-headers | grep -w kubelet-serving | grep -qw Pending";
        let script = format!("{}\n", until_or_not(wait, Duration::from_secs(20)));
        kubectl.run("wait for certificate requests", &script).await?;
        let list = kubectl.json("list certificate requests", "csr").await?;
        let mut names = Vec::new();
        for request in pending(&list) {
            match judge_serving(&cluster.config, &request) {
                Verdict::Approve(node) => {
                    missing.retain(|name| *name != node);
                    names.push(request.name);
                }
                Verdict::Leave(reason) => {
                    cluster
                        .run
                        .event(Event::warning(None, format!("certificate request left alone: {reason}")));
                }
            }
        }
        if !names.is_empty() {
            let script = format!("kubectl certificate approve {} >/dev/null", words(&names));
            kubectl.run("approve certificate requests", &script).await?;
            approved.extend(names);
        }
    }
    Ok(approved)
}

/// As [`until`], but running out of time is no error.
fn until_or_not(check: &str, limit: Duration) -> String {
    format!("( {} ) >/dev/null 2>&1 || :", until(check, limit))
}
