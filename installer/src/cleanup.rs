//! The inverse of the journal: what was done is undone, the last first, and nothing else is touched.
//! A node that cannot be reached does not stop it: its entries stay in the journal for the next time.

use crate::events::{Event, Sink};
use crate::journal::{Entry, Journal, Record, Undo, now};
use crate::phases::Failure;
use crate::remote::{Command, Host};
use eggo_terminal::{Exit, Report};
use futures::StreamExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const AT_ONCE: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(1800);

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Loaded images go too.
    pub images: bool,
    /// Nodes that cannot be reached are struck from the journal: they will not come back.
    pub forget_gone: bool,
    /// Only these nodes; empty: all.
    pub only: BTreeSet<String>,
}

/// What a cleanup came to.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Changes that were undone.
    pub undone: usize,
    pub failures: Vec<Failure>,
}

impl Cleaned {
    pub fn report(&self) -> Result<(), Report> {
        if self.failures.is_empty() {
            return Ok(());
        }
        let nodes: BTreeSet<&str> = self.failures.iter().map(|failure| failure.node.as_str()).collect();
        let mut report = Report::new(format!(
            "{} node{} could not be cleaned up",
            nodes.len(),
            if nodes.len() == 1 { "" } else { "s" }
        ));
        for failure in &self.failures {
            let prefix = format!("{}: ", failure.node);
            let message = &failure.report.message;
            report =
                report.note(if message.starts_with(&prefix) { message.clone() } else { prefix + message });
            report.notes.extend(failure.report.notes.iter().cloned());
        }
        Err(report
            .exit(Exit::SomeHosts)
            .hinted("run it again when they are back, or with --forget-gone if they will not come back"))
    }
}

/// Undoes everything in the journal. `hosts` are the nodes that can be asked, by name.
pub async fn cleanup(
    journal: &Journal,
    hosts: &BTreeMap<String, Arc<dyn Host>>,
    options: &Options,
    events: &Arc<dyn Sink>,
) -> Result<Cleaned, Report> {
    let mut cleaned = Cleaned::default();
    let mut lost: BTreeSet<String> = BTreeSet::new();
    let wanted = |entry: &Entry| options.only.is_empty() || options.only.contains(&entry.node);
    for (phase, entries) in backwards(journal.entries().into_iter().filter(wanted).collect()) {
        events.event(Event::PhaseStarted { phase: phase.clone(), title: format!("Undo {phase}") });
        let mut jobs = Vec::new();
        for (node, entries) in entries.into_iter().filter(|(node, _)| !lost.contains(node)) {
            jobs.push(undo_on(journal, hosts.get(&node), node, entries, options, events));
        }
        let results: Vec<_> = futures::stream::iter(jobs).buffer_unordered(AT_ONCE).collect().await;
        for (node, undone, failure) in results {
            cleaned.undone += undone;
            if let Some(report) = failure {
                lost.insert(node.clone());
                cleaned.failures.push(Failure { node, report });
            }
        }
    }
    cleaned.failures.sort_by(|a, b| a.node.cmp(&b.node));
    if options.forget_gone {
        let gone: BTreeSet<String> = cleaned
            .failures
            .extract_if(.., |failure| !hosts.contains_key(&failure.node))
            .map(|failure| failure.node)
            .collect();
        for node in gone {
            events.event(Event::warning(Some(&node), "not reached, and struck from the journal"));
            journal.append(Record::Forget { node, at: now() }).await?;
        }
    }
    Ok(cleaned)
}

type ByNode = BTreeMap<String, Vec<Entry>>;

/// Phases with the last one first; within each, every node's entries with the last one first.
fn backwards(entries: Vec<Entry>) -> Vec<(String, ByNode)> {
    let mut phases: Vec<(String, ByNode)> = Vec::new();
    for entry in entries.into_iter().rev() {
        let at = phases.iter().position(|(phase, _)| *phase == entry.phase).unwrap_or_else(|| {
            phases.push((entry.phase.clone(), ByNode::new()));
            phases.len() - 1
        });
        phases[at].1.entry(entry.node.clone()).or_default().push(entry);
    }
    phases
}

/// All entries of one phase on one node, in one round trip.
async fn undo_on(
    journal: &Journal,
    host: Option<&Arc<dyn Host>>,
    node: String,
    entries: Vec<Entry>,
    options: &Options,
    events: &Arc<dyn Sink>,
) -> (String, usize, Option<Report>) {
    let Some(host) = host else {
        return (node, 0, Some(Report::new("it cannot be reached").exit(Exit::SomeHosts)));
    };
    if let Some(bad) = entries.iter().flat_map(|entry| &entry.undo).find(|undo| !undo.is_sound()) {
        let report = Report::new(format!("the journal asks to `{}`, which is refused", bad.title()));
        return (node, 0, Some(report));
    }
    let command = Command::sh("undo changes", script(&entries, options)).timeout(TIMEOUT);
    let output = match host.run(command).await {
        Ok(output) => output,
        Err(error) => return (node, 0, Some(error.into())),
    };
    let text = output.text();
    let failed: BTreeSet<usize> =
        text.lines().filter_map(|line| line.strip_prefix("@failed ")?.parse().ok()).collect();
    let mut undone = 0;
    for (_, entry) in entries.iter().enumerate().filter(|(at, _)| !failed.contains(at)) {
        events.event(Event::note(Some(&node), format!("undone: {}", entry.step)));
        let record = Record::Undone { node: node.clone(), step: entry.step.clone(), at: now() };
        if let Err(error) = journal.append(record).await {
            return (node, undone, Some(error.into()));
        }
        undone += 1;
    }
    let failure = (!failed.is_empty()).then(|| {
        let steps: Vec<&str> = failed.iter().filter_map(|at| Some(entries.get(*at)?.step.as_str())).collect();
        let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
        let report = Report::new(format!("could not undo {}", steps.join(", "))).exit(Exit::SomeHosts);
        if said.is_empty() { report } else { report.note(said) }
    });
    (node, undone, failure)
}

/// Every entry in a shell of its own: one that fails does not stop the others.
fn script(entries: &[Entry], options: &Options) -> String {
    let mut script = String::new();
    for (at, entry) in entries.iter().enumerate() {
        let wanted = |undo: &&Undo| options.images || !matches!(undo, Undo::Images { .. });
        script.push_str("status=0\n");
        for undo in entry.undo.iter().rev().filter(wanted) {
            script.push_str(&format!("(set -e\n{}\n) >&2 || status=1\n", undo.shell()));
        }
        script.push_str(&format!("[ $status = 0 ] || echo '@failed {at}'\n"));
    }
    format!("set +e\n{script}true")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::fake::Fake;

    async fn journal(folder: &std::path::Path) -> Journal {
        let journal = Journal::open(folder).unwrap();
        for (node, phase, step) in [
            ("a", "distribute", "mark"),
            ("b", "distribute", "mark"),
            ("a", "files", "x"),
            ("a", "files", "y"),
            ("b", "files", "x"),
        ] {
            let record = Record::Intent {
                node: node.into(),
                phase: phase.into(),
                step: step.into(),
                fingerprint: String::new(),
                undo: vec![Undo::script(step, format!("undo-{step}"))],
                at: now(),
            };
            journal.append(record).await.unwrap();
        }
        journal
    }

    fn hosts(fakes: &[&Arc<Fake>]) -> BTreeMap<String, Arc<dyn Host>> {
        fakes.iter().map(|fake| (fake.name().to_string(), Arc::clone(fake) as Arc<dyn Host>)).collect()
    }

    #[tokio::test]
    async fn the_last_change_is_undone_first_and_a_gone_node_keeps_its_entries() {
        let folder = tempfile::tempdir().unwrap();
        let journal = journal(folder.path()).await;
        let a = Arc::new(Fake::new("a"));
        let events: Arc<dyn Sink> = Arc::new(crate::events::Silent);
        let cleaned = cleanup(&journal, &hosts(&[&a]), &Options::default(), &events).await.unwrap();
        assert_eq!(cleaned.undone, 3);
        let scripts = a.scripts();
        assert_eq!(scripts.len(), 2);
        let (y, x) = (scripts[0].find("undo-y").unwrap(), scripts[0].find("undo-x").unwrap());
        assert!(y < x);
        assert!(scripts[1].contains("undo-mark"));
        let report = cleaned.report().unwrap_err();
        assert_eq!(
            (report.message.as_str(), report.exit),
            ("1 node could not be cleaned up", Exit::SomeHosts)
        );
        assert_eq!(report.notes, ["b: it cannot be reached"]);
        assert!(journal.entries().iter().all(|entry| entry.node == "b"));

        let options = Options { forget_gone: true, ..Options::default() };
        let cleaned = cleanup(&journal, &hosts(&[&a]), &options, &events).await.unwrap();
        assert!(cleaned.report().is_ok());
        assert!(journal.entries().is_empty());
    }

    #[tokio::test]
    async fn what_could_not_be_undone_stays_in_the_journal() {
        let folder = tempfile::tempdir().unwrap();
        let journal = journal(folder.path()).await;
        let a = Arc::new(Fake::new("a").on("undo-y", "@failed 1\n"));
        let b = Arc::new(Fake::new("b"));
        let events: Arc<dyn Sink> = Arc::new(crate::events::Silent);
        let cleaned = cleanup(&journal, &hosts(&[&a, &b]), &Options::default(), &events).await.unwrap();
        assert_eq!(cleaned.failures.len(), 1);
        assert_eq!(cleaned.failures[0].report.message, "could not undo x");
        let left: Vec<String> =
            journal.entries().iter().map(|entry| format!("{} {}", entry.node, entry.step)).collect();
        assert_eq!(left, ["a mark", "a x"]);
    }

    #[tokio::test]
    async fn a_journal_that_asks_for_too_much_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        let record = Record::Intent {
            node: "a".into(),
            phase: "p".into(),
            step: "s".into(),
            fingerprint: String::new(),
            undo: vec![Undo::tree("/etc")],
            at: now(),
        };
        journal.append(record).await.unwrap();
        let a = Arc::new(Fake::new("a"));
        let events: Arc<dyn Sink> = Arc::new(crate::events::Silent);
        let cleaned = cleanup(&journal, &hosts(&[&a]), &Options::default(), &events).await.unwrap();
        assert!(a.scripts().is_empty());
        assert_eq!(cleaned.failures[0].report.message, "the journal asks to `remove /etc`, which is refused");
    }
}
