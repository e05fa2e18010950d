//! How many nodes are worked on at once: never more than the limits say, and together where operations share them.

use crate::node::{Node, Site};
use eggo_deploy::events::Silent;
use eggo_deploy::operation::{self, Access, Limits};
use eggo_deploy::remote::{Command, Host, Output, RemoteError};
use eggo_deploy::stop::Stop;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The nodes that have commands to do, and the most that ever had at the same time.
#[derive(Default)]
struct Gauge(Mutex<(BTreeMap<String, usize>, usize)>);

impl Gauge {
    fn most(&self) -> usize {
        self.0.lock().unwrap().1
    }

    fn begin(&self, node: &str) {
        let (busy, most) = &mut *self.0.lock().unwrap();
        *busy.entry(node.to_string()).or_default() += 1;
        *most = busy.len().max(*most);
    }

    fn end(&self, node: &str) {
        let (busy, _) = &mut *self.0.lock().unwrap();
        *busy.get_mut(node).unwrap() -= 1;
        busy.retain(|_, commands| *commands > 0);
    }
}

struct Counted {
    node: Arc<Node>,
    gauge: Arc<Gauge>,
}

impl Host for Counted {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn run(&self, command: Command) -> BoxFuture<'_, Result<Output, RemoteError>> {
        Box::pin(async move {
            self.gauge.begin(self.name());
            let result = self.node.run(command).await;
            self.gauge.end(self.name());
            result
        })
    }
}

async fn install(site: &Site, folder: &Path, limits: &Limits, gauge: &Arc<Gauge>) {
    let mut request = site.request(folder, Arc::new(Silent), Stop::default());
    let hosts = site.nodes.iter().map(|node| {
        let counted = Counted { node: node.clone(), gauge: gauge.clone() };
        (node.name().to_string(), Arc::new(counted) as Arc<dyn Host>)
    });
    request.access = Access::given(hosts.collect()).limited(limits.clone());
    let installed = operation::prepare(request).await.unwrap().run().await.unwrap();
    assert_eq!(installed.nodes, site.nodes.len());
    assert!(site.nodes.iter().all(|node| node.state().store.len() == 20));
}

#[tokio::test]
async fn no_more_nodes_than_the_limit_are_worked_on_at_once() {
    for most in [1, 2] {
        let (folder, gauge) = (tempfile::tempdir().unwrap(), Arc::default());
        let site = Site::new("demo", 12, Duration::from_millis(2));
        install(&site, folder.path(), &Limits::default().nodes_at_once(most), &gauge).await;
        assert_eq!(gauge.most(), most);
    }
}

#[tokio::test]
async fn operations_that_share_their_limits_keep_them_together() {
    let (folder, gauge) = (tempfile::tempdir().unwrap(), Arc::default());
    let sites = ["one", "two", "three"].map(|name| Site::new(name, 6, Duration::from_millis(2)));
    // Less than a single item: content goes in smaller pieces, one after the other.
    let limits = Limits::default().nodes_at_once(2).bytes_in_flight(1000);
    let installs = sites.iter().map(|site| install(site, folder.path(), &limits, &gauge));
    futures::future::join_all(installs).await;
    assert_eq!(gauge.most(), 2);
    // With limits of their own, they do not wait for each other.
    let (folder, gauge) = (tempfile::tempdir().unwrap(), Arc::default());
    let sites = ["one", "two", "three"].map(|name| Site::new(name, 6, Duration::from_millis(2)));
    let own = sites.each_ref().map(|_| Limits::default().nodes_at_once(2));
    let installs = sites.iter().zip(&own).map(|(site, own)| install(site, folder.path(), own, &gauge));
    futures::future::join_all(installs).await;
    assert!((3..=6).contains(&gauge.most()), "{}", gauge.most());
}
