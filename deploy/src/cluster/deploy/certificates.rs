//! What the control machine keeps of a cluster: authorities and leaves, the administrator's
//! kubeconfig, and the config, without its password.

use crate::cluster::Cluster;
use crate::events::Event;
use crate::phases::PhaseError;
use crate::pki::Certificate;
use crate::pki::folder::{Reuse, certificates};
use crate::state::{self, Folder, Name, State};
use eggo_errors::{Count, Report};
use std::path::Path;

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    let made = cluster.on_disk(make).await.map_err(PhaseError::Whole)?;
    if made > 0 {
        let certificates = Count(made, "certificate", "certificates");
        cluster.run.event(Event::note(None, format!("made {certificates} on this machine")));
        cluster.run.count_changes(made);
    }
    Ok(())
}

/// How many certificates were made.
fn make(cluster: &Cluster) -> Result<usize, Report> {
    let before = known(cluster)?;
    for node in &cluster.nodes {
        for row in cluster.rows(&node.host) {
            cluster.leaf(&node.host, row.path)?;
        }
    }
    write_admin(cluster, Reuse::WhenGood)?;
    state::save(&cluster.state, &cluster.config)?;
    Ok(known(cluster)?.iter().filter(|certificate| !before.contains(certificate)).count())
}

/// The certificates on this machine, none before the first of them.
fn known(cluster: &Cluster) -> Result<Vec<(String, Certificate)>, Report> {
    let root = Folder::new(&cluster.state).pki();
    if root.exists() { Ok(certificates(&root)?) } else { Ok(Vec::new()) }
}

/// A new certificate of the administrator.
pub async fn renew_admin(cluster: &Cluster) -> Result<(), Report> {
    cluster.on_disk(|cluster| write_admin(cluster, Reuse::Never)).await
}

fn write_admin(cluster: &Cluster, reuse: Reuse) -> Result<(), Report> {
    cluster.keep_admin(reuse)?;
    let text = cluster.admin_kubeconfig(&cluster.endpoint())?;
    put(&cluster.state, &Name::Admin, text.as_bytes())
}

fn put(state: &Path, name: &Name, bytes: &[u8]) -> Result<(), Report> {
    let state = Folder::new(state);
    let path = state.path(name);
    state.put(name, bytes).map_err(|error| Report::new(format!("cannot write `{}`: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Node;
    use crate::cluster::context::Bare;
    use crate::events::{Event, Sink};
    use crate::journal::Journal;
    use crate::remote::fake::Fake;
    use crate::run::Run;
    use std::sync::{Arc, Mutex};

    #[derive(Default)]
    struct Notes(Mutex<Vec<String>>);

    impl Sink for Notes {
        fn event(&self, event: Event) {
            if let Event::Note { text, .. } = event {
                self.0.lock().unwrap().push(text);
            }
        }
    }

    #[tokio::test]
    async fn certificates_that_were_made_are_counted_once() {
        let text = "masters: [{name: m, ip: 192.168.7.1, arch: amd64}]\n\
                    workers: [{name: w, ip: 192.168.7.2, arch: amd64}]\n\
                    install: {package-source: {type: bundle}}\n";
        let config = Arc::new(crate::config::parse("d.yaml", text.as_bytes()).unwrap().config);
        let folder = tempfile::tempdir().unwrap();
        let notes = Arc::new(Notes::default());
        let made = async || {
            let run = Arc::new(Run::new(Journal::open(folder.path()).unwrap(), notes.clone()));
            let nodes =
                config.hosts.iter().map(|host| Node::new(host.clone(), Arc::new(Fake::new(&host.name))));
            let state = folder.path().to_path_buf();
            let cluster = Cluster::new(config.clone(), nodes.collect(), run, Arc::new(Bare), state);
            super::run(&cluster).await.unwrap();
            cluster.run.changed()
        };
        let first = made().await;
        let there = certificates(&Folder::new(folder.path()).pki()).unwrap().len();
        assert!(first > 5 && first == there, "{first} of {there}");
        assert_eq!(*notes.0.lock().unwrap(), [format!("made {first} certificates on this machine")]);
        assert_eq!(made().await, 0);
        assert_eq!(notes.0.lock().unwrap().len(), 1, "no news");
    }
}
