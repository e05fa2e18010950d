//! Prepared in one place, approved in another, run in a third.

use crate::node::Site;
use eggo_deploy::config;
use eggo_deploy::events::{Ending, Event, History, Silent};
use eggo_deploy::journal::Journal;
use eggo_deploy::operation::{self, InstallRequest, Installed, Prepared};
use eggo_deploy::stop::Stop;
use eggo_errors::{Exit, Report};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn request(site: &Site, folder: &Path) -> InstallRequest {
    site.request(folder, Arc::new(Silent), Stop::default())
}

/// What another process gets: JSON.
async fn written(site: &Site, folder: &Path) -> String {
    let ready = operation::prepare(request(site, folder)).await.unwrap();
    serde_json::to_string(ready.prepared()).unwrap()
}

async fn run(site: &Site, folder: &Path, approved: &str) -> Result<Installed, Report> {
    let approved: Prepared = serde_json::from_str(approved).unwrap();
    operation::run(request(site, folder), &approved).await
}

fn site() -> Site {
    Site::new("demo", 3, Duration::from_millis(1))
}

fn is_untouched(site: &Site, folder: &Path) -> bool {
    site.nodes.iter().all(|node| node.state() == Default::default()) && !folder.join("demo").exists()
}

#[tokio::test]
async fn it_can_be_read_back_and_run_by_another_process() {
    let (folder, site) = (tempfile::tempdir().unwrap(), site());
    let ready = operation::prepare(request(&site, folder.path())).await.unwrap();
    assert!(is_untouched(&site, folder.path()), "it takes no lock, and makes no folder");
    let text = serde_json::to_string(ready.prepared()).unwrap();
    let read: Prepared = serde_json::from_str(&text).unwrap();
    assert_eq!(&read, ready.prepared());
    read.check().unwrap();
    // The fields that scripts rely on are where they were.
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((value["cluster"].as_str(), value["operation"].as_str()), (Some("demo"), Some("install")));
    for field in ["name", "ip", "arch", "roles", "bytes", "items", "steps"] {
        assert!(!value["nodes"][0][field].is_null(), "{field}");
    }
    assert_eq!(value["nodes"][0]["steps"], serde_json::json!(["distribute", "system", "files", "prune"]));
    drop(ready);
    let installed = run(&site, folder.path(), &text).await.unwrap();
    assert!(installed.changed > 0);
    // What is done already does not make it another plan.
    assert_eq!(run(&site, folder.path(), &text).await.unwrap().changed, 0);
}

#[tokio::test]
async fn another_plan_than_the_approved_one_is_refused_and_nothing_is_changed() {
    let (folder, mut site) = (tempfile::tempdir().unwrap(), site());
    let approved = written(&site, folder.path()).await;
    let changed = |result: Result<Installed, Report>| {
        let report = result.unwrap_err();
        assert_eq!((report.code.as_str(), report.exit), ("plan-changed", Exit::User), "{report}");
        assert!(report.hint.unwrap().contains("look at the plan again"));
    };
    // A node is not what it was,
    site.nodes[1].swap.store(true, Ordering::Relaxed);
    changed(run(&site, folder.path(), &approved).await);
    site.nodes[1].swap.store(false, Ordering::Relaxed);
    // more is asked for than was,
    let mut more = request(&site, folder.path());
    more.options.selection.only.insert("images".into());
    changed(operation::run(more, &serde_json::from_str(&approved).unwrap()).await);
    // or deploy.yaml says something else.
    let before = site.config.clone();
    let mut config = (*before).clone();
    config.kubelet_serving = !config.kubelet_serving;
    site.config = Arc::new(config);
    changed(run(&site, folder.path(), &approved).await);
    assert!(is_untouched(&site, folder.path()));
    // How to log in is nobody's business but of whoever runs it.
    let mut config = (*before).clone();
    config.login = config::Login { user: "other".into(), password: None, private_key: Some("/k".into()) };
    site.config = Arc::new(config);
    run(&site, folder.path(), &approved).await.unwrap();
}

#[tokio::test]
async fn what_somebody_has_edited_is_not_what_its_digest_stands_for() {
    let (folder, site) = (tempfile::tempdir().unwrap(), site());
    let approved = written(&site, folder.path()).await;
    let edited = approved.replacen("/usr/local/bin", "/usr/local/sbin", 1);
    assert_ne!(edited, approved);
    let report = run(&site, folder.path(), &edited).await.unwrap_err();
    assert_eq!(report.code.as_str(), "plan-damaged", "{report}");
    assert!(is_untouched(&site, folder.path()));
}

#[tokio::test]
async fn what_was_approved_and_has_begun_goes_on() {
    let (folder, site) = (tempfile::tempdir().unwrap(), site());
    let approved = written(&site, folder.path()).await;
    let stop = Stop::within(Duration::from_secs(20), Duration::from_millis(20));
    let stopped = site.request(folder.path(), Arc::new(Silent), stop.clone());
    let prepared = serde_json::from_str(&approved).unwrap();
    let asking = async {
        while !folder.path().join("demo/journal.jsonl").exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        stop.ask();
    };
    let (result, ()) = tokio::join!(operation::run(stopped, &prepared), asking);
    assert_eq!(result.unwrap_err().exit, Exit::Stopped);
    // From where the nodes are now it is another way, but to the same end.
    site.nodes[1].swap.store(true, Ordering::Relaxed);
    run(&site, folder.path(), &approved).await.unwrap();
    // Another command in between has other ends.
    let now = written(&site, folder.path()).await;
    run(&site, folder.path(), &now).await.unwrap();
    assert_eq!(run(&site, folder.path(), &approved).await.unwrap_err().code.as_str(), "plan-changed");
}

#[tokio::test]
async fn who_prepares_needs_no_lock_and_who_runs_does() {
    let (folder, site) = (tempfile::tempdir().unwrap(), site());
    let lock = Journal::open(&folder.path().join("demo")).unwrap();
    let ready = operation::prepare(request(&site, folder.path())).await.unwrap();
    let report = ready.run().await.unwrap_err();
    assert_eq!(report.code.as_str(), "journal-busy");
    drop(lock);
    // Somebody else is faster: the nodes are looked at again.
    let ready = operation::prepare(request(&site, folder.path())).await.unwrap();
    let faster = operation::prepare(request(&site, folder.path())).await.unwrap().run().await.unwrap();
    assert!(faster.changed > 0);
    assert_eq!(ready.run().await.unwrap().changed, 0);
    let ready = operation::prepare(request(&site, folder.path())).await.unwrap();
    site.nodes[2].swap.store(true, Ordering::Relaxed);
    operation::prepare(request(&site, folder.path())).await.unwrap().run().await.unwrap();
    assert_eq!(ready.run().await.unwrap_err().code.as_str(), "plan-changed");
}

#[tokio::test]
async fn preparing_declining_and_running_end_with_one_event_each() {
    let (folder, site) = (tempfile::tempdir().unwrap(), site());
    let ends = async |way: &str| {
        let history = Arc::new(History::new(10_000));
        let request = site.request(folder.path(), history.clone(), Stop::default());
        let ready = operation::prepare(request).await.unwrap();
        match way {
            "run" => drop(ready.run().await.unwrap()),
            "decline" => assert_eq!(ready.decline().code.as_str(), "declined"),
            _ => drop(ready),
        }
        let ends = history.after(0).events.into_iter().filter_map(|told| match told.event {
            Event::OperationFinished { outcome, .. } => Some(outcome),
            _ => None,
        });
        ends.collect::<Vec<_>>()
    };
    assert_eq!(ends("look").await, [Ending::Done]);
    assert_eq!(ends("decline").await, [Ending::Failed]);
    assert!(is_untouched(&site, folder.path()));
    assert_eq!(ends("run").await, [Ending::Done]);
}
