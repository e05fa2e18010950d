//! Serving certificates of the kubelets, when the cluster is to sign them. Nobody in the cluster approves
//! them, new ones in place of old ones neither: every run does that, and `certs renew`.

use super::requests::{SERVING, Verdict, judge_serving, pending, wait_for_others};
use crate::cluster::Cluster;
use crate::cluster::context::Node;
use crate::cluster::kubectl::{self, Kubectl, REPEAT};
use crate::events::Event;
use crate::phases::PhaseError;
use crate::pki::{AuthorityName, Certificate};
use crate::remote::{Command, Script};
use crate::run::{Outcome, Step};
use eggo_bundles::Role;
use eggo_errors::Report;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub const LIMIT: Duration = Duration::from_secs(120);
const FILE: &str = "/var/lib/kubelet/pki/kubelet-server-current.pem";

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    approve_all(cluster, LIMIT).await.map_err(PhaseError::Whole)?;
    let workers = cluster.with_role(Role::Worker);
    super::on_each(&cluster.run, &workers, |node| Box::pin(has_certificate(cluster, node))).await
}

async fn has_certificate(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    let seconds = LIMIT.as_secs().to_string();
    let script = Script::new([REPEAT]).then(["repeat", &seconds, "test", "-s", FILE]);
    let title = "get the kubelet's serving certificate";
    let _waits = cluster.run.waits_for([node.host.name.as_str()], title);
    node.remote.run(Command::look(title, script).timeout(LIMIT + Duration::from_secs(30))).await?;
    Ok(())
}

/// Approves what is asked for now, and goes on until every worker that lacks its certificate has asked.
pub async fn approve_all(cluster: &Cluster, limit: Duration) -> Result<(), Report> {
    let mut missing = without_certificate(cluster).await?;
    let kubectl = cluster.kubectl().await?;
    let (end, mut left) = (Instant::now() + limit, BTreeSet::new());
    loop {
        let approved = approve_pending(cluster, &kubectl, &mut left).await?;
        missing.retain(|node| !approved.contains(node));
        if missing.is_empty() || Instant::now() >= end {
            return Ok(());
        }
        let script = wait_for_others(SERVING, &left, Duration::from_secs(20));
        kubectl.run(kubectl.look("wait for certificate requests", script)).await?;
    }
}

/// Approves the requests of this cluster's nodes; returns the nodes. Others are told of once, and `left` alone.
async fn approve_pending(
    cluster: &Cluster,
    kubectl: &Kubectl<'_>,
    left: &mut BTreeSet<String>,
) -> Result<Vec<String>, Report> {
    let list = kubectl.json("list certificate requests", "csr").await?;
    let (mut names, mut nodes) = (Vec::new(), Vec::new());
    for request in pending(&list).into_iter().filter(|request| request.signer == SERVING) {
        match judge_serving(&cluster.config, &request) {
            Verdict::Approve(node) => {
                nodes.push(node);
                names.push(request.name);
            }
            Verdict::Leave(reason) if left.insert(request.name) => {
                let text = format!("certificate request left alone: {reason}");
                cluster.run.event(Event::warning(None, text));
            }
            Verdict::Leave(_) => {}
        }
    }
    if !names.is_empty() {
        let words = [["certificate", "approve"].map(String::from).to_vec(), names].concat();
        let title = "approve certificate requests";
        let step = Step::new("kubelet/serving", title).fingerprint_of(&words).always();
        let work = async |permit| {
            kubectl.run(kubectl.change(permit, title, kubectl::words(&words))).await?;
            Ok(Outcome::Changed)
        };
        cluster.run.step(kubectl.host().name(), step, work).await?;
    }
    Ok(nodes)
}

/// The workers whose kubelets have no serving certificate that the cluster accepts.
async fn without_certificate(cluster: &Cluster) -> Result<Vec<String>, Report> {
    let authority = cluster.pki()?.authority(AuthorityName::Cluster);
    let mut missing = Vec::new();
    for node in cluster.standing(Role::Worker) {
        let script = Script::new([include_str!("certificate_of.sh")]).set("FILE", FILE);
        let output = node.remote.run(Command::look("look at the serving certificate", script)).await?;
        let found = Certificate::parse("kubelet-server", &output.stdout);
        if !found.is_ok_and(|found| authority.issued(&found) && found.not_after > Timestamp::now()) {
            missing.push(node.host.name.clone());
        }
    }
    Ok(missing)
}
