use super::*;
use crate::events::{Event, Silent, Sink};
use crate::journal::Journal;
use crate::remote::local::Local;
use eggo_bundles::{Arch, Kind};
use std::sync::Mutex;
use std::time::Duration;

/// Content in memory, which remembers how often each item was read.
#[derive(Default)]
struct Shelf {
    content: BTreeMap<Digest, Vec<u8>>,
    reads: Mutex<Vec<String>>,
}

impl Shelf {
    /// Items of these sizes, each with its own bytes.
    fn new(sizes: &[usize]) -> (Arc<Self>, Vec<Arc<Item>>) {
        let mut shelf = Self::default();
        let mut items = Vec::new();
        for (n, size) in sizes.iter().enumerate() {
            let bytes: Vec<u8> = (0..*size).map(|i| ((i * 31 + n * 7) % 251) as u8).collect();
            items.push(Arc::new(item(&format!("amd64/bin/{n:03}"), &bytes)));
            shelf.content.insert(Digest::of(&bytes), bytes);
        }
        (Arc::new(shelf), items)
    }
}

fn item(path: &str, bytes: &[u8]) -> Item {
    let item = Item::new(Arch::Amd64, Kind::Bin, path, Digest::of(bytes), bytes.len() as u64);
    Item { path: path.into(), ..item }
}

impl Source for Shelf {
    fn read(&self, item: &Item) -> io::Result<Box<dyn Read + Send>> {
        self.reads.lock().unwrap().push(item.path.clone());
        Ok(Box::new(io::Cursor::new(self.content[&item.sha256].clone())))
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<Event>>);

impl Sink for Heard {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

/// In a run of its own.
async fn bring(deliveries: Vec<Delivery>, source: Arc<dyn Source>, events: Arc<dyn Sink>) -> Delivered {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::new(Journal::open(folder.path()).unwrap(), events);
    distribute(deliveries, source, &run).await
}

fn delivery(host: &Arc<Local>, items: &[Arc<Item>]) -> Delivery {
    Delivery { host: host.clone(), items: items.to_vec(), contents: store::Contents::default() }
}

fn assert_has_all(host: &Local, shelf: &Shelf, items: &[Arc<Item>]) {
    for item in items {
        let bytes = std::fs::read(host.path(&store::path(&item.sha256))).unwrap();
        assert!(bytes == shelf.content[&item.sha256], "{}", item.path);
    }
    assert_eq!(std::fs::read_dir(host.path(store::INCOMING)).unwrap().count(), 0);
}

#[tokio::test]
async fn every_item_is_read_once_and_every_node_gets_its_own() {
    let (shelf, items) = Shelf::new(&[0, 1, 511, 512, 513, 700_000, 3_000_000]);
    let all = Arc::new(Local::new("all"));
    let some = Arc::new(Local::new("some"));
    let heard = Arc::new(Heard::default());
    let deliveries = vec![delivery(&all, &items), delivery(&some, &items[4..])];
    let delivered = bring(deliveries, shelf.clone(), heard.clone()).await;
    assert!(delivered.failures.is_empty(), "{:?}", delivered.failures);
    assert_has_all(&all, &shelf, &items);
    assert_has_all(&some, &shelf, &items[4..]);
    assert_eq!(delivered.sent["all"], 3_701_537);
    assert_eq!(delivered.sent["some"], 3_700_513);
    let mut reads = shelf.reads.lock().unwrap().clone();
    reads.sort();
    assert_eq!(reads.len(), 7, "{reads:?}");
    let heard = heard.0.lock().unwrap();
    let last = heard.iter().rev().find(|event| matches!(event, Event::Progress { .. }));
    assert!(matches!(last, Some(Event::Progress { done, total, .. }) if done == total), "{last:?}");
}

#[tokio::test]
async fn a_node_that_has_all_is_not_even_asked() {
    let (shelf, items) = Shelf::new(&[100, 200]);
    let host = Arc::new(Local::new("a"));
    let whole = items.iter().map(|item| (item.sha256, item.size)).collect();
    let mut delivery = delivery(&host, &items);
    delivery.contents.whole = whole;
    let delivered = bring(vec![delivery], shelf.clone(), Arc::new(Silent)).await;
    assert!(delivered.failures.is_empty());
    assert_eq!(host.runs(), 0);
    assert!(shelf.reads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_cut_is_taken_up_at_the_byte() {
    let (shelf, items) = Shelf::new(&[2000, 8_000_000, 3000]);
    let host = Arc::new(Local::new("a").cut_after(5_000_000));
    let delivered = bring(vec![delivery(&host, &items)], shelf.clone(), Arc::new(Silent)).await;
    assert!(delivered.failures.is_empty(), "{:?}", delivered.failures);
    assert_has_all(&host, &shelf, &items);
    // The second connection sends what the first did not, but for the piece that the cut fell into.
    let sent = delivered.sent["a"];
    assert!((8_005_000..9_100_000).contains(&sent), "{sent}");
}

#[tokio::test]
async fn a_slow_node_does_not_hold_the_others() {
    let (shelf, items) = Shelf::new(&[6_000_000, 6_000_000, 6_000_000, 6_000_000]);
    let fast = Arc::new(Local::new("fast"));
    let slow = Arc::new(Local::new("slow").slow(Duration::from_millis(60)));
    /// The nodes in the order in which they had everything.
    struct Finished(Mutex<Vec<String>>);
    impl Sink for Finished {
        fn event(&self, event: Event) {
            if let Event::Progress { node, done, total, .. } = event
                && done == total
            {
                self.0.lock().unwrap().push(node);
            }
        }
    }
    let finished = Arc::new(Finished(Mutex::default()));
    let both = vec![delivery(&slow, &items), delivery(&fast, &items)];
    let delivered = bring(both, shelf.clone(), finished.clone()).await;
    assert!(delivered.failures.is_empty(), "{:?}", delivered.failures);
    assert_has_all(&fast, &shelf, &items);
    assert_has_all(&slow, &shelf, &items);
    assert_eq!(finished.0.lock().unwrap().first().map(String::as_str), Some("fast"));
}

#[tokio::test]
async fn what_arrives_damaged_is_sent_again_and_then_given_up() {
    struct Liar(Arc<Shelf>);
    impl Source for Liar {
        fn read(&self, item: &Item) -> io::Result<Box<dyn Read + Send>> {
            let mut bytes = self.0.content[&item.sha256].clone();
            bytes[0] ^= 1;
            Ok(Box::new(io::Cursor::new(bytes)))
        }
    }
    let (shelf, items) = Shelf::new(&[5000]);
    let host = Arc::new(Local::new("a"));
    let source = Arc::new(Liar(shelf));
    let delivered = bring(vec![delivery(&host, &items)], source, Arc::new(Silent)).await;
    assert_eq!(delivered.failures.len(), 1);
    let report = &delivered.failures[0].report;
    assert_eq!(report.message, "a: `amd64/bin/000` does not arrive intact: its sha256 differs on the node");
    assert!(!host.path(&store::path(&items[0].sha256)).exists());
}

#[tokio::test]
async fn a_bundle_that_cannot_be_read_stops_all_and_says_so() {
    struct Broken;
    impl Source for Broken {
        fn read(&self, _item: &Item) -> io::Result<Box<dyn Read + Send>> {
            Err(io::Error::other("bad gzip"))
        }
    }
    let (_, items) = Shelf::new(&[5000]);
    let host = Arc::new(Local::new("a"));
    let delivered = bring(vec![delivery(&host, &items)], Arc::new(Broken), Arc::new(Silent)).await;
    let report = &delivered.failures[0].report;
    assert_eq!(report.message, "cannot read `amd64/bin/000` from the bundle: bad gzip");
    assert_eq!(report.exit, Exit::Untrusted);
}
