use super::*;
use crate::cluster::context::Bare;
use crate::config;
use crate::events::Silent;
use crate::journal::Journal;
use crate::remote::fake::Fake;
use crate::remote::{Command, Host};
use crate::run::Run;
use eggo_bundles::Digest;
use std::path::Path;
use std::sync::Arc;

fn change(node: &str, text: &str) -> Change {
    Change { node: node.into(), from: text.parse().unwrap() }
}

#[test]
fn versions_follow_each_other() {
    let to = |text: &str| text.parse::<Version>().unwrap();
    assert!(decide(to("1.21.0"), vec![change("m", "1.20.2")], vec![change("w", "1.20.2")]).is_ok());
    let far = decide(to("1.22.0"), vec![change("m", "1.20.2")], vec![]).unwrap_err();
    assert_eq!(far.message, "m: from 1.20.2 to 1.22.0 is more than one minor version");
    let old = decide(to("1.23.0"), vec![change("m", "1.22.0")], vec![change("w", "1.20.2")]).unwrap_err();
    assert!(old.message.starts_with("w: a kubelet 1.20.2 does not work with a control plane 1.23.0"));
    assert!(decide(to("1.20.1"), vec![change("m", "1.20.2")], vec![]).is_err());
}

pub(super) const DEPLOY: &str = "\
cluster-id: one
username: root
password: x
masters:
- {name: m, ip: 10.0.0.1, port: 22, arch: amd64}
workers:
- {name: w, ip: 10.0.0.2, port: 22, arch: amd64}
install: {package-source: {type: bundle}}
";

const PROGRAMS: [&str; 7] =
    ["etcd", "etcdctl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "coredns"];

/// What every node answers.
const UNAME: &str = "@@ uname\nLinux\nhost\n6.1\nx86_64\n";

/// A master with data, on which all goes well.
fn master_node(name: &str) -> Fake {
    let programs: String = PROGRAMS.iter().map(|name| format!("{name} /usr/bin/{name} v1.21.0\n")).collect();
    let digests: String =
        PROGRAMS.iter().map(|name| format!("{}  /usr/bin/{name}\n", "a".repeat(64))).collect();
    Fake::new(name)
        .on("look at the node", &format!("{UNAME}@@ programs\n{programs}@@ etcd-data\nyes\n@@ end\n"))
        .on("look at the programs", &digests)
}

struct Nothing;

impl Install for Nothing {
    fn install<'a>(&'a self, node: &'a Node) -> Work<'a> {
        Box::pin(async {
            node.remote.run(Command::look("install", "")).await?;
            Ok(())
        })
    }

    fn reopen<'a>(&'a self, node: &'a Node) -> Work<'a> {
        Box::pin(async {
            node.remote.run(Command::look("reopen", "")).await?;
            Ok(())
        })
    }

    fn is_in_place(&self, _: &Node) -> bool {
        false
    }
}

/// A cluster of the nodes of deploy.yaml that there are.
pub(super) fn cluster(folder: &Path, deploy: &str, hosts: &[Arc<dyn Host>]) -> Cluster {
    let config = config::parse("deploy.yaml", deploy.as_bytes()).unwrap().config;
    let nodes = config.hosts.iter().filter_map(|host| {
        let remote = hosts.iter().find(|remote| remote.name() == host.name)?;
        Some(Node::new(host.clone(), remote.clone()))
    });
    let nodes = nodes.collect();
    let run = Arc::new(Run::new(Journal::open(folder).unwrap(), Arc::new(Silent)));
    let cluster = Cluster::new(Arc::new(config), nodes, run, Arc::new(Bare), folder.to_path_buf());
    cluster.pki().unwrap();
    cluster
}

/// How the turn of the one master fails.
async fn turn_of(master: Arc<Fake>) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(folder.path(), DEPLOY, &[master]);
    let node = cluster.node("m").unwrap();
    let former = Former::of(&cluster, node).await.unwrap();
    services(&cluster, node, &Nothing, &former).await.unwrap_err()
}

fn given_back(fake: &Fake) -> String {
    fake.scripts().into_iter().find(|script| script.contains("do back \"$1\"")).unwrap()
}

#[tokio::test]
async fn an_etcd_that_works_does_not_go_back() {
    let m = Arc::new(master_node("m").fails_once("start kube-apiserver", "no such flag"));
    let report = turn_of(m.clone()).await;
    assert!(report.message.contains("could not start kube-apiserver"), "{report}");
    assert!(report.hint.unwrap().contains("except for etcd"));
    let story = m.story();
    let at = |title: &str| story.iter().position(|found| found == title).unwrap();
    assert!(at("reopen") < at("put the kept programs back"), "{story:?}");
    let script = given_back(&m);
    assert!(script.contains("/usr/bin/kube-apiserver") && !script.contains("/usr/bin/etcd"), "{script}");

    let m = Arc::new(master_node("m").fails_once("start etcd", "no such flag"));
    let report = turn_of(m.clone()).await;
    assert!(report.message.contains("could not start etcd"), "{report}");
    let script = given_back(&m);
    assert!(script.contains("/usr/bin/kube-apiserver") && script.contains("/usr/bin/etcdctl"), "{script}");
}

#[tokio::test]
async fn a_way_back_that_fails_still_tells_why_it_was_taken() {
    let m = master_node("m")
        .fails_once("start kube-apiserver", "no such flag")
        .fails("start kube-scheduler", 1, "out of memory")
        .on("put the kept programs back", "back /usr/bin/kubectl\nlost /usr/bin/kube-apiserver\n");
    let report = turn_of(Arc::new(m)).await;
    assert!(report.message.contains("start kube-scheduler"), "{report}");
    let notes = report.notes.join("\n");
    assert!(notes.contains("start kube-apiserver") && notes.contains("no such flag"), "{notes}");
    assert!(notes.contains("the node has no former /usr/bin/kube-apiserver"), "{notes}");
}

#[tokio::test]
async fn a_worker_that_cannot_be_drained_nor_opened_tells_both() {
    let folder = tempfile::tempdir().unwrap();
    let m = master_node("m").fails("drain the node", 1, "a budget of disruption").fails(
        "let pods in again",
        1,
        "the API is gone",
    );
    let w = Fake::new("w");
    let cluster = cluster(folder.path(), DEPLOY, &[Arc::new(m), Arc::new(w)]);
    let node = cluster.node("w").unwrap();
    let before = Before { former: Former(Vec::new()), through: false };
    let report = worker(&cluster, node, &Nothing, &before, Options::default()).await.unwrap_err();
    let told = report.to_string();
    assert!(told.contains("the API is gone") && told.contains("a budget of disruption"), "{told}");
}

#[tokio::test]
async fn a_node_that_is_only_the_load_balancer_has_its_turn() {
    let folder = tempfile::tempdir().unwrap();
    let deploy =
        format!("{DEPLOY}loadbalance: {{name: lb, ip: 10.0.0.3, port: 22, arch: amd64, bind-port: 8443}}\n");
    let m = master_node("m")
        .on("take a snapshot of etcd", &Digest::of(b"data").hex())
        .on("fetch the snapshot", "data");
    let lb = Arc::new(
        Fake::new("lb")
            .on("look at the node", &format!("{UNAME}@@ programs\nnginx /usr/sbin/nginx 1\n@@ end\n")),
    );
    let cluster = cluster(folder.path(), &deploy, &[Arc::new(m), lb.clone()]);
    let (before, options) = (Looks::default(), Options::default());
    let rolling = Rolling {
        cluster: &cluster,
        installer: &Nothing,
        to: Version::new(1, 21, 0),
        options,
        before: &before,
    };
    rolling.back_up().await.unwrap();
    rolling.control_plane().await.unwrap();
    rolling.workers().await.unwrap();
    rolling.others().await.unwrap();
    let story = lb.story();
    let at = |title: &str| story.iter().position(|found| found == title).unwrap();
    assert!(at("look at the programs") < at("install") && at("install") < at("start nginx"), "{story:?}");
    assert!(at("start nginx") < at("forget the former programs"), "{story:?}");
}
