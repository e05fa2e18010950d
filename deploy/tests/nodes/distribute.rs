//! Distribution over real connections: one pass over the content for many nodes, cuts in the middle.

use crate::sshd::Sshd;
use eggo_bundles::{Arch, Digest, Item, Kind};
use eggo_deploy::distribute::{Delivery, Source, distribute};
use eggo_deploy::events::{Event, Silent, Sink};
use eggo_deploy::journal::Journal;
use eggo_deploy::run::Run;
use eggo_deploy::{facts, store};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

/// Content made from its path, so that none of it is in memory.
struct Made(BTreeMap<String, u64>);

struct Stream {
    state: u64,
    left: u64,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        for chunk in buffer[..length].chunks_mut(8) {
            self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let bytes = self.state.to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        self.left -= length as u64;
        Ok(length)
    }
}

impl Made {
    fn stream(path: &str, size: u64) -> Stream {
        Stream {
            state: path.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte))),
            left: size,
        }
    }

    fn items(&self) -> Vec<Arc<Item>> {
        let item = |(path, size): (&String, &u64)| {
            let (sha256, _) =
                Digest::of_reader(&mut io::BufReader::with_capacity(1 << 16, Made::stream(path, *size)))
                    .unwrap();
            Arc::new(Item { path: path.clone(), ..Item::new(Arch::Amd64, Kind::Bin, path, sha256, *size) })
        };
        self.0.iter().map(item).collect()
    }
}

impl Source for Made {
    fn read(&self, item: &Item) -> io::Result<Box<dyn Read + Send>> {
        // Whole pieces of 64 KiB, so that the stream is the same however it is read.
        Ok(Box::new(io::BufReader::with_capacity(1 << 16, Made::stream(&item.path, item.size))))
    }
}

fn made(sizes: &[u64]) -> Made {
    Made(sizes.iter().enumerate().map(|(n, size)| (format!("amd64/bin/{n:03}"), *size)).collect())
}

fn assert_has(sshd: &Sshd, items: &[Arc<Item>]) {
    for item in items {
        let mut file = std::fs::File::open(sshd.own(&format!("store/sha256/{}", item.sha256))).unwrap();
        assert_eq!(Digest::of_reader(&mut file).unwrap(), (item.sha256, item.size), "{}", item.path);
    }
    assert_eq!(std::fs::read_dir(sshd.own("store/in")).unwrap().count(), 0);
}

#[tokio::test]
async fn three_nodes_then_again_with_everything_there() {
    let hosts: Option<Vec<Sshd>> = ["a", "b", "c"].into_iter().map(Sshd::start).collect();
    let Some(hosts) = hosts else { return };
    let source = Arc::new(made(&[10, 70_000, 5 << 20, 20 << 20, 0, 512]));
    let items = source.items();
    let total: u64 = items.iter().map(|item| item.size).sum();
    let folder = tempfile::tempdir().unwrap();
    let run = Run::new(Journal::open(folder.path()).unwrap(), Arc::new(Silent));
    for expected in [total, 0] {
        let mut deliveries = Vec::new();
        for sshd in &hosts {
            let host = sshd.host(Arc::new(Silent));
            let contents = facts::look(&*host, facts::Look::survey()).await.unwrap().store;
            deliveries.push(Delivery { host, items: items.clone(), contents });
        }
        let delivered = distribute(deliveries, source.clone(), &run).await;
        assert!(delivered.failures.is_empty(), "{:?}", delivered.failures);
        assert!(delivered.sent.values().all(|sent| *sent == expected), "{:?}", delivered.sent);
        hosts.iter().for_each(|sshd| assert_has(sshd, &items));
    }
}

/// Kills the sshd process that serves the connection, once, when enough has arrived.
struct Cutter {
    at: Mutex<Option<u64>>,
    pid: std::path::PathBuf,
}

impl Sink for Cutter {
    fn event(&self, event: Event) {
        let Event::Progress { done, .. } = event else { return };
        let mut at = self.at.lock().unwrap();
        if at.take_if(|at| done >= *at).is_some() {
            let pid = std::fs::read_to_string(&self.pid).unwrap();
            let killed = std::process::Command::new("kill").args(["-9", pid.trim()]).status().unwrap();
            assert!(killed.success());
        }
    }
}

#[tokio::test]
async fn a_cut_is_taken_up_at_the_byte() {
    let Some(sshd) = Sshd::start("a") else { return };
    let source = Arc::new(made(&[1000, 200 << 20, 2000]));
    let items = source.items();
    let cutter = Arc::new(Cutter { at: Mutex::new(Some(20 << 20)), pid: sshd.own("pid") });
    let host = sshd.host(cutter.clone());
    let note = eggo_deploy::remote::Command::look("note", "echo $PPID > /var/lib/eggo/pid");
    eggo_deploy::remote::Host::run(&*host, note).await.unwrap();
    let contents = store::Contents::default();
    let delivery = Delivery { host: host.clone(), items: items.clone(), contents };
    let folder = tempfile::tempdir().unwrap();
    let run = Run::new(Journal::open(folder.path()).unwrap(), cutter.clone());
    let delivered = distribute(vec![delivery], source, &run).await;
    assert!(delivered.failures.is_empty(), "{:?}", delivered.failures);
    assert_has(&sshd, &items);
    let sent = delivered.sent["a"];
    let total: u64 = items.iter().map(|item| item.size).sum();
    // What was on the wire when it was cut is sent again; not the whole.
    assert!(sent >= total && sent < total + (32 << 20), "{sent} of {total}");
    assert!(cutter.at.lock().unwrap().is_none(), "nothing was cut");
}
