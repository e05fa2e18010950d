//! New certificates, also where all have expired.

use crate::cluster::context::{Cluster, Node};
use crate::cluster::deploy::{
    certificates, control_plane, dns, etcd, failed_on, on_each, ready, serving, workers,
};
use crate::cluster::etcd_data;
use crate::config::DnsKind;
use crate::events::Event;
use crate::phases::{Failure, PhaseError};
use crate::pki::folder::Reuse;
use eggo_bundles::Role;
use eggo_errors::Report;
use jiff::Timestamp;
use std::time::Duration;
use tokio::sync::OnceCell;

/// How long nodes may take to be Ready again.
const READY: Duration = Duration::from_secs(180);

/// A renewal under way: members of etcd, masters and workers, one after the other, each working again before the next.
/// Where everything has expired, all members of etcd get new certificates first, for none of them works alone.
pub struct Renewal {
    pub cluster: Cluster,
    /// The names of the nodes whose certificates are renewed.
    names: Vec<String>,
    /// Whether etcd answered before any of its members got another certificate.
    answers: OnceCell<bool>,
}

impl Renewal {
    /// Of all nodes where `names` is empty.
    pub fn new(cluster: Cluster, names: Vec<String>) -> Self {
        Self { cluster, names, answers: OnceCell::new() }
    }

    /// Those that do not answer over SSH are left alone, and named at the end.
    pub async fn look(&self) -> Result<(), PhaseError> {
        let nodes = self.wanted();
        let asked = on_each(&self.cluster.run, &nodes, |node| {
            Box::pin(async { node.facts(&self.cluster.config).await.map(|_| ()) })
        });
        match asked.await {
            // Nothing is left to do.
            Err(PhaseError::Nodes(failures)) if failures.len() == nodes.len() => {
                Err(PhaseError::Whole(PhaseError::Nodes(failures).report("Look at the nodes")))
            }
            other => other,
        }
    }

    fn wanted(&self) -> Vec<&Node> {
        let wanted = |node: &&Node| self.names.is_empty() || self.names.contains(&node.host.name);
        self.cluster.nodes.iter().filter(wanted).collect()
    }

    fn standing(&self, role: Role) -> impl Iterator<Item = &Node> {
        let nodes = self.wanted().into_iter().filter(move |node| node.host.has(role));
        nodes.filter(|node| !self.cluster.run.has_failed(&node.host.name))
    }

    /// The members of our own etcd that have data and can be reached.
    async fn members(&self) -> Vec<&Node> {
        let cluster = &self.cluster;
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

    async fn answers(&self) -> bool {
        let asked = self.answers.get_or_init(|| async {
            let members = self.members().await;
            members.is_empty() || etcd::any_answers(&members).await
        });
        *asked.await
    }

    /// A snapshot of etcd; where it does not answer, its data as it is on the disks of its members.
    pub async fn back_up(&self) -> Result<(), PhaseError> {
        let cluster = &self.cluster;
        if self.answers().await {
            return etcd_data::backup_before(cluster, "renew").await.map_err(PhaseError::Whole);
        }
        self.note("etcd does not answer: its data is copied from the disks of its members");
        let copies = etcd_data::copy(cluster, &self.members().await, "renew").await;
        for backup in copies.map_err(PhaseError::Whole)? {
            self.note(format!("copy of etcd's data: {}", backup.path.display()));
        }
        Ok(())
    }

    /// On this machine.
    pub async fn make(&self) -> Result<(), PhaseError> {
        let wanted = self.wanted().into_iter().map(|node| node.host.clone());
        let wanted: Vec<_> = wanted.filter(|host| !self.cluster.run.has_failed(&host.name)).collect();
        let make = move |cluster: &Cluster| -> Result<(), Report> {
            for host in &wanted {
                for row in cluster.rows(host) {
                    cluster.pki()?.leaf(Some(&host.name), &row, Reuse::Never, Timestamp::now())?;
                }
            }
            Ok(())
        };
        self.cluster.on_disk(make).await.map_err(PhaseError::Whole)
    }

    pub async fn etcd(&self) -> Result<(), PhaseError> {
        let cluster = &self.cluster;
        if !self.answers().await {
            self.note("all members of etcd get new certificates at once: none of them works alone");
            etcd::give_certificates(cluster, &self.members().await).await?;
        }
        for node in sick_first(self.standing(Role::Etcd).collect()).await {
            let again = etcd::again(cluster, node).await;
            again.map_err(|report| failed_on(&cluster.run, &node.host.name, report))?;
        }
        Ok(())
    }

    pub async fn masters(&self) -> Result<(), PhaseError> {
        let cluster = &self.cluster;
        for node in self.standing(Role::Master) {
            let renewed = renew_master(cluster, node).await;
            renewed.map_err(|report| failed_on(&cluster.run, &node.host.name, report))?;
        }
        certificates::renew_admin(cluster).await.map_err(PhaseError::Whole)
    }

    /// One that fails does not keep the others from theirs.
    pub async fn workers(&self) -> Result<(), PhaseError> {
        let cluster = &self.cluster;
        let mut failures = Vec::new();
        for node in self.standing(Role::Worker) {
            cluster.run.stop().check().map_err(PhaseError::Whole)?;
            if let Err(report) = workers::renew(cluster, node).await {
                failures.push(Failure { node: node.host.name.clone(), report });
            }
        }
        cluster.run.leave_out(&failures);
        if failures.is_empty() { Ok(()) } else { Err(PhaseError::Nodes(failures)) }
    }

    /// What the kubelets ask for.
    pub async fn approve(&self) -> Result<(), PhaseError> {
        serving::approve_all(&self.cluster, serving::LIMIT).await.map_err(PhaseError::Whole)
    }

    pub async fn ready(&self) -> Result<(), PhaseError> {
        let names: Vec<&str> = self.standing(Role::Worker).map(|node| node.host.name.as_str()).collect();
        ready::wait(&self.cluster, &names, READY).await
    }

    fn note(&self, text: impl Into<String>) {
        self.cluster.run.event(Event::note(None, text));
    }
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
    use crate::phases::{Selection, run_list};
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

    async fn renew(cluster: Cluster) -> Result<(), Report> {
        let renewal = Renewal::new(cluster, Vec::new());
        run_list(&crate::operation::renew_phases(), &Selection::default(), &renewal).await
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
            let report = renew(cluster).await.unwrap_err();
            assert!(report.notes[0].contains("kube-apiserver"), "{report}");
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
        renew(cluster).await.unwrap_err();
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
        let renewal = Renewal::new(cluster, Vec::new());
        let PhaseError::Nodes(failures) = renewal.look().await.unwrap_err() else { panic!() };
        assert_eq!(failures.iter().map(|failure| failure.node.as_str()).collect::<Vec<_>>(), ["c"]);
        let standing: Vec<&str> = renewal.standing(Role::Etcd).map(|node| node.host.name.as_str()).collect();
        assert_eq!(standing, ["a", "b"]);

        drop(renewal);
        let (cluster, _) = self::cluster(folder.path(), &["a"], &[]);
        let alone = vec![Node::new(cluster.nodes[0].host.clone(), gone)];
        let Cluster { view, run, shelf } = cluster;
        let cluster = Cluster::new(view.config, alone, run, shelf, view.state);
        let PhaseError::Whole(report) = Renewal::new(cluster, Vec::new()).look().await.unwrap_err() else {
            panic!("there is nothing left to do")
        };
        assert_eq!(report.code.as_str(), "nodes-failed");
    }
}
