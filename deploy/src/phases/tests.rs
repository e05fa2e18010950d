use super::*;
use crate::events::Sink;
use crate::journal::Journal;
use crate::run::{Named, Outcome, Step};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Heard(Mutex<Vec<Event>>);

impl Sink for Heard {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

fn config() -> Config {
    let text = "masters: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                workers: [{name: b, ip: 192.168.7.2, arch: amd64}]\n\
                install: {package-source: {type: bundle}}\n";
    crate::config::parse("d.yaml", text.as_bytes()).unwrap().config
}

struct Node(&'static str);

impl Named for Node {
    fn name(&self) -> &str {
        self.0
    }
}

struct Two {
    config: Config,
    run: Run,
    nodes: Vec<Node>,
    done: Mutex<Vec<String>>,
    broken: &'static str,
}

impl Context for Two {
    fn scene(&self) -> Scene<'_> {
        Scene { run: &self.run, config: &self.config, hosts: &self.config.hosts, plan: None }
    }
}

fn work<'a>(context: &'a Two, phase: &'static str) -> BoxFuture<'a, Result<(), PhaseError>> {
    Box::pin(async move {
        let each = |node: &Node| {
            let name = node.0;
            async move {
                let step = Step::new(format!("{phase}/x"), "do x");
                let work = async |_| {
                    if name == context.broken {
                        return Err(Report::new("no"));
                    }
                    context.done.lock().unwrap().push(format!("{phase} {name}"));
                    Ok(Outcome::Changed)
                };
                context.run.step(name, step, work).await.map(|_| ())
            }
        };
        context.run.on_each(&context.nodes, each).await
    })
}

fn phases() -> Vec<Phase<Two>> {
    let phase = |name, run, on_failure| Phase {
        name,
        title: name,
        help: "",
        applies: Applies::ALWAYS,
        needs: &[],
        run,
        on_failure,
    };
    vec![
        phase("one", |c: &Two| work(c, "one"), OnFailure::GoOn),
        phase("two", |c: &Two| work(c, "two"), OnFailure::Stop),
    ]
}

fn context(folder: &std::path::Path, broken: &'static str) -> (Two, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let run = Run::new(Journal::open(folder).unwrap(), heard.clone());
    (Two { config: config(), run, nodes: vec![Node("a"), Node("b")], done: Mutex::default(), broken }, heard)
}

#[tokio::test]
async fn a_failed_node_is_left_out_and_the_next_run_finishes_only_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (first, _) = context(folder.path(), "b");
    let report = run_list(&phases(), &Selection::default(), &first).await.unwrap_err();
    assert_eq!(report.exit, Exit::SomeHosts);
    assert_eq!(report.message, "`one` failed on 1 node");
    assert_eq!(report.notes, ["b: no"]);
    assert_eq!(*first.done.lock().unwrap(), ["one a", "two a"]);
    drop(first);

    let (second, heard) = context(folder.path(), "");
    run_list(&phases(), &Selection::default(), &second).await.unwrap();
    assert_eq!(*second.done.lock().unwrap(), ["one b", "two b"]);
    assert_eq!(second.run.changed(), 2);
    assert!(
        heard.0.lock().unwrap().iter().any(|event| matches!(event, Event::PhaseFinished { changed: 1, .. }))
    );
    drop(second);

    let (third, _) = context(folder.path(), "");
    run_list(&phases(), &Selection::default(), &third).await.unwrap();
    assert_eq!(third.run.changed(), 0);
}

#[tokio::test]
async fn a_phase_that_needs_all_its_nodes_does_not_run_without_one_and_the_first_failure_is_the_headline() {
    let run = async |broken, applies| {
        let folder = tempfile::tempdir().unwrap();
        let (context, _) = context(folder.path(), broken);
        let mut list = phases();
        list[1].applies = applies;
        let report = run_list(&list, &Selection::default(), &context).await.unwrap_err();
        (report, context.done.into_inner().unwrap())
    };
    let masters = Applies::Together(|_, host| host.has(eggo_bundles::Role::Master));
    let (report, done) = run("a", masters).await;
    assert_eq!(report.message, "`one` failed on 1 node");
    assert_eq!(report.notes, ["a: no", "`two` did not begin: it needs a"]);
    assert_eq!(done, ["one b"]);
    let (report, done) = run("b", masters).await;
    assert_eq!((report.message.as_str(), done.len()), ("`one` failed on 1 node", 2));
    assert_eq!(report.notes, ["b: no"], "a worker is left out");
}

#[test]
fn what_follows_from_a_failure_stands_below_it() {
    let first =
        || Report::new("the disk is full").note("w: no space").hinted("free space").exit(Exit::SomeHosts);
    let later = || Report::new("etcd is not installed").note("searched").hinted("add it to the bundle");
    let joined = join(Some(first()), later());
    assert_eq!(joined.message, "the disk is full");
    assert_eq!(joined.notes, ["w: no space", "later: etcd is not installed", "searched"]);
    assert_eq!((joined.hint.unwrap().as_str(), joined.exit), ("free space", Exit::SomeHosts));
    assert_eq!(join(None, later()), later());
    for exit in [Exit::Untrusted, Exit::Stopped] {
        let joined = join(Some(first()), later().exit(exit));
        assert_eq!((joined.message.as_str(), joined.exit), ("etcd is not installed", exit));
        assert_eq!(joined.notes, ["searched", "earlier: the disk is full", "w: no space"]);
    }
}

#[tokio::test]
async fn phases_are_selected_by_name_and_unknown_names_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (context, _) = context(folder.path(), "");
    let only = |name: &str| Selection { only: [name.to_string()].into(), ..Selection::default() };
    run_list(&phases(), &only("two"), &context).await.unwrap();
    assert_eq!(*context.done.lock().unwrap(), ["two a", "two b"]);
    let report = run_list(&phases(), &only("tow"), &context).await.unwrap_err();
    assert_eq!(report.exit, Exit::Usage);
    assert_eq!(report.hint.unwrap(), "phases, in order: one, two");
}

#[tokio::test]
async fn a_phase_is_skipped_where_nothing_is_for_it_and_refused_without_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let (context, heard) = context(folder.path(), "");
    let with = |applies, needs| {
        let mut list = phases();
        (list[1].applies, list[1].needs) = (applies, needs);
        list
    };
    let nobody = with(Applies::Hosts(|_, host| host.name == "c"), &[]);
    run_list(&nobody, &Selection::default(), &context).await.unwrap();
    assert!(!context.done.lock().unwrap().iter().any(|done| done.starts_with("two")));
    let skipped = |event: &Event| matches!(event, Event::PhaseSkipped { phase, .. } if phase == "two");
    assert!(heard.0.lock().unwrap().iter().any(skipped));
    let only_b = with(Applies::Hosts(|_, host| host.name == "b"), &["one"]);
    let only = Selection { only: ["two".to_string()].into(), ..Selection::default() };
    let report = run_list(&only_b, &only, &context).await.unwrap_err();
    assert_eq!((report.code.as_str(), report.exit), ("phase-needed", Exit::Usage));
    assert_eq!(report.message, "the phase `two` needs `one`, which would be left out");
    let skip = Selection { skip: ["two".to_string()].into(), ..Selection::default() };
    run_list(&only_b, &skip, &context).await.unwrap();
    run_list(&only_b, &Selection::default(), &context).await.unwrap();
    assert!(context.done.lock().unwrap().contains(&"two b".to_string()));
}

#[test]
fn a_bundle_that_fails_on_a_node_is_not_trusted() {
    let failure = |node: &str, exit| Failure { node: node.into(), report: Report::new("no").exit(exit) };
    let exit = |failures| PhaseError::Nodes(failures).report("one").exit;
    assert_eq!(exit(vec![failure("a", Exit::SomeHosts)]), Exit::SomeHosts);
    let refused = vec![failure("a", Exit::SomeHosts), failure("b", Exit::Untrusted)];
    assert_eq!(exit(refused.clone()), Exit::Untrusted);
    assert_eq!(
        PhaseError::Nodes(refused).report("one").message,
        "no",
        "it is told of the bundle, not of nodes"
    );
}

#[tokio::test]
async fn a_phase_that_takes_long_says_what_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let heard = Arc::new(Heard::default());
    let run = Run::new(Journal::open(folder.path()).unwrap(), heard.clone()).impatient();
    let phase = Phase {
        name: "slow",
        title: "Be slow",
        help: "",
        applies: Applies::ALWAYS,
        needs: &[],
        run: |slow: &Slow| Box::pin(slow.work()),
        on_failure: OnFailure::Stop,
    };
    let slow = Slow { config: config(), run, heard };
    let (phases, all) = ([phase], Selection::default());
    let told = run_list(&phases, &all, &slow);
    tokio::time::timeout(std::time::Duration::from_secs(60), told).await.expect("it is told").unwrap();
}

struct Slow {
    config: Config,
    run: Run,
    heard: Arc<Heard>,
}

impl Context for Slow {
    fn scene(&self) -> Scene<'_> {
        Scene { run: &self.run, config: &self.config, hosts: &self.config.hosts, plan: None }
    }
}

impl Slow {
    async fn work(&self) -> Result<(), PhaseError> {
        let step = Step::new("nap", "take a nap");
        let nap = self.run.step("a", step, async |_| Ok(self.until_told("a take a nap").await));
        nap.await.map_err(PhaseError::Whole)?;
        let waits = self.run.waits_for(["a", "b"], "wake up");
        self.until_told("a wake up, b wake up").await;
        drop(waits);
        self.until_told("").await;
        Ok(())
    }

    /// Ends when just this was told to be under way.
    async fn until_told(&self, expected: &str) -> Outcome {
        while self.heard.0.lock().unwrap().iter().filter_map(waits).next_back().as_deref() != Some(expected) {
            tokio::task::yield_now().await;
        }
        Outcome::Changed
    }
}

fn waits(event: &Event) -> Option<String> {
    let Event::PhaseWaits { underway, .. } = event else { return None };
    let underway: Vec<String> = underway.iter().map(|one| format!("{} {}", one.node, one.title)).collect();
    Some(underway.join(", "))
}
