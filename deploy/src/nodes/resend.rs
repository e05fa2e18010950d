//! What to do about content that was damaged in a node's store since it was verified there: it is sent again, once.

use super::Nodes;
use crate::distribute::{Delivery, distribute};
use crate::events::Event;
use crate::node::Planned;
use crate::store::{Contents, Damaged};
use eggo_errors::Report;

/// Does `work`, which uses the node's store and says [`Damaged`] before it uses anything that is. It is done again when
/// everything is intact; what is damaged by then is an error.
pub(super) async fn with_intact<T, W>(
    all: &Nodes,
    node: &Planned<'_>,
    work: impl Fn() -> W,
) -> Result<T, Report>
where
    W: Future<Output = Result<T, Report>>,
{
    let report = match work().await {
        Err(report) if report.code == Damaged::CODE => report,
        other => return other,
    };
    all.run.event(Event::note(Some(&node.host.name), format!("{}; it is sent again", report.message)));
    let delivery = Delivery {
        host: node.remote.clone(),
        items: node.plan.items.iter().map(|wanted| wanted.item.clone()).collect(),
        contents: Contents::suspect(),
    };
    let delivered = distribute(vec![delivery], all.source.clone(), &all.run).await;
    match delivered.failures.into_iter().next() {
        Some(failure) => Err(failure.report),
        None => work().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::distribute::Source;
    use crate::events::Silent;
    use crate::journal::Journal;
    use crate::node::Node;
    use crate::plan::{NodePlan, Plan, Wanted};
    use crate::remote::local::Local;
    use crate::remote::{Command, Script};
    use crate::run::{Permit, Run};
    use crate::store::{INTACT, inspect, path};
    use eggo_bundles::{Arch, Digest, Item, Kind};
    use std::io::{self, Read};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const TEXTS: [&str; 3] = ["one", "two", "three"];

    struct Texts;

    impl Source for Texts {
        fn read(&self, item: &Item) -> io::Result<Box<dyn Read + Send>> {
            Ok(Box::new(io::Cursor::new(item.name.clone().into_bytes())))
        }
    }

    fn item(text: &str) -> Arc<Item> {
        Arc::new(Item::new(Arch::Amd64, Kind::Bin, text, Digest::of(text.as_bytes()), text.len() as u64))
    }

    /// A node whose store has everything.
    async fn nodes(host: &Arc<Local>, folder: &std::path::Path) -> Nodes {
        let deploy = "masters: [{name: m, ip: 10.0.0.1, arch: amd64}]\n\
                      workers: [{name: m, ip: 10.0.0.1, arch: amd64}]\n\
                      install: {package-source: {type: bundle}}\n";
        let config = Arc::new(config::parse("deploy.yaml", deploy.as_bytes()).unwrap().config);
        let items = TEXTS.map(|text| Wanted { item: item(text), dst: None });
        let plan = NodePlan {
            name: "m".into(),
            ip: config.hosts[0].ip,
            arch: Arch::Amd64,
            roles: Vec::new(),
            bytes: 0,
            bytes_to_send: 0,
            items: items.into(),
            images: Vec::new(),
            packages: None,
            repo_packages: Vec::new(),
            hooks: Vec::new(),
            steps: Vec::new(),
            expects: Vec::new(),
        };
        let (cluster, addons) = ("k".into(), Vec::new());
        let plan = Plan { cluster, nodes: vec![plan], addons, network_without_addon: None };
        let nodes = vec![Node::new(config.hosts[0].clone(), host.clone() as _)];
        let run = Arc::new(Run::new(Journal::open(folder).unwrap(), Arc::new(Silent)));
        let all = Nodes {
            config,
            plan: Arc::new(plan),
            nodes,
            run,
            source: Arc::new(Texts),
            operator: String::new(),
            take_over: false,
        };
        assert_eq!(with_intact(&all, &all.planned()[0], || use_all(host)).await.unwrap(), "onetwothree");
        all
    }

    /// What uses everything in the store, as the phases do.
    async fn use_all(host: &Arc<Local>) -> Result<String, Report> {
        let script = Script::new([INTACT, "intact \"$@\"\ncat \"$@\"\n"])
            .args(TEXTS.map(|text| path(&Digest::of(text.as_bytes()))));
        let host = &**host;
        let output =
            crate::remote::Host::run(host, Command::look("use the store", script).unchecked()).await?;
        let items = TEXTS.map(item);
        Damaged::check("m", &output, items.iter().map(|item| &**item))?;
        Ok(output.text())
    }

    #[tokio::test]
    async fn what_changed_in_the_store_is_sent_again_before_it_is_used() {
        let (host, folder) = (Arc::new(Local::new("m")), tempfile::tempdir().unwrap());
        let all = nodes(&host, folder.path()).await;
        let place = |text: &str| host.path(&path(&Digest::of(text.as_bytes())));
        std::fs::write(place("two"), "twO").unwrap();
        std::fs::remove_file(place("three")).unwrap();
        let error = use_all(&host).await.unwrap_err();
        assert_eq!(error.code, Damaged::CODE);
        assert_eq!(error.message, "m: damaged in the node's store: amd64/bin/three, amd64/bin/two");
        assert_eq!(with_intact(&all, &all.planned()[0], || use_all(&host)).await.unwrap(), "onetwothree");
    }

    #[tokio::test]
    async fn what_is_damaged_again_is_an_error_that_names_it() {
        let (host, folder) = (Arc::new(Local::new("m")), tempfile::tempdir().unwrap());
        let all = nodes(&host, folder.path()).await;
        let tries = AtomicUsize::new(0);
        let bad_disk = || {
            tries.fetch_add(1, Ordering::Relaxed);
            std::fs::write(host.path(&path(&Digest::of(b"one"))), "oNe").unwrap();
            use_all(&host)
        };
        let error = with_intact(&all, &all.planned()[0], bad_disk).await.unwrap_err();
        assert_eq!(error.message, "m: damaged in the node's store: amd64/bin/one");
        assert_eq!(tries.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_suspect_store_keeps_what_is_intact() {
        let (host, folder) = (Arc::new(Local::new("m")), tempfile::tempdir().unwrap());
        nodes(&host, folder.path()).await;
        std::fs::write(host.path(&path(&Digest::of(b"one"))), "oNe").unwrap();
        let contents = inspect(Permit::of_a_test(), &*host).await.unwrap();
        let mut whole = [Digest::of(b"two"), Digest::of(b"three")];
        whole.sort();
        assert!(contents.whole.into_keys().eq(whole));
    }
}
