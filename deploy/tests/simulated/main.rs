//! Operations on simulated nodes: stopped at any moment, two at once, on several threads.

mod claims;
mod limits;
mod node;
mod prepared;

use eggo_deploy::events::{Event, Silent, Sink};
use eggo_deploy::journal::Journal;
use eggo_deploy::operation::{self, Installed};
use eggo_deploy::stop::Stop;
use eggo_errors::{Exit, Report};
use node::{Site, State};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

async fn install(site: &Site, folder: &Path, stop: Stop) -> Result<Installed, Report> {
    operation::prepare(site.request(folder, Arc::new(Silent), stop)).await?.run().await
}

/// What the journal says at the end, apart from times and marks.
fn journal(site: &Site, folder: &Path) -> BTreeSet<(String, String, bool)> {
    let journal = Journal::read(&folder.join(&site.config.cluster_id)).unwrap();
    journal.entries().into_iter().map(|entry| (entry.node, entry.step, entry.done)).collect()
}

fn states(site: &Site) -> Vec<State> {
    site.nodes.iter().map(|node| node.state()).collect()
}

fn quick() -> Stop {
    Stop::within(Duration::from_secs(20), Duration::from_millis(50))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_at_any_moment_and_continued_it_comes_to_the_same_end() {
    let pause = Duration::from_millis(8);
    let folder = tempfile::tempdir().unwrap();
    let whole = Site::new("demo", 3, pause);
    let installed = install(&whole, folder.path(), quick()).await.unwrap();
    let commands = whole.asked();
    assert!(installed.changed > 3, "{installed:?}");
    let expected = (states(&whole), journal(&whole, folder.path()));
    assert!(expected.1.iter().all(|(_, _, done)| *done), "{expected:?}");

    let (mut seed, mut stopped) = (20_260_916u64, 0);
    for turn in 0..20 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let moment = (seed >> 33) as usize % commands;
        let folder = tempfile::tempdir().unwrap();
        let site = Site::new("demo", 3, pause);
        let stop = quick();
        let asking = async {
            while site.asked() <= moment {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            stop.ask();
        };
        let (result, ()) = tokio::join!(install(&site, folder.path(), stop.clone()), asking);
        match result {
            Ok(_) => {}
            Err(report) if report.exit == Exit::Stopped => {
                assert!(report.hint.unwrap().contains("run the same command again"));
                stopped += 1;
            }
            Err(report) => panic!("turn {turn}: {report}"),
        }
        let before = states(&site);
        tokio::time::sleep(3 * pause).await;
        assert_eq!(states(&site), before, "turn {turn}: something goes on behind the caller's back");
        install(&site, folder.path(), quick()).await.unwrap_or_else(|report| panic!("turn {turn}: {report}"));
        assert_eq!(
            (states(&site), journal(&site, folder.path())),
            expected,
            "turn {turn}, stopped at command {moment}"
        );
    }
    assert!(stopped >= 10, "only {stopped} of 20 were stopped before their end");
}

/// Counts how many operations are under way, and whose events come.
#[derive(Default)]
struct Watch {
    now: AtomicUsize,
    most: AtomicUsize,
    clusters: Mutex<BTreeSet<String>>,
}

impl Sink for Watch {
    fn event(&self, _event: Event) {}

    fn told(&self, told: eggo_deploy::events::Told) {
        self.clusters.lock().unwrap().insert(told.cluster);
        match told.event {
            Event::OperationStarted { .. } => {
                let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(now, Ordering::SeqCst);
            }
            Event::OperationFinished { .. } => drop(self.now.fetch_sub(1, Ordering::SeqCst)),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_clusters_are_installed_at_once_in_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let watch = Arc::new(Watch::default());
    let sites =
        [Site::new("one", 20, Duration::from_millis(5)), Site::new("two", 30, Duration::from_millis(5))];
    let sites = sites.map(Arc::new);
    let mut tasks = Vec::new();
    for site in &sites {
        let request = site.request(folder.path(), watch.clone(), Stop::default());
        // Spawned: so the whole of an install can move between threads.
        tasks.push(tokio::spawn(async move { operation::prepare(request).await?.run().await }));
    }
    for (task, site) in tasks.into_iter().zip(&sites) {
        let installed = task.await.unwrap().unwrap();
        assert_eq!(installed.nodes, site.nodes.len());
        assert!(site.nodes.iter().all(|node| node.state().store.len() == 20));
        assert!(journal(site, folder.path()).iter().all(|(_, _, done)| *done));
    }
    assert_eq!(watch.most.load(Ordering::SeqCst), 2, "they ran at the same time");
    assert_eq!(*watch.clusters.lock().unwrap(), ["one", "two"].map(String::from).into());
    // The same cluster twice is refused, and the first is not disturbed.
    let site = &sites[0];
    let both = [0, 1].map(|_| async {
        operation::prepare(site.request(folder.path(), Arc::new(Silent), Stop::default())).await?.run().await
    });
    let both = futures::future::join_all(both).await;
    let busy =
        both.iter().filter(|result| matches!(result, Err(report) if report.code.as_str() == "journal-busy"));
    assert_eq!((busy.count(), both.iter().filter(|result| result.is_ok()).count()), (1, 1));
}
