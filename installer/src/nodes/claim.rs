//! A node's mark: a random word that tells this machine from another one that later answers under
//! the same name, about which the journal knows nothing.

use super::{Node, Nodes};
use crate::journal::{Record, Undo};
use crate::remote::{Command, mounts, quote, runtimes};
use crate::run::{Outcome, Step};
use crate::store::ROOT;
use eggo_terminal::Report;

/// Makes sure that the node carries a mark and that the journal speaks of just this machine.
pub(super) async fn claim(all: &Nodes, node: &Node) -> Result<Outcome, Report> {
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
    // Everything of ours lies below: undone last, because it is done first.
    let step =
        Step::new("node/mark", "claim the node").fingerprint_of([&mark, cluster]).undo(Undo::tree(ROOT));
    let step = if node.facts.mark.is_none() || node.facts.cluster.as_ref() != Some(cluster) {
        step.always()
    } else {
        step
    };
    all
        .run
        .step(name, step, || async {
            let (mark, cluster) = (quote(&mark), quote(cluster));
            let script = format!(
                "umask 077; mkdir -p {ROOT}; cd {ROOT}\n{}\n{}\n\
                 echo {mark} > mark.new; mv mark.new mark; echo {cluster} > cluster.new; mv cluster.new cluster",
                mounts::note(),
                runtimes::note()
            );
            node.remote.run(Command::sh("claim the node", script)).await?;
            Ok(Outcome::Changed)
        })
        .await
}

fn new_mark() -> Result<String, Report> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Report::new(format!("no random numbers: {error}")))?;
    Ok(hex::encode(bytes))
}
