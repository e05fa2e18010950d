//! New certificates, also where all have expired.

use crate::cluster::context::{Cluster, Node};
use crate::cluster::deploy::{certificates, control_plane, dns, etcd, on_each, ready, serving, workers};
use crate::cluster::etcd_data;
use crate::config::DnsKind;
use crate::events::Event;
use crate::phases::{Failure, PhaseError};
use crate::pki::folder::Reuse;
use eggo_bundles::Role;
use eggo_errors::Report;
use jiff::Timestamp;
use std::time::Duration;

/// How long nodes may take to be Ready again.
const READY: Duration = Duration::from_secs(180);

/// New leaves for every node, or for those in `only`: members of etcd, masters and workers, one after the other, each
/// working again before the next. Where everything has expired, all members of etcd get theirs first, for none of them
/// works alone. A node that cannot be reached is left out and named at the end.
pub async fn renew(cluster: &Cluster, only: &[String]) -> Result<(), PhaseError> {
    let wanted: Vec<&Node> =
        cluster.nodes.iter().filter(|node| only.is_empty() || only.contains(&node.host.name)).collect();
    let mut failures = unreachable(cluster, &wanted).await?;
    let with_role = |role| {
        let nodes = wanted.iter().copied().filter(move |node| node.host.has(role));
        nodes.filter(|node| !cluster.run.has_failed(&node.host.name)).collect::<Vec<_>>()
    };
    let rows = wanted.iter().filter(|node| !cluster.run.has_failed(&node.host.name));
    let members = members(cluster).await;
    let answers = members.is_empty() || etcd::any_answers(&members).await;
    let make = || -> Result<(), Report> {
        for node in rows {
            for row in cluster.rows(&node.host) {
                cluster.pki()?.leaf(Some(&node.host.name), &row, Reuse::Never, Timestamp::now())?;
            }
        }
        Ok(())
    };
    if answers {
        etcd_data::backup_before(cluster, "renew").await.map_err(PhaseError::Whole)?;
        make().map_err(PhaseError::Whole)?;
    } else {
        note(cluster, "etcd does not answer: its data is copied from the disks of its members");
        let copies = etcd_data::copy(cluster, &members, "renew").await.map_err(PhaseError::Whole)?;
        for backup in copies {
            note(cluster, format!("copy of etcd's data: {}", backup.path.display()));
        }
        make().map_err(PhaseError::Whole)?;
        note(cluster, "all members of etcd get new certificates at once: none of them works alone");
        etcd::give_certificates(cluster, &members).await?;
    }
    let one = |node: &Node, report| {
        cluster.run.mark_failed(&node.host.name);
        PhaseError::Nodes(vec![Failure { node: node.host.name.clone(), report }])
    };
    if cluster.config.etcd.external.is_none() {
        for node in sick_first(with_role(Role::Etcd)).await {
            etcd::again(cluster, node).await.map_err(|report| one(node, report))?;
        }
    }
    for node in with_role(Role::Master) {
        renew_master(cluster, node).await.map_err(|report| one(node, report))?;
    }
    certificates::renew_admin(cluster).await.map_err(PhaseError::Whole)?;
    let workers = with_role(Role::Worker);
    for node in &workers {
        cluster.run.stop().check().map_err(PhaseError::Whole)?;
        if let Err(report) = workers::renew(cluster, node).await {
            cluster.run.mark_failed(&node.host.name);
            failures.push(Failure { node: node.host.name.clone(), report });
        }
    }
    if cluster.config.kubelet_serving {
        serving::approve_all(cluster, serving::LIMIT).await.map_err(PhaseError::Whole)?;
    }
    let names: Vec<&str> = with_role(Role::Worker).iter().map(|node| node.host.name.as_str()).collect();
    match ready::wait(cluster, &names, READY).await {
        Err(PhaseError::Nodes(late)) => failures.extend(late),
        other => other?,
    }
    if failures.is_empty() { Ok(()) } else { Err(PhaseError::Nodes(failures)) }
}

fn note(cluster: &Cluster, text: impl Into<String>) {
    cluster.run.event(Event::note(None, text));
}

/// Those that do not answer over SSH: they are left alone.
async fn unreachable(cluster: &Cluster, nodes: &[&Node]) -> Result<Vec<Failure>, PhaseError> {
    let asked = on_each(&cluster.run, nodes, |node| {
        Box::pin(async { node.facts(&cluster.config).await.map(|_| ()) })
    });
    match asked.await {
        Ok(()) => Ok(Vec::new()),
        // Nothing is left to do.
        Err(PhaseError::Nodes(failures)) if failures.len() < nodes.len() => Ok(failures),
        Err(error) => Err(error),
    }
}

/// The members of our own etcd that have data and can be reached.
async fn members(cluster: &Cluster) -> Vec<&Node> {
    let mut members = Vec::new();
    if cluster.config.etcd.external.is_none() {
        for node in cluster.with_role(Role::Etcd) {
            if node.facts(&cluster.config).await.is_ok_and(|facts| facts.etcd_data) {
                members.push(node);
            }
        }
    }
    members
}

/// The members that do not work come first: with them there are more than half while another one restarts.
async fn sick_first(members: Vec<&Node>) -> Vec<&Node> {
    let asked =
        futures::future::join_all(members.iter().map(|node| etcd::is_healthy(node, etcd::LOCAL))).await;
    let (well, mut order): (Vec<_>, Vec<_>) =
        members.into_iter().zip(asked).partition(|(_, healthy)| *healthy == Some(true));
    order.extend(well);
    order.into_iter().map(|(node, _)| node).collect()
}

async fn renew_master(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    cluster.run.stop().check()?;
    control_plane::start(cluster, node).await?;
    if cluster.config.dns.kind == DnsKind::Binary {
        dns::start(cluster, node).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::context::Bare;
    use crate::events::Silent;
    use crate::journal::Journal;
    use crate::remote::fake::Fake;
    use crate::run::Run;
    use crate::state::{Folder, Name, State as _};
    use eggo_bundles::Digest;
    use std::sync::Arc;

    const DATA: &str = "the data of etcd";
    const LOOK: &str = "@@ uname\nLinux\nn\n6.1\nx86_64\n@@ programs\netcd /e Version: 3.4.23\netcdctl /c x\n\
                        @@ etcd-data\nyes\n@@ end\n";

    /// Members of an etcd with data, of which only those `well` answer.
    fn cluster(state: &std::path::Path, names: &[&str], well: &[&str]) -> (Cluster, Vec<Arc<Fake>>) {
        let hosts: Vec<String> = (1..)
            .zip(names)
            .map(|(index, name)| format!("{{name: {name}, ip: 192.168.7.{index}, arch: amd64}}"))
            .collect();
        let text = format!(
            "masters: [{0}]\nworkers: [{1}]\ninstall: {{package-source: {{type: bundle}}}}\n",
            hosts.join(", "),
            hosts[0]
        );
        let config = Arc::new(crate::config::parse("d.yaml", text.as_bytes()).unwrap().config);
        let digest = Digest::of(DATA.as_bytes());
        let fakes = names.iter().map(|name| {
            let fake = Fake::new(*name)
                .on("look at the node", LOOK)
                .on("copy the data of etcd", &format!("{digest}  file\n"))
                .on("take a snapshot of etcd", &format!("{digest}  file\n"))
                .on("fetch the snapshot", DATA);
            let fake =
                if well.contains(name) { fake } else { fake.fails("ask etcd for its health", 1, "expired") };
            Arc::new(fake)
        });
        let fakes: Vec<Arc<Fake>> = fakes.collect();
        let hosts = names.iter().zip(&fakes);
        let nodes =
            hosts.map(|(name, fake)| Node::new(config.host(name).unwrap().clone(), fake.clone())).collect();
        let run = Arc::new(Run::new(Journal::open(state).unwrap(), Arc::new(Silent)));
        (Cluster::new(config, nodes, run, Arc::new(Bare), state.to_path_buf()), fakes)
    }

    fn backups(state: &std::path::Path) -> Vec<Vec<u8>> {
        let state = Folder::new(state);
        let names = state.list().unwrap().into_iter().filter(|name| matches!(name, Name::Backup(_)));
        names.map(|name| state.get(&name).unwrap().unwrap()).collect()
    }

    fn place(story: &[String], what: &str) -> Option<usize> {
        story.iter().position(|line| line == what)
    }

    /// One that restarts alone would wait for the others for ever.
    #[tokio::test]
    async fn where_no_member_answers_all_are_copied_and_get_certificates_before_any_restarts() {
        for names in [&["a"][..], &["a", "b", "c"]] {
            let folder = tempfile::tempdir().unwrap();
            let (cluster, fakes) = cluster(folder.path(), names, &[]);
            // The masters lack an apiserver: etcd was there before.
            let PhaseError::Nodes(failures) = renew(&cluster, &[]).await.unwrap_err() else { panic!() };
            assert!(failures[0].report.message.contains("kube-apiserver"), "{failures:?}");
            for fake in &fakes {
                let story = fake.story();
                assert_eq!(place(&story, "take a snapshot of etcd"), None);
                let copied = place(&story, "copy the data of etcd").unwrap();
                let given = place(&story, "write /etc/kubernetes/pki/etcd/server.crt").unwrap();
                let started = place(&story, "start etcd").unwrap();
                assert!(copied < given && given < started, "{story:?}");
            }
            let snapshot = [DATA.as_bytes(), Digest::of(DATA.as_bytes()).as_bytes()].concat();
            assert_eq!(backups(folder.path()), vec![snapshot; names.len()]);
        }
    }

    #[tokio::test]
    async fn a_member_that_does_not_answer_comes_before_those_that_do() {
        let folder = tempfile::tempdir().unwrap();
        let (cluster, fakes) = cluster(folder.path(), &["a", "b", "c"], &["a", "b"]);
        let members = sick_first(cluster.nodes.iter().collect()).await;
        assert_eq!(members.iter().map(|node| node.host.name.as_str()).collect::<Vec<_>>(), ["c", "a", "b"]);
        renew(&cluster, &[]).await.unwrap_err();
        for fake in &fakes {
            assert_eq!(place(&fake.story(), "copy the data of etcd"), None);
        }
        assert_eq!(backups(folder.path()), [DATA.as_bytes()], "a snapshot");
    }

    #[tokio::test]
    async fn a_node_that_cannot_be_reached_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let (cluster, _) = cluster(folder.path(), &["a", "b", "c"], &["a", "b"]);
        let gone = Arc::new(Fake::new("c").fails("look at the node", 255, "gone"));
        let mut nodes = cluster.view.nodes;
        nodes[2] = Node::new(nodes[2].host.clone(), gone.clone());
        let cluster =
            Cluster::new(cluster.view.config, nodes, cluster.run, cluster.shelf, cluster.view.state);
        let nodes: Vec<&Node> = cluster.nodes.iter().collect();
        assert_eq!(unreachable(&cluster, &nodes).await.unwrap()[0].node, "c");
        assert!(unreachable(&cluster, &nodes[2..]).await.is_ok(), "it has failed already");
    }
}
