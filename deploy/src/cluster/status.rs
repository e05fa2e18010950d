//! How a cluster is: nodes, components, etcd, certificates, versions, and where it differs from
//! deploy.yaml. Nothing is changed.

use super::certs;
use super::context::{ClusterView, Node};
use super::deploy::etcd::{is_healthy, members};
use super::flags::{client_url, peer_url};
use super::paths;
use crate::blocking::blocking;
use crate::components;
use crate::nodes::absent_images;
use crate::remote::Command;
use crate::state;
use eggo_bundles::{Image, Role};
use eggo_errors::{Count, Report};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Conditions of a node that are bad when they are true.
const TROUBLES: [&str; 4] = ["DiskPressure", "MemoryPressure", "PIDPressure", "NetworkUnavailable"];
/// Images that a finding names.
const MOST_NAMED: usize = 3;

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
    /// What the API says is wrong with it: `DiskPressure`, and the kubelet's words on it.
    #[serde(default)]
    pub conditions: BTreeMap<String, String>,
    /// Mounts that a node must be able to write to, and cannot.
    #[serde(default)]
    pub read_only: BTreeSet<String>,
    /// Images that it was given from the bundle, and that its container runtime does not have.
    #[serde(default)]
    pub missing_images: Vec<String>,
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
    let folder = cluster.state.clone();
    let images = blocking(move || state::images(&folder)).await?;
    let given = |node: &Node| images.get(&node.host.name).map_or(&[][..], Vec::as_slice);
    let looks = cluster.nodes.iter().map(|node| look(cluster, node, given(node))).collect();
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
    status.findings.extend(status.nodes.iter().flat_map(NodeStatus::findings));
    status.hint = status.hint.or_else(|| advice(&status.nodes));
    Ok(status)
}

impl NodeStatus {
    /// What is wrong with it by its own words; what the API says comes with the comparison.
    fn findings(&self) -> Vec<String> {
        let name = &self.name;
        let down = self.components.iter().filter(|(_, state)| *state != "active");
        let mut findings: Vec<String> =
            down.map(|(component, state)| format!("{name}: {component} is {state}")).collect();
        findings.extend(self.read_only.iter().map(|mount| format!("{name}: `{mount}` is mounted read-only")));
        if !self.missing_images.is_empty() {
            let images = Count(self.missing_images.len(), "image", "images");
            let named = self.missing_images[..self.missing_images.len().min(MOST_NAMED)].join(", ");
            let more = match self.missing_images.len().saturating_sub(MOST_NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            findings.push(format!("{name}: lacks {images} of the bundle: {named}{more}"));
        }
        findings
    }
}

/// One thing to do about nodes that lack something.
fn advice(nodes: &[NodeStatus]) -> Option<String> {
    if let Some(node) = nodes.iter().find(|node| !node.read_only.is_empty()) {
        return Some(format!("`dmesg` on {} says why its disk is read-only", node.name));
    }
    let lacks_images = nodes.iter().any(|node| !node.missing_images.is_empty());
    lacks_images.then(|| "run the install again with the cluster's bundle: it loads what is missing".into())
}

/// What a node says of itself, or why it was not reached. `images` are those that it was given.
async fn look(cluster: &ClusterView, node: &Node, images: &[Arc<Image>]) -> (NodeStatus, Option<Report>) {
    let (host, runtime) = (&node.host, cluster.config.runtime.kind);
    let mut found = NodeStatus {
        name: host.name.clone(),
        ip: host.ip.to_string(),
        arch: host.arch.to_string(),
        roles: host.roles.iter().map(|role| role.as_str().to_string()).collect(),
        ..NodeStatus::default()
    };
    // At the same time: no round trip more.
    let listed = async {
        match images {
            [] => None,
            _ => Some(node.remote.run(Command::look("list images", runtime.call("list_images"))).await),
        }
    };
    let (facts, listed) = futures::future::join(node.facts(&cluster.config), listed).await;
    let facts = match facts {
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
    let etcd = host.has(Role::Etcd).then_some(paths::ETCD_DATA);
    let mounts = ["/", "/var"].into_iter().chain(etcd).filter_map(|folder| facts.mount(folder));
    found.read_only = mounts.filter(|mount| mount.read_only).map(|mount| mount.path.clone()).collect();
    // A runtime that is down lists nothing, and is a finding itself.
    let works = found.components.get(runtime.service).is_some_and(|state| state == "active");
    match listed.filter(|_| works) {
        Some(Ok(list)) => {
            let absent = absent_images(runtime, images, &list.text());
            found.missing_images = absent.into_iter().map(|image| image.name.clone()).collect();
            (found, None)
        }
        Some(Err(error)) => (found, Some(error.into())),
        None => (found, None),
    }
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
        let is_true =
            |kind: &str| conditions.clone().find(|entry| entry["type"] == kind && entry["status"] == "True");
        node.ready = Some(is_true("Ready").is_some());
        for kind in TROUBLES {
            if let Some(condition) = is_true(kind) {
                let message = condition["message"].as_str().unwrap_or_default();
                status.findings.push(format!("{}: {kind}: {message}", node.name));
                node.conditions.insert(kind.into(), message.into());
            }
        }
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
            conditions: BTreeMap::from([("DiskPressure".into(), "kubelet has disk pressure".into())]),
            read_only: ["/var".to_string()].into(),
            missing_images: vec!["pause:3.9".into()],
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

    #[test]
    fn what_the_api_says_is_wrong_with_a_node_is_a_finding() {
        let list = serde_json::json!({"items": [{
            "metadata": {"name": "w"},
            "status": {"conditions": [
                {"type": "MemoryPressure", "status": "False", "message": "enough"},
                {"type": "DiskPressure", "status": "True", "message": "kubelet has disk pressure"},
                {"type": "NetworkUnavailable", "status": "True", "message": "no route"},
                {"type": "Ready", "status": "True", "message": "ready"},
            ]},
        }]});
        let node = NodeStatus { name: "w".into(), roles: vec!["worker".into()], ..NodeStatus::default() };
        let mut status = Status { nodes: vec![node], ..Status::default() };
        compare(&mut status, &list);
        assert_eq!(status.nodes[0].ready, Some(true));
        assert_eq!(
            status.findings,
            ["w: DiskPressure: kubelet has disk pressure", "w: NetworkUnavailable: no route"]
        );
        assert_eq!(status.nodes[0].conditions.len(), 2);
    }

    /// A worker whose root is read-only, with one image of two.
    async fn looked_at(runtime: &str) -> (Vec<String>, NodeStatus, usize) {
        let text = "masters: [{name: m, ip: 192.168.7.1, arch: amd64}]\n\
                    workers: [{name: w, ip: 192.168.7.2, arch: amd64}]\nruntime: containerd\n\
                    install: {package-source: {type: bundle}}\n";
        let config = Arc::new(crate::config::parse("d.yaml", text.as_bytes()).unwrap().config);
        // In the order in which they are asked for.
        let services = components::TABLE.into_iter().filter_map(|component| component.name());
        let services = services.chain(crate::runtimes::RuntimeKind::all().map(|kind| kind.service));
        let state = |name| if name == "containerd" { runtime } else { "active" };
        let states: String = services.map(|name| format!("{}\n", state(name))).collect();
        let facts = format!(
            "@@ clock\n{}\n@@ uname\nLinux\nw\n6.1.0\nx86_64\n@@ disks\n\
             Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda1 90 10 80 2% /\n\
             @@ mounts\n/dev/vda1 / ext4 ro,relatime 0 0\n@@ states\n{states}@@ end\n",
            jiff::Timestamp::now().as_second()
        );
        let image = |name: &str| {
            Arc::new(Image {
                name: name.into(),
                arch: eggo_bundles::Arch::Amd64,
                manifest: eggo_bundles::Digest::of(b"manifest"),
                media_type: String::new(),
                config: eggo_bundles::Digest::of(b"config"),
                layers: vec![],
                roles: vec![],
            })
        };
        let list = format!("docker.io/library/a:1 {}\n", eggo_bundles::Digest::of(b"manifest").oci());
        let fake =
            crate::remote::fake::Fake::new("w").on("look at the node", &facts).on("list images", &list);
        let fake = Arc::new(fake);
        let node = Node::new(config.host("w").unwrap().clone(), fake.clone());
        let view = ClusterView::new(config, Vec::new(), "/nowhere".into(), crate::limits::Limits::default());
        let images = [image("docker.io/library/a:1"), image("docker.io/library/b:2")];
        let (found, lost) = look(&view, &node, &images).await;
        assert_eq!(lost, None);
        (found.findings(), found, fake.calls().len())
    }

    #[tokio::test]
    async fn a_read_only_root_and_missing_images_are_found_in_one_look() {
        let (findings, node, calls) = looked_at("active").await;
        assert_eq!(
            findings,
            ["w: `/` is mounted read-only", "w: lacks 1 image of the bundle: docker.io/library/b:2"]
        );
        assert_eq!(calls, 2, "both at the same time");
        assert!(advice(&[node]).unwrap().contains("dmesg"));
        let (findings, node, _) = looked_at("failed").await;
        assert_eq!(findings, ["w: containerd is failed", "w: `/` is mounted read-only"]);
        assert!(node.missing_images.is_empty(), "nobody knows");
    }
}
