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

struct Node(&'static str);

impl Named for Node {
    fn name(&self) -> &str {
        self.0
    }
}

struct Context {
    run: Run,
    nodes: Vec<Node>,
    done: Mutex<Vec<String>>,
    broken: &'static str,
}

fn work<'a>(context: &'a Context, phase: &'static str) -> BoxFuture<'a, Result<(), PhaseError>> {
    Box::pin(async move {
        let each = |node: &Node| {
            let name = node.0;
            async move {
                let step = Step::new(format!("{phase}/x"), "do x");
                let work = || async {
                    if name == context.broken {
                        return Err(Report::new("no"));
                    }
                    context.done.lock().unwrap().push(format!("{phase} {name}"));
                    Ok(Outcome::Changed)
                };
                context.run.step(name, step, work).await.map(|_| ())
            }
        };
        context.run.on_each(&context.nodes, 8, each).await
    })
}

fn phases() -> Vec<Phase<Context>> {
    let phase = |name, run, on_failure| Phase {
        name,
        title: name,
        help: "",
        run_if: |_: &Context| true,
        run,
        on_failure,
    };
    vec![
        phase("one", |c: &Context| work(c, "one"), OnFailure::GoOn),
        phase("two", |c: &Context| work(c, "two"), OnFailure::Stop),
    ]
}

fn context(folder: &std::path::Path, broken: &'static str) -> (Context, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let run = Run::new(Journal::open(folder).unwrap(), heard.clone());
    (Context { run, nodes: vec![Node("a"), Node("b")], done: Mutex::default(), broken }, heard)
}

#[tokio::test]
async fn a_failed_node_is_left_out_and_the_next_run_finishes_only_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (first, _) = context(folder.path(), "b");
    let report = run_list(&phases(), &Selection::default(), &first.run, &first).await.unwrap_err();
    assert_eq!(report.exit, Exit::SomeHosts);
    assert_eq!(report.message, "`one` failed on 1 node");
    assert_eq!(report.notes, ["b: no"]);
    assert_eq!(*first.done.lock().unwrap(), ["one a", "two a"]);
    drop(first);

    let (second, heard) = context(folder.path(), "");
    run_list(&phases(), &Selection::default(), &second.run, &second).await.unwrap();
    assert_eq!(*second.done.lock().unwrap(), ["one b", "two b"]);
    assert_eq!(second.run.changed(), 2);
    assert!(
        heard.0.lock().unwrap().iter().any(|event| matches!(event, Event::PhaseFinished { changed: 1, .. }))
    );
    drop(second);

    let (third, _) = context(folder.path(), "");
    run_list(&phases(), &Selection::default(), &third.run, &third).await.unwrap();
    assert_eq!(third.run.changed(), 0);
}

#[tokio::test]
async fn phases_are_selected_by_name_and_unknown_names_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (context, _) = context(folder.path(), "");
    let only = |name: &str| Selection { only: [name.to_string()].into(), ..Selection::default() };
    run_list(&phases(), &only("two"), &context.run, &context).await.unwrap();
    assert_eq!(*context.done.lock().unwrap(), ["two a", "two b"]);
    let report = run_list(&phases(), &only("tow"), &context.run, &context).await.unwrap_err();
    assert_eq!(report.exit, Exit::Usage);
    assert_eq!(report.hint.unwrap(), "phases, in order: one, two");
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
        run_if: |_: &Slow| true,
        run: |slow| Box::pin(slow.work()),
        on_failure: OnFailure::Stop,
    };
    let slow = Slow { run, heard };
    let (phases, all) = ([phase], Selection::default());
    let told = run_list(&phases, &all, &slow.run, &slow);
    tokio::time::timeout(std::time::Duration::from_secs(60), told).await.expect("it is told").unwrap();
}

struct Slow {
    run: Run,
    heard: Arc<Heard>,
}

impl Slow {
    async fn work(&self) -> Result<(), PhaseError> {
        let step = Step::new("nap", "take a nap");
        let nap = self.run.step("a", step, || async { Ok(self.until_told("a take a nap").await) });
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
