//! A node's claim: made once, before anything else is changed there, by one state folder. Its mark also tells this
//! machine from another one that later answers under the same name, about which the journal knows nothing.

use super::Nodes;
use crate::claim::{Claim, Held, one_line};
use crate::journal::{Record, now};
use crate::node::Planned;
use crate::paths;
use crate::remote::Command;
use crate::run::{Outcome, Step};
use crate::runtimes::RuntimeKind;
use crate::script::Script;
use crate::store::ROOT;
use crate::undo::{self, Undo};
use eggo_errors::Report;

const STEP: &str = "node/mark";

/// What becomes of a node.
enum Course {
    /// It is ours already.
    Keep(Claim),
    /// Nobody has it.
    Take,
    /// The claim with this mark is replaced.
    Replace(String),
}

/// Makes sure that the node is ours, and that the journal speaks of just this machine. `Some` if another holds it.
pub(super) async fn claim(all: &Nodes, node: &Planned<'_>) -> Result<Option<Claim>, Report> {
    let (name, journal) = (&node.host.name, all.run.journal());
    let cluster = &all.config.cluster_id;
    let course = match node.facts.claim.clone() {
        None => Course::Take,
        Some(held) if journal.holds(&held) => Course::Keep(held),
        Some(held) if all.take_over => Course::Replace(held.mark),
        Some(held) => return Ok(Some(held)),
    };
    let (mark, replaces) = match &course {
        Course::Keep(held) if held.cluster.as_ref() == Some(cluster) => (held.mark.clone(), None),
        Course::Keep(held) => (held.mark.clone(), Some(&held.mark)),
        Course::Take => (new_mark()?, None),
        Course::Replace(held) => (new_mark()?, Some(held)),
    };
    if journal.mark(name).as_ref() != Some(&mark) {
        journal.append(Record::Mark { node: name.clone(), mark: mark.clone() }).await?;
    }
    let step = step(&mark, cluster);
    let step = if matches!(course, Course::Take) || replaces.is_some() { step.always() } else { step };
    let holder = format!("{}:{}", all.operator, journal.folder().display());
    let ours =
        Claim { mark, cluster: Some(cluster.clone()), holder: Some(one_line(&holder)), since: Some(now()) };
    let mut other = None;
    let outcome = all.run.step(name, step, async |permit| {
        let command = Command::change(permit, "claim the node", script(&ours, replaces));
        let text = node.remote.run(command).await?.text();
        other = Claim::parse(&text.lines().collect::<Vec<_>>());
        match &other {
            Some(held) => Err(Held(vec![(name.clone(), held.clone())]).into()),
            None => Ok(Outcome::Changed),
        }
    });
    match (outcome.await, other) {
        (_, Some(held)) => {
            // Nothing of ours is there, so nothing is to be undone.
            let undone = Record::Undone { node: name.clone(), step: STEP.into(), at: now() };
            journal.append(undone).await?;
            Ok(Some(held))
        }
        (outcome, None) => outcome.map(|_| None),
    }
}

fn script(claim: &Claim, replaces: Option<&String>) -> Script {
    let or_none = |value: Option<&String>| value.cloned().unwrap_or_default();
    undo::library()
        .and(include_str!("claim.sh"))
        .set("ROOT", ROOT)
        .set("MARK", &claim.mark)
        .set("CLUSTER", or_none(claim.cluster.as_ref()))
        .set("HOLDER", or_none(claim.holder.as_ref()))
        .set("SINCE", or_none(claim.since.as_ref()))
        .set("REPLACES", or_none(replaces))
        .args(RuntimeKind::all().flat_map(|kind| [kind.service, kind.data]))
}

/// Everything of ours that no other step removes is in these folders: undone last, because it is done first.
fn step(mark: &str, cluster: &str) -> Step {
    Step::new(STEP, "claim the node")
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
    use crate::remote::sandbox::Sandbox;
    use std::collections::BTreeSet;
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

    fn node() -> Sandbox {
        let sandbox = Sandbox::new();
        sandbox.program("systemctl", "exit 1");
        sandbox
    }

    fn claimant(number: usize) -> Claim {
        let (cluster, holder) = (Some("one".into()), Some(format!("ops@desk-{number}:/etc/eggo/one")));
        Claim { mark: format!("{number:032}"), cluster, holder, since: Some(now()) }
    }

    /// What the script says to one who claims the node: nothing, or who has it.
    fn claims(sandbox: &Sandbox, claim: &Claim, replaces: Option<&Claim>) -> Option<Claim> {
        let script = script(claim, replaces.map(|held| &held.mark));
        let script = script.set("ROOT", sandbox.at("eggo")).set("KEPT", sandbox.at("kept"));
        let said = sandbox.does(script.set("NOTED", sandbox.at("kept/users-runtimes")));
        Claim::parse(&said.lines().collect::<Vec<_>>())
    }

    /// The one that won; all others are told so.
    fn winner(sandbox: &Sandbox, claims: impl Fn(&Claim) -> Option<Claim> + Sync) -> Claim {
        let all: Vec<Claim> = (0..16).map(claimant).collect();
        let said: Vec<Option<Claim>> = std::thread::scope(|scope| {
            let running: Vec<_> = all.iter().map(|claim| scope.spawn(|| claims(claim))).collect();
            running.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let won: Vec<&Claim> =
            all.iter().zip(&said).filter_map(|(claim, said)| said.is_none().then_some(claim)).collect();
        let [winner] = won.as_slice() else { panic!("{won:?}") };
        assert!(said.iter().flatten().all(|held| held == *winner), "{said:?}");
        let left: BTreeSet<_> = std::fs::read_dir(sandbox.path("eggo"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["mark".into()].into());
        (*winner).clone()
    }

    #[test]
    fn of_many_processes_at_once_exactly_one_gets_the_node() {
        let sandbox = node();
        let first = winner(&sandbox, |claim| claims(&sandbox, claim, None));
        assert!(sandbox.has("kept/mounts"));
        let text = sandbox.read("eggo/mark");
        assert_eq!(claims(&sandbox, &first, None), None, "once more is fine");
        assert_eq!(sandbox.read("eggo/mark"), text);
        // So it is when the claim is taken over.
        let held = Claim { mark: "held".into(), ..claimant(99) };
        sandbox.write("eggo/mark", "held\n");
        winner(&sandbox, |claim| claims(&sandbox, claim, Some(&held)));
    }

    #[test]
    fn who_loses_changes_nothing() {
        let sandbox = node();
        sandbox.write("eggo/mark", "of an earlier version\n");
        let held = claims(&sandbox, &claimant(1), None).unwrap();
        assert_eq!((held.mark.as_str(), held.holder), ("of an earlier version", None));
        assert!(!sandbox.has("kept"));
        assert_eq!(std::fs::read_dir(sandbox.path("eggo")).unwrap().count(), 1);
    }

    #[test]
    fn its_own_claim_can_be_for_another_cluster() {
        let sandbox = node();
        let own = claimant(1);
        assert_eq!(claims(&sandbox, &own, None), None);
        let renamed = Claim { cluster: Some("two".into()), ..own.clone() };
        assert_eq!(claims(&sandbox, &renamed, Some(&own)), None);
        assert!(sandbox.read("eggo/mark").contains("\ncluster two\n"));
    }
}
