use super::*;
use crate::events::Silent;
use crate::journal::{Record, now};
use crate::remote::fake::Fake;
use crate::remote::{Command, Host, Output, RemoteError, RemoteFile, Written};
use crate::run::Permit;
use crate::store::ROOT;
use crate::undo::Undo;
use bytes::Bytes;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

const TEXT: &str = "cluster-id: demo\n\
                    masters: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                    workers: [{name: b, ip: 192.168.7.2, arch: amd64}]\n\
                    install: {package-source: {type: bundle}}\n";

/// A host that bears a mark until what the claim did is undone.
struct Node {
    fake: Fake,
    cluster: &'static str,
    marked: AtomicBool,
}

impl Node {
    fn new(name: &str, cluster: &'static str) -> Arc<Self> {
        Arc::new(Self { fake: Fake::new(name), cluster, marked: AtomicBool::new(!cluster.is_empty()) })
    }
}

impl Host for Node {
    fn name(&self) -> &str {
        self.fake.name()
    }

    fn run(&self, command: Command) -> BoxFuture<'_, Result<Output, RemoteError>> {
        let (looks, removes) = (command.title == "look at the node", command.script().contains(ROOT));
        if command.title == "undo changes" && removes {
            self.marked.store(false, Ordering::Relaxed);
        }
        let mark = match self.marked.load(Ordering::Relaxed) {
            true => format!("@@ mark\nm\n@@ cluster\n{}\n", self.cluster),
            false => String::new(),
        };
        Box::pin(async move {
            let mut output = self.fake.run(command).await?;
            if looks {
                output.stdout = format!("@@ uname\nLinux\nhost\n6.1\nx86_64\n{mark}@@ end\n").into();
            }
            Ok(output)
        })
    }

    fn write_files(
        &self,
        permit: Permit,
        files: Vec<RemoteFile>,
    ) -> BoxFuture<'_, Result<Vec<Written>, RemoteError>> {
        self.fake.write_files(permit, files)
    }

    fn read_file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, RemoteError>> {
        self.fake.read_file(path)
    }
}

fn config() -> Arc<Config> {
    Arc::new(crate::config::parse("d.yaml", TEXT.as_bytes()).unwrap().config)
}

fn request(folder: &Path) -> CleanupRequest {
    CleanupRequest {
        config: config(),
        access: Access::given(BTreeMap::new()),
        state: folder.join("demo"),
        options: Options::default(),
        selection: Selection::default(),
        afterwards: Afterwards::default(),
        events: Arc::new(Silent),
        stop: Stop::default(),
    }
}

/// A cleanup that reaches just these nodes.
async fn clean_with(request: CleanupRequest, nodes: &[&Arc<Node>]) -> Result<CleanedUp, Report> {
    let given = nodes.iter().map(|node| (node.name().to_string(), Arc::clone(node) as Arc<dyn Host>));
    cleanup(CleanupRequest { access: Access::given(given.collect()), ..request }).await
}

fn records() -> Vec<Record> {
    let intent = |node: &str, step: &str, path: &str| Record::Intent {
        node: node.into(),
        phase: step.split('/').next().unwrap().into(),
        step: step.into(),
        fingerprint: "f".into(),
        undo: vec![Undo::tree(path)],
        at: now(),
    };
    let mark = |node: &str| Record::Mark { node: node.into(), mark: "m".into() };
    let done = |node: &str, step: &str| Record::Done { node: node.into(), step: step.into(), at: now() };
    vec![
        Record::begin("deploy", None, None),
        mark("a"),
        intent("a", "node/mark", ROOT),
        done("a", "node/mark"),
        mark("b"),
        intent("b", "node/mark", ROOT),
        done("b", "node/mark"),
        intent("a", "etcd/files", "/var/lib/etcd/one"),
        done("a", "etcd/files"),
    ]
}

fn journal(records: &[Record]) -> Vec<u8> {
    let line = |record| serde_json::to_string(record).unwrap() + "\n";
    records.iter().map(line).collect::<String>().into_bytes()
}

/// The folder of a cluster that was installed, with this journal.
fn installed(folder: &Path, journal: &[u8]) {
    fs::create_dir_all(folder.join("demo/pki")).unwrap();
    fs::write(folder.join("demo/pki/ca.key"), "key").unwrap();
    fs::write(folder.join("demo/admin.conf"), "admin").unwrap();
    fs::write(folder.join("demo/config.json"), serde_json::to_vec(&*config()).unwrap()).unwrap();
    fs::write(folder.join("demo/journal.jsonl"), journal).unwrap();
}

/// The one folder that has the cluster's keys.
fn with_keys(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> = entries.filter(|path| path.join("pki/ca.key").exists()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(fs::read_to_string(found[0].join("pki/ca.key")).unwrap(), "key");
    assert_eq!(fs::read_to_string(found[0].join("admin.conf")).unwrap(), "admin");
    found[0].clone()
}

#[tokio::test]
async fn a_journal_cut_anywhere_costs_no_keys_and_is_not_called_clean() {
    let whole = journal(&records());
    let (mut contradicts, mut lacks_b, mut complete) = (0, 0, 0);
    for cut in 0..=whole.len() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("demo");
        installed(folder.path(), &whole[..cut]);
        let (a, b) = (Node::new("a", "demo"), Node::new("b", "demo"));
        let result = clean_with(request(folder.path()), &[&a, &b]).await;
        let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
        let place = with_keys(folder.path());
        match result {
            Err(report) => {
                assert_eq!(report.code.as_str(), "journal-incomplete", "cut at {cut}: {report}");
                assert_eq!(place, state);
                assert!(report.notes.iter().any(|note| note.contains("stays as it is")), "{report}");
                if lines < 3 {
                    assert!(report.message.contains("it has no change to any node"), "{report}");
                    assert_eq!(fs::read(state.join("journal.jsonl")).unwrap(), &whole[..cut]);
                    assert!(a.fake.calls().is_empty() && b.fake.calls().is_empty());
                    contradicts += 1;
                } else {
                    assert!(report.message.contains("nothing to undo on b, which"), "{report}");
                    assert!(lines < 6, "cut at {cut}");
                    lacks_b += 1;
                }
            }
            Ok(cleaned) => {
                assert!(lines >= 6 && cleaned.undone >= 2, "cut at {cut}: {cleaned:?}");
                assert_eq!(cleaned.folder, Fate::MovedAside(place));
                assert!(!state.exists());
                complete += 1;
            }
        }
    }
    assert!(contradicts > 100 && lacks_b > 100 && complete > 100, "{contradicts} {lacks_b} {complete}");
}

#[tokio::test]
async fn without_anything_to_undo_the_nodes_are_asked() {
    let begun = journal(&records()[..2]);
    let fresh = || {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("demo")).unwrap();
        fs::write(folder.path().join("demo/journal.jsonl"), &begun).unwrap();
        folder
    };
    let (a, b) = (Node::new("a", ""), Node::new("b", "other"));
    // Both answer, and neither is ours.
    let folder = fresh();
    let cleaned = clean_with(request(folder.path()), &[&a, &b]).await.unwrap();
    assert!(matches!(cleaned, CleanedUp { undone: 0, folder: Fate::MovedAside(_) }), "{cleaned:?}");
    // One is.
    let folder = fresh();
    let ours = Node::new("b", "demo");
    let report = clean_with(request(folder.path()), &[&a, &ours]).await.unwrap_err();
    assert_eq!(report.code.as_str(), "journal-incomplete");
    assert!(folder.path().join("demo").exists());
    // One cannot be asked.
    let report = clean_with(request(folder.path()), &[&a]).await.unwrap_err();
    assert_eq!((report.code.as_str(), report.exit), ("nodes-not-reached", Exit::SomeHosts));
    assert_eq!(report.notes[0], "b: cannot connect to 192.168.7.2: no way to it is known");
    assert!(folder.path().join("demo").exists());
    // It will not come back.
    let mut gone = request(folder.path());
    gone.options.forget_gone = true;
    let cleaned = clean_with(gone, &[&a]).await.unwrap();
    assert!(matches!(cleaned.folder, Fate::MovedAside(_)), "{cleaned:?}");
}

#[tokio::test]
async fn the_folder_goes_as_it_was_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("demo");
    let whole = journal(&records());
    let nodes = || (Node::new("a", "demo"), Node::new("b", "demo"));
    installed(folder.path(), &whole);
    let (a, b) = nodes();
    let keep = || CleanupRequest { afterwards: Afterwards::Keep, ..request(folder.path()) };
    let cleaned = clean_with(keep(), &[&a, &b]).await.unwrap();
    assert_eq!(cleaned, CleanedUp { undone: 3, folder: Fate::Kept });
    assert_eq!(with_keys(folder.path()), state);
    // Again: the journal still knows that there was something, and the nodes say that nothing is left.
    let cleaned = clean_with(keep(), &[&a, &b]).await.unwrap();
    assert_eq!(cleaned, CleanedUp { undone: 0, folder: Fate::Kept });

    installed(folder.path(), &whole);
    fs::create_dir(state.join("backups")).unwrap();
    fs::write(state.join("backups/one.db"), "data").unwrap();
    let (a, b) = nodes();
    let purge = CleanupRequest { afterwards: Afterwards::Purge, ..request(folder.path()) };
    let Fate::Purged(Some(left)) = clean_with(purge, &[&a, &b]).await.unwrap().folder else { panic!() };
    assert_eq!(fs::read_to_string(left.join("backups/one.db")).unwrap(), "data");
    assert!(!left.join("pki").exists() && !left.join("admin.conf").exists() && !state.exists());

    let absent = clean_with(request(folder.path()), &[]).await.unwrap();
    assert_eq!(absent, CleanedUp { undone: 0, folder: Fate::Absent });
    fs::create_dir(&state).unwrap();
    fs::write(state.join("letters"), "of somebody").unwrap();
    let not_ours = clean_with(request(folder.path()), &[]).await.unwrap();
    assert_eq!(not_ours, CleanedUp { undone: 0, folder: Fate::NotOurs });
    assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
}

#[tokio::test]
async fn a_node_that_is_gone_keeps_the_folder_until_it_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    installed(folder.path(), &journal(&records()));
    let a = Node::new("a", "demo");
    let report = clean_with(request(folder.path()), &[&a]).await.unwrap_err();
    assert_eq!(report.message, "`Undo changes` failed on 1 node");
    assert_eq!(with_keys(folder.path()), folder.path().join("demo"));
    let mut gone = request(folder.path());
    gone.options.forget_gone = true;
    let cleaned = clean_with(gone, &[&a]).await.unwrap();
    assert_eq!(cleaned.folder, Fate::MovedAside(with_keys(folder.path())));
}
