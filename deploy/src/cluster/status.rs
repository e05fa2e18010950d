//! How a cluster is: nodes, components, etcd, certificates, versions, and where it differs from
//! deploy.yaml. Nothing is changed.

use super::certs;
use super::context::{ClusterView, Node};
use super::deploy::etcd::{is_healthy, members};
use super::flags::{client_url, peer_url};
use crate::components;
use eggo_bundles::Role;
use eggo_errors::Report;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub cluster: String,
    pub endpoint: String,
    pub nodes: Vec<NodeStatus>,
    pub etcd: Vec<Member>,
    pub certificates: Vec<certs::Line>,
    /// Where the cluster is not what deploy.yaml says, and what needs attention.
    pub findings: Vec<String>,
    /// What to do where a node was not reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    pub name: String,
    pub ip: String,
    pub arch: String,
    pub roles: Vec<String>,
    /// It answers over SSH.
    pub reachable: bool,
    /// As the API says; none for nodes without a kubelet.
    pub ready: Option<bool>,
    pub kubelet: Option<String>,
    /// systemd's word on each component.
    pub components: BTreeMap<String, String>,
    /// What the programs say of themselves.
    pub versions: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub node: String,
    /// None where its node was not reached.
    pub healthy: Option<bool>,
}

impl Status {
    /// Nothing is down and nothing differs.
    pub fn is_well(&self) -> bool {
        self.findings.is_empty()
    }
}

pub async fn gather(cluster: &ClusterView) -> Result<Status, Report> {
    let config = &cluster.config;
    let mut status =
        Status { cluster: config.cluster_id.clone(), endpoint: cluster.endpoint(), ..Status::default() };
    let looks = cluster.nodes.iter().map(|node| look(cluster, node)).collect();
    let looks = cluster.limits.each(looks).await;
    for (node, lost) in looks {
        if let Some(report) = lost {
            status.hint = status.hint.or(report.hint);
            status.findings.push(report.message);
        }
        status.nodes.push(node);
    }
    let reached: Vec<&Node> = cluster
        .nodes
        .iter()
        .zip(&status.nodes)
        .filter(|(_, found)| found.reachable)
        .map(|(node, _)| node)
        .collect();
    match api_nodes(cluster, &reached).await {
        Ok(list) => compare(&mut status, &list),
        Err(report) => status.findings.push(format!("the API does not answer: {}", report.message)),
    }
    etcd(cluster, &reached, &mut status).await;
    status.certificates = certs::status(cluster, &reached).await?;
    status.findings.extend(status.certificates.iter().filter_map(certs::Line::finding));
    status.hint = status.hint.or_else(|| certs::advice(&status.certificates));
    for node in &status.nodes {
        for (component, state) in node.components.iter().filter(|(_, state)| *state != "active") {
            status.findings.push(format!("{}: {component} is {state}", node.name));
        }
    }
    Ok(status)
}

/// What a node says of itself, or why it was not reached.
async fn look(cluster: &ClusterView, node: &Node) -> (NodeStatus, Option<Report>) {
    let host = &node.host;
    let mut found = NodeStatus {
        name: host.name.clone(),
        ip: host.ip.to_string(),
        arch: host.arch.to_string(),
        roles: host.roles.iter().map(|role| role.as_str().to_string()).collect(),
        ..NodeStatus::default()
    };
    let facts = match node.facts(&cluster.config).await {
        Ok(facts) => facts,
        Err(report) => return (found, Some(report)),
    };
    found.reachable = true;
    for name in components::services(&cluster.config, host) {
        let state = facts.states.get(name).map_or("unknown", String::as_str);
        found.components.insert(name.into(), state.into());
    }
    for (name, program) in &facts.programs {
        if let Some(version) = program.version {
            found.versions.insert(name.clone(), version.to_string());
        }
    }
    (found, None)
}

/// From any master that answers.
async fn api_nodes(cluster: &ClusterView, reached: &[&Node]) -> Result<Value, Report> {
    let mut last = Report::new("no master was reached");
    for master in reached.iter().filter(|node| node.host.has(Role::Master)) {
        let asked = async { cluster.kubectl_on(master).await?.json("list the nodes", "nodes").await };
        match asked.await {
            Ok(list) => return Ok(list),
            Err(report) => last = report,
        }
    }
    Err(last)
}

/// The API's nodes against those of deploy.yaml.
fn compare(status: &mut Status, list: &Value) {
    let items: Vec<&Value> = list["items"].as_array().into_iter().flatten().collect();
    for node in &mut status.nodes {
        if !node.roles.iter().any(|role| role == Role::Worker.as_str()) {
            continue;
        }
        let Some(item) = items.iter().find(|item| item["metadata"]["name"] == node.name) else {
            status.findings.push(format!("{}: is in deploy.yaml, but not in the cluster", node.name));
            node.ready = Some(false);
            continue;
        };
        let conditions = item["status"]["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
        node.ready = Some(ready.any(|condition| condition["status"] == "True"));
        let info = &item["status"]["nodeInfo"];
        node.kubelet = info["kubeletVersion"].as_str().map(|text| text.trim_start_matches('v').to_string());
        if node.ready == Some(false) {
            status.findings.push(format!("{}: is not Ready", node.name));
        }
        if item["spec"]["unschedulable"] == true {
            status.findings.push(format!("{}: takes no new pods (it was cordoned)", node.name));
        }
        if let Some(arch) = info["architecture"].as_str().filter(|arch| *arch != node.arch) {
            status.findings.push(format!("{}: is {arch}, and {} in deploy.yaml", node.name, node.arch));
        }
    }
    for item in items {
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        if !status.nodes.iter().any(|node| node.name == name) {
            status.findings.push(format!("{name}: is in the cluster, but not in deploy.yaml"));
        }
    }
    let mut versions: Vec<&str> = status.nodes.iter().filter_map(|node| node.kubelet.as_deref()).collect();
    versions.sort_unstable();
    versions.dedup();
    if versions.len() > 1 {
        status.findings.push(format!("kubelets of different versions: {}", versions.join(", ")));
    }
}

async fn etcd(cluster: &ClusterView, reached: &[&Node], status: &mut Status) {
    if cluster.config.etcd.external.is_some() {
        return;
    }
    let etcds = cluster.with_role(Role::Etcd);
    let asked = futures::future::join_all(etcds.iter().map(|node| async {
        let healthy = match reached.iter().any(|one| one.host.name == node.host.name) {
            true => is_healthy(node, &client_url(&node.host)).await,
            false => None,
        };
        Member { node: node.host.name.clone(), healthy }
    }));
    status.etcd = asked.await;
    for member in status.etcd.iter().filter(|member| member.healthy == Some(false)) {
        status.findings.push(format!("{}: its etcd is not healthy", member.node));
    }
    let Some(first) = etcds.iter().find(|node| {
        status.etcd.iter().any(|member| member.healthy == Some(true) && member.node == node.host.name)
    }) else {
        return;
    };
    if let Ok(listed) = members(first).await {
        for member in &listed {
            if !etcds.iter().any(|node| member.peer_urls.contains(&peer_url(&node.host))) {
                status.findings.push(format!("{}: is a member of etcd, but not in deploy.yaml", member.name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_and_read_back() {
        let node = NodeStatus {
            name: "m".into(),
            ready: Some(true),
            components: BTreeMap::from([("kubelet".into(), "active".into())]),
            ..NodeStatus::default()
        };
        let line = certs::Line {
            node: None,
            name: "ca".into(),
            subject: "CN=kubernetes".into(),
            issuer: "CN=kubernetes".into(),
            expires: "2036-01-01".into(),
            days: 3650,
            state: certs::Validity::Good,
            authority: true,
        };
        let status = Status {
            cluster: "one".into(),
            nodes: vec![node, NodeStatus::default()],
            etcd: vec![Member { node: "m".into(), healthy: None }],
            certificates: vec![line.clone(), certs::Line { node: Some("m".into()), ..line }],
            findings: vec!["w: cannot be reached".into()],
            hint: Some("start it".into()),
            ..Status::default()
        };
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
    }
}
