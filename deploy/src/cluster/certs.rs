//! Certificates after the deploy: how long they last, and new ones without a pause.

use super::context::{Cluster, ClusterView, Node};
use super::deploy::{control_plane, dns, etcd, serving, workers};
use super::etcd_data;
use crate::config::DnsKind;
use crate::phases::{Failure, PhaseError};
use crate::pki::{Certificate, folder::Reuse};
use crate::remote::Command;
use eggo_bundles::Role;
use eggo_errors::Report;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// From here on `status` warns.
pub const WARN_DAYS: i64 = 30;

/// One line of `certs status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Where it is: a node's name, or nothing for the control machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub name: String,
    pub subject: String,
    pub issuer: String,
    pub expires: String,
    pub days: i64,
    pub authority: bool,
}

impl Line {
    fn new(node: Option<String>, name: String, certificate: &Certificate, now: Timestamp) -> Self {
        Self {
            node,
            name,
            subject: certificate.common_name.clone(),
            issuer: certificate.issuer.clone(),
            expires: certificate.not_after.strftime("%Y-%m-%d").to_string(),
            days: certificate.days_left(now),
            authority: certificate.is_authority,
        }
    }
}

/// All certificates: those that were made here, and those that the kubelets got from the cluster.
/// Only `asked` nodes are asked; those that cannot be reached are left out.
pub async fn status(cluster: &ClusterView, asked: &[&Node]) -> Result<Vec<Line>, Report> {
    let now = Timestamp::now();
    let mut lines = Vec::new();
    for (path, certificate) in cluster.pki()?.certificates()? {
        let (node, name) = match path.strip_prefix("nodes/").and_then(|rest| rest.split_once('/')) {
            Some((node, name)) => (Some(node.to_string()), name.to_string()),
            None => (None, path),
        };
        lines.push(Line::new(node, name, &certificate, now));
    }
    let workers = asked.iter().filter(|node| node.host.has(Role::Worker));
    let asked = futures::future::join_all(workers.map(|node| async {
        let script = "for n in client server; do f=/var/lib/kubelet/pki/kubelet-$n-current.pem; [ -e $f ] || continue\n\
                      echo \"file kubelet-$n\"; sed -n '/BEGIN CERT/,/END CERT/p' $f; done";
        let output = node.remote.run(Command::sh("read the kubelet's certificates", script)).await.ok()?;
        Some((node.host.name.clone(), output.text()))
    }));
    for (node, text) in asked.await.into_iter().flatten() {
        for part in text.split("file ").filter(|part| !part.trim().is_empty()) {
            let (name, pem) = part.split_once('\n').unwrap_or((part, ""));
            if let Ok(certificate) = Certificate::parse(name, pem.as_bytes()) {
                lines.push(Line::new(Some(node.clone()), name.to_string(), &certificate, now));
            }
        }
    }
    Ok(lines)
}

/// New leaves for every node, or for those in `only`; one node after the other, each working again
/// before the next. What kubelets ask the cluster for is approved.
pub async fn renew(cluster: &Cluster, only: &[String]) -> Result<(), PhaseError> {
    etcd_data::backup_before(cluster, "renew").await.map_err(PhaseError::Whole)?;
    for node in &cluster.nodes {
        let name = &node.host.name;
        if !only.is_empty() && !only.contains(name) {
            continue;
        }
        cluster.run.stop().check().map_err(PhaseError::Whole)?;
        renew_one(cluster, name).await.map_err(|report| {
            cluster.run.mark_failed(name);
            PhaseError::Nodes(vec![Failure { node: name.clone(), report }])
        })?;
    }
    if cluster.config.kubelet_serving {
        serving::approve_all(cluster, serving::LIMIT).await.map_err(PhaseError::Whole)?;
    }
    super::deploy::certificates::renew_admin(cluster).map_err(PhaseError::Whole)
}

async fn renew_one(cluster: &Cluster, name: &str) -> Result<(), Report> {
    let Some(node) = cluster.node(name) else { return Ok(()) };
    node.facts(&cluster.config).await?;
    for row in cluster.rows(&node.host) {
        cluster.pki()?.leaf(Some(name), &row, Reuse::Never, Timestamp::now())?;
    }
    if node.host.has(Role::Etcd) && cluster.config.etcd.external.is_none() {
        etcd::again(cluster, node).await?;
    }
    if node.host.has(Role::Master) {
        control_plane::start(cluster, node).await?;
        if cluster.config.dns.kind == DnsKind::Binary {
            dns::start(cluster, node).await?;
        }
    }
    if node.host.has(Role::Worker) {
        workers::refresh(cluster, node).await?;
    }
    Ok(())
}
