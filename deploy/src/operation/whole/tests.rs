use super::*;
use crate::events::{History, Told};
use crate::journal::Journal;
use crate::phases::PhaseError;
use crate::run::{Outcome, Run, Step, WhenStopped};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

const TEXT: &str = "cluster-id: demo\nmasters: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                    workers: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                    install: {package-source: {type: bundle}}\n";

/// Little more than what every request has.
struct Asked {
    config: Config,
    events: Arc<dyn Sink>,
    access: Access,
    stop: Stop,
}

is_request!(Asked);

impl Asked {
    fn new(stop: &Stop) -> (Self, Arc<History>) {
        let config = crate::config::parse("d.yaml", TEXT.as_bytes()).unwrap().config;
        let history = Arc::new(History::new(100));
        let access = Access::given(BTreeMap::new());
        (Self { config, events: history.clone(), access, stop: stop.clone() }, history)
    }

    fn run(self, folder: &Path) -> Run {
        Run::new(Journal::open(folder).unwrap(), self.events).stopped_by(self.stop)
    }
}

fn quick() -> Stop {
    Stop::within(Duration::from_millis(300), Duration::from_millis(20))
}

/// `number name detail` of each, and that every one that begins ends, the last first.
fn told(history: &History) -> Vec<String> {
    let events = history.after(0).events;
    let mut open = Vec::new();
    let line = |(at, told): (usize, &Told)| {
        assert_eq!((told.number, told.cluster.as_str()), (at as u64 + 1, "demo"));
        assert_eq!(told.run, events[0].run);
        let text = serde_json::to_string(told).unwrap();
        assert_eq!(&serde_json::from_str::<Told>(&text).unwrap(), told);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let name = value["event"].as_str().unwrap().to_string();
        let Some((kind, what)) = name.split_once('-') else { return name };
        match what {
            "started" => open.push(kind.to_string()),
            _ => assert_eq!(open.pop().as_deref(), Some(kind), "{name}"),
        }
        let detail = ["outcome", "step", "phase", "operation"].iter().find_map(|key| value[key].as_str());
        format!("{name} {}", detail.unwrap_or_default())
    };
    let lines = events.iter().enumerate().map(line).collect();
    assert!(open.is_empty(), "{open:?}");
    lines
}

/// Three steps; in the middle of the second a stop is asked for, if so.
async fn three(asked: Asked, folder: &Path, stops: bool) -> Result<Vec<&'static str>, Report> {
    let stop = asked.stop.clone();
    let run = asked.run(folder);
    let done = Mutex::new(Vec::new());
    let work = async {
        for name in ["one", "two", "three"] {
            let work = async |_| {
                if stops && name == "two" {
                    stop.ask();
                    tokio::time::sleep(Duration::from_millis(60)).await;
                }
                done.lock().unwrap().push(name);
                Ok(Outcome::Changed)
            };
            run.step("a", Step::new(name, name), work).await.map_err(PhaseError::Whole)?;
        }
        Ok(())
    };
    run.in_phase("count", "Count", work).await.map_err(|error| error.report("Count"))?;
    Ok(done.into_inner().unwrap())
}

#[tokio::test]
async fn a_stop_begins_no_further_step_and_the_next_run_goes_on_there() {
    let folder = tempfile::tempdir().unwrap();
    let (asked, history) = Asked::new(&quick());
    let report =
        whole(Operation::Install, asked, |asked| three(asked, folder.path(), true)).await.unwrap_err();
    assert_eq!((report.code.as_str(), report.exit), ("stopped", Exit::Stopped));
    assert_eq!(report.message, "stopped: 2 changes were made");
    assert_eq!(report.hint.as_deref(), Some("run the same command again: it goes on where it stopped"));
    let expected = [
        "operation-started install",
        "phase-started count",
        "step-started one",
        "step-finished one",
        "step-started two",
        "stopping",
        "step-finished two",
        "phase-finished count",
        "operation-finished stopped",
    ];
    assert_eq!(told(&history), expected);

    let (asked, history) = Asked::new(&quick());
    let done = whole(Operation::Install, asked, |asked| three(asked, folder.path(), false)).await.unwrap();
    assert_eq!(done, ["three"]);
    assert_eq!(told(&history).last().unwrap(), "operation-finished done");
}

#[tokio::test]
async fn a_step_that_does_not_end_is_given_up_and_done_again_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let stop = quick();
    let (asked, history) = Asked::new(&stop);
    let hangs = async |asked: Asked| {
        let run = asked.run(folder.path());
        let work = async |_| {
            stop.ask();
            std::future::pending().await
        };
        let step = async { run.step("a", Step::new("nap", "nap"), work).await.map_err(PhaseError::Whole) };
        run.in_phase("slow", "Be slow", step).await.map_err(|error| error.report("Be slow"))
    };
    let report = whole(Operation::Upgrade, asked, hangs).await.unwrap_err();
    assert_eq!(report.message, "stopped: nothing was changed");
    let expected = [
        "operation-started upgrade",
        "phase-started slow",
        "step-started nap",
        "stopping",
        "step-failed nap",
        "phase-finished slow",
        "operation-finished stopped",
    ];
    assert_eq!(told(&history), expected);
    // The lock is free again, and the journal knows that the step began and did not end.
    let journal = Journal::open(folder.path()).unwrap();
    assert!(!journal.is_done("a", "nap", ""));
    assert_eq!(journal.entries().len(), 1);
}

#[tokio::test]
async fn an_early_failure_is_told_with_the_whole_error() {
    let (asked, history) = Asked::new(&quick());
    let fails = async |_: Asked| Err::<(), _>(Report::new("no").code("no-way").note("really"));
    let report = whole(Operation::Cleanup, asked, fails).await.unwrap_err();
    assert_eq!(told(&history), ["operation-started cleanup", "operation-finished failed"]);
    let last = history.after(1).events.remove(0).event;
    let operation = Operation::Cleanup;
    let expected =
        Event::OperationFinished { operation, outcome: Ending::Failed, changed: 0, error: Some(report) };
    assert_eq!(last, expected);
}

#[tokio::test]
async fn what_is_no_step_is_not_waited_for() {
    let stop = Stop::within(Duration::from_secs(3600), Duration::from_millis(20));
    let (asked, _) = Asked::new(&stop);
    let waits = async |_: Asked| {
        stop.ask();
        std::future::pending::<Result<(), Report>>().await
    };
    let given_up = tokio::time::timeout(Duration::from_secs(60), whole(Operation::Renew, asked, waits));
    assert_eq!(given_up.await.expect("it ends soon").unwrap_err().exit, Exit::Stopped);
}

#[tokio::test]
async fn a_step_that_may_be_cut_is_not_waited_for_either() {
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::within(Duration::from_secs(3600), Duration::from_millis(20));
    let (asked, _) = Asked::new(&stop);
    let sends = async |asked: Asked| {
        let run = asked.run(folder.path());
        let work = async |_| {
            stop.ask();
            std::future::pending().await
        };
        let step = Step::new("send", "send").when_stopped(WhenStopped::GivenUp);
        run.step("a", step, work).await.map(|_| ())
    };
    let given_up = tokio::time::timeout(Duration::from_secs(60), whole(Operation::Install, asked, sends));
    assert_eq!(given_up.await.expect("it ends soon").unwrap_err().exit, Exit::Stopped);
    assert!(!Journal::open(folder.path()).unwrap().is_done("a", "send", ""));
}

#[tokio::test]
async fn what_was_taken_for_a_while_is_given_back_after_a_stop_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let stop = quick();
    let run = Asked::new(&stop).0.run(folder.path());
    stop.ask();
    let drain = run.step("a", Step::new("drain", "drain"), async |_| Ok(Outcome::Changed));
    assert!(stop::is_stopped(&drain.await.unwrap_err()));
    let step = Step::new("uncordon", "uncordon").when_stopped(WhenStopped::Done);
    run.step("a", step, async |_| Ok(Outcome::Changed)).await.unwrap();
    assert!(run.journal().is_done("a", "uncordon", ""));
}
