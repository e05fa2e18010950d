use super::*;
use crate::cluster::Shelf;
use crate::config;
use crate::events::Silent;
use crate::journal::Journal;
use crate::remote::Host;
use crate::remote::fake::Fake;
use eggo_bundles::Arch;
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

const DEPLOY: &str = "\
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

/// A master with data, on which all goes well.
fn master_node(name: &str) -> Fake {
    let programs: String =
        PROGRAMS.iter().map(|name| format!("program {name} /usr/bin/{name} v1.21.0\n")).collect();
    let digests: String =
        PROGRAMS.iter().map(|name| format!("{}  /usr/bin/{name}\n", "a".repeat(64))).collect();
    Fake::new(name)
        .on("look at the installed programs", &format!("{programs}etcd-data\n"))
        .on("look at the programs", &digests)
}

struct Nothing;

impl Shelf for Nothing {
    fn addon(&self, _: &str) -> Result<Option<String>, Report> {
        Ok(None)
    }

    fn file(&self, _: &str, _: Arch) -> Result<Option<Vec<u8>>, Report> {
        Ok(None)
    }

    fn images(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Install for Nothing {
    fn install<'a>(&'a self, _: &'a Node) -> Work<'a> {
        Box::pin(async { Ok(()) })
    }

    fn is_in_place(&self, _: &Node) -> bool {
        false
    }
}

/// A cluster of the nodes of deploy.yaml that there are.
fn cluster(folder: &Path, deploy: &str, fakes: &[&Arc<Fake>]) -> Cluster {
    let config = config::parse("deploy.yaml", deploy.as_bytes()).unwrap().config;
    let nodes = config.hosts.iter().filter_map(|host| {
        let fake = fakes.iter().find(|fake| fake.name() == host.name)?;
        Some(Node::new(host.clone(), Arc::clone(fake) as Arc<dyn Host>))
    });
    let nodes = nodes.collect();
    let run = Arc::new(Run::new(Journal::open(folder).unwrap(), Arc::new(Silent)));
    Cluster::new(Arc::new(config), nodes, run, Arc::new(Nothing), folder.to_path_buf())
}

async fn turn_of(cluster: &Cluster, name: &str) -> Report {
    let node = cluster.node(name).unwrap();
    let former = Former::of(cluster, node).await.unwrap();
    master(cluster, node, &Nothing, &former).await.unwrap_err()
}

fn given_back(fake: &Fake) -> String {
    fake.scripts().into_iter().find(|script| script.contains("kept/previous")).unwrap()
}

#[tokio::test]
async fn an_etcd_that_works_does_not_go_back() {
    let folder = tempfile::tempdir().unwrap();
    let m = Arc::new(master_node("m").fails_once("start kube-apiserver", "no such flag"));
    let report = turn_of(&cluster(folder.path(), DEPLOY, &[&m]), "m").await;
    assert!(report.message.contains("could not start kube-apiserver"), "{report}");
    assert!(report.hint.unwrap().contains("but for etcd"));
    let script = given_back(&m);
    assert!(script.contains("/usr/bin/kube-apiserver") && !script.contains("/usr/bin/etcd"), "{script}");

    let folder = tempfile::tempdir().unwrap();
    let m = Arc::new(master_node("m").fails_once("start etcd", "no such flag"));
    let report = turn_of(&cluster(folder.path(), DEPLOY, &[&m]), "m").await;
    assert!(report.message.contains("could not start etcd"), "{report}");
    let script = given_back(&m);
    assert!(script.contains("/usr/bin/kube-apiserver") && script.contains("/usr/bin/etcdctl"), "{script}");
}
