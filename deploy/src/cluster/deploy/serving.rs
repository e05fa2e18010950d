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
const TITLE: &str = "get the kubelet's serving certificate";
const FILE: &str = "/var/lib/kubelet/pki/kubelet-server-current.pem";

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    approve_all(cluster, LIMIT).await.map_err(PhaseError::Whole)?;
    let workers = cluster.with_role(Role::Worker);
    super::on_each(&cluster.run, &workers, |node| Box::pin(has_certificate(cluster, node))).await
}

async fn has_certificate(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    let seconds = LIMIT.as_secs().to_string();
    let script = Script::new([REPEAT]).then(["repeat", &seconds, "test", "-s", FILE]);
    let _waits = cluster.run.waits_for([node.host.name.as_str()], TITLE);
    node.remote.run(Command::look(TITLE, script).timeout(LIMIT + Duration::from_secs(30))).await?;
    Ok(())
}

/// Approves what is asked for now, and goes on until every worker has its certificate. That a request of a node was
/// approved says nothing: it may be one that its kubelet made before it was started again, and waits for no more.
pub async fn approve_all(cluster: &Cluster, limit: Duration) -> Result<(), Report> {
    let mut missing: Vec<&Node> = cluster.standing(Role::Worker).collect();
    let kubectl = cluster.kubectl().await?;
    let (end, mut left) = (Instant::now() + limit, BTreeSet::new());
    loop {
        approve_pending(cluster, &kubectl, &mut left).await?;
        missing = without_certificate(cluster, missing).await?;
        if missing.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            for node in missing {
                let text = "its kubelet has no serving certificate, and asks for none";
                cluster.run.event(Event::warning(Some(&node.host.name), text));
            }
            return Ok(());
        }
        // One that was just approved is fetched within seconds.
        let script = wait_for_others(SERVING, &left, Duration::from_secs(3));
        let _waits = cluster.run.waits_for(missing.iter().map(|node| node.host.name.as_str()), TITLE);
        kubectl.run(kubectl.look("wait for certificate requests", script)).await?;
    }
}

/// Approves the requests of this cluster's nodes; others are told of once, and `left` alone.
async fn approve_pending(
    cluster: &Cluster,
    kubectl: &Kubectl<'_>,
    left: &mut BTreeSet<String>,
) -> Result<(), Report> {
    let list = kubectl.json("list certificate requests", "csr").await?;
    let mut names = Vec::new();
    for request in pending(&list).into_iter().filter(|request| request.signer == SERVING) {
        match judge_serving(&cluster.config, &request) {
            Verdict::Approve(_) => names.push(request.name),
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
    Ok(())
}

/// Those whose kubelets have no serving certificate that the cluster accepts.
async fn without_certificate<'a>(cluster: &Cluster, nodes: Vec<&'a Node>) -> Result<Vec<&'a Node>, Report> {
    let authority = cluster.pki()?.authority(AuthorityName::Cluster);
    let mut missing = Vec::new();
    for node in nodes {
        let script = Script::new([include_str!("certificate_of.sh")]).set("FILE", FILE);
        let output = node.remote.run(Command::look("look at the serving certificate", script)).await?;
        let found = Certificate::parse("kubelet-server", &output.stdout);
        if !found.is_ok_and(|found| authority.issued(&found) && found.not_after > Timestamp::now()) {
            missing.push(node);
        }
    }
    Ok(missing)
}
