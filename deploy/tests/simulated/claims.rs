//! Two state folders, the same nodes.

use crate::node::{Site, State};
use eggo_deploy::events::Silent;
use eggo_deploy::journal::Journal;
use eggo_deploy::operation::{self, InstallRequest, Installed};
use eggo_deploy::preflight::Check;
use eggo_deploy::stop::Stop;
use eggo_errors::{Exit, Report};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn request(site: &Site, folder: &Path) -> InstallRequest {
    let mut request = site.request(folder, Arc::new(Silent), Stop::default());
    request.options.ignore.remove(&Check::named("claim").unwrap());
    request
}

async fn install(request: InstallRequest) -> Result<Installed, Report> {
    operation::prepare(request).await?.run().await
}

fn states(site: &Site) -> Vec<State> {
    site.nodes.iter().map(|node| node.state()).collect()
}

#[tokio::test]
async fn a_node_is_held_by_one_state_folder_until_another_takes_it_over() {
    let site = Site::new("demo", 3, Duration::from_millis(1));
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    install(request(&site, first.path())).await.unwrap();
    let before = states(&site);
    let held = |folder: &Path| {
        format!("demo-1: claim: held by ops@desk:{}/demo, for the cluster `demo`", folder.display())
    };
    let report = install(request(&site, second.path())).await.unwrap_err();
    assert_eq!((report.code.as_str(), report.exit), ("preflight-failed", Exit::User), "{report}");
    assert!(report.notes.contains(&held(first.path())), "{report}");
    assert!(report.hint.unwrap().contains("`--take-over`"));
    assert!(!second.path().join("demo").exists());
    // Who ignores the check meets the claim itself.
    let mut ignoring = request(&site, second.path());
    ignoring.options.ignore = Check::all().collect();
    let report = install(ignoring).await.unwrap_err();
    assert_eq!((report.code.as_str(), report.exit), ("node-claimed", Exit::User), "{report}");
    assert_eq!(report.notes.len(), 3, "{report}");
    assert_eq!(states(&site), before);

    let mut taking = request(&site, second.path());
    taking.options.take_over = true;
    assert!(install(taking).await.unwrap().changed > 0);
    assert_eq!(install(request(&site, second.path())).await.unwrap().changed, 0);
    let report = install(request(&site, first.path())).await.unwrap_err();
    assert!(report.notes.contains(&held(second.path())), "{report}");
}

#[tokio::test]
async fn of_two_that_found_a_node_free_one_gets_it() {
    let site = Site::new("demo", 1, Duration::from_millis(1));
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut ready = Vec::new();
    for folder in &folders {
        ready.push(operation::prepare(request(&site, folder.path())).await.unwrap());
    }
    let results = futures::future::join_all(ready.into_iter().map(|ready| ready.run())).await;
    let lost: Vec<usize> = (0..2).filter(|at| results[*at].is_err()).collect();
    let [lost] = lost.as_slice() else { panic!("{results:?}") };
    let report = results[*lost].as_ref().unwrap_err();
    assert_eq!((report.code.as_str(), report.exit), ("node-claimed", Exit::User), "{report}");
    let holder = folders[1 - lost].path().display().to_string();
    assert!(report.notes[0].contains(&holder), "{report}");
    let journal = Journal::read(&folders[*lost].path().join("demo")).unwrap();
    assert_eq!(journal.entries(), [], "it has changed nothing, and has nothing to undo");
}
