//! A node's mark: a random word that tells this machine from another one that later answers under
//! the same name, about which the journal knows nothing.

use super::Nodes;
use crate::journal::Record;
use crate::node::Planned;
use crate::paths;
use crate::remote::Command;
use crate::run::{Outcome, Step};
use crate::runtimes::RuntimeKind;
use crate::store::ROOT;
use crate::undo::{self, Undo};
use eggo_errors::Report;

/// Makes sure that the node carries a mark and that the journal speaks of just this machine.
pub(super) async fn claim(all: &Nodes, node: &Planned<'_>) -> Result<Outcome, Report> {
    let (name, journal) = (&node.host.name, all.run.journal());
    let known = journal.mark(name);
    let mark = match &node.facts.mark {
        Some(mark) => mark.clone(),
        None => new_mark()?,
    };
    if known.as_ref() != Some(&mark) {
        journal.append(Record::Mark { node: name.clone(), mark: mark.clone() }).await?;
    }
    let cluster = &all.config.cluster_id;
    let step = step(&mark, cluster);
    let step = if node.facts.mark.is_none() || node.facts.cluster.as_ref() != Some(cluster) {
        step.always()
    } else {
        step
    };
    all.run
        .step(name, step, async |permit| {
            let runtimes = RuntimeKind::all().flat_map(|kind| [kind.service, kind.data]);
            let script = undo::library().and(include_str!("claim.sh")).set("ROOT", ROOT);
            let script = script.set("MARK", &mark).set("CLUSTER", cluster).args(runtimes);
            node.remote.run(Command::change(permit, "claim the node", script)).await?;
            Ok(Outcome::Changed)
        })
        .await
}

/// Everything of ours that no other step removes is in these folders: undone last, because it is done first.
fn step(mark: &str, cluster: &str) -> Step {
    Step::new("node/mark", "claim the node")
        .fingerprint_of([mark, cluster, "accounts"])
        .undo_all([ROOT, paths::KUBECTL].map(Undo::tree))
        .undo(Undo::Accounts)
}

fn new_mark() -> Result<String, Report> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Report::new(format!("no random numbers: {error}")))?;
    Ok(hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::kubectl::{Kubectl, words};
    use crate::remote::fake::Fake;
    use zeroize::Zeroizing;

    #[tokio::test]
    async fn what_kubectl_remembers_goes_with_the_node() {
        let host = Fake::new("m");
        let kubectl = Kubectl::new(&host, "kubectl", Zeroizing::new(String::new()));
        kubectl.run(kubectl.look("list nodes", words(&["get", "nodes"]))).await.unwrap();
        let script = host.scripts().remove(0);
        assert!(script.contains("--cache-dir=\"$FOLDER/"), "{script}");
        let folder = script.lines().find_map(|line| line.strip_prefix("FOLDER=")).unwrap();
        let gone = |undo: &Undo| matches!(undo, Undo::Tree { path } if folder == path);
        assert!(step("mark", "cluster").undo.iter().any(gone), "{folder} stays");
    }
}
