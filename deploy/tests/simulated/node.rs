//! A simulated node: it remembers what it was sent and told, takes a while for every command, and answers as a node would.
//! It proves how the library behaves with many nodes, not that its scripts work.

use bytes::Bytes;
use eggo_bundles::{Arch, Digest, Index, Item, Kind, Role};
use eggo_deploy::config::{self, Config};
use eggo_deploy::distribute::Source;
use eggo_deploy::events::Sink;
use eggo_deploy::operation::{Access, InstallRequest, Options};
use eggo_deploy::phases::Selection;
use eggo_deploy::preflight::Check;
use eggo_deploy::remote::{self, Command, Host, Output, RemoteError, Stdin};
use eggo_deploy::stop::Stop;
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Up to installed content: what comes after it asks Kubernetes.
const PHASES: [&str; 4] = ["distribute", "system", "files", "prune"];

pub struct Node {
    name: String,
    pause: Duration,
    state: Mutex<State>,
    /// Commands that it was given.
    asked: AtomicUsize,
    /// Something that a check finds, and that differs from day to day.
    pub swap: AtomicBool,
}

/// What is on the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Content that has arrived, with its size.
    pub store: BTreeMap<String, u64>,
    /// What was done, by title, with the digest of how: twice the same is once.
    pub done: BTreeSet<(String, Digest)>,
    pub mark: String,
    pub holder: String,
    pub cluster: String,
}

impl Node {
    pub fn new(name: impl Into<String>, pause: Duration) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            pause,
            state: Mutex::default(),
            asked: AtomicUsize::new(0),
            swap: AtomicBool::new(false),
        })
    }

    /// Without its mark, which is random, and the folder that has it.
    pub fn state(&self) -> State {
        State { mark: String::new(), holder: String::new(), ..self.state.lock().unwrap().clone() }
    }

    fn facts(&self) -> String {
        let state = self.state.lock().unwrap();
        let list: String = state
            .store
            .iter()
            .map(|(name, size)| format!("-rw------- 1 0 0 {size} Nov 16 03:00 {name}\n"))
            .collect();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        format!(
            "@@ clock\n{now}\n@@ uname\nLinux\n{}\n6.1.0\nx86_64\n@@ os\nID=debian\nVERSION_ID=\"12\"\n@@ init\nsystemd\n@@ cpus\n4\n\
             @@ memory\nMemTotal: 8035220\nMemAvailable: 7800000\nSwapTotal: {}\n@@ disks\n\
             Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda1 90000000 1000000 80000000 2% /\n\
             @@ mounts\n/dev/vda1 / ext4 rw,relatime 0 0\n@@ cgroup\nv2\ncpu memory pids\n@@ packages\ndpkg\n\
             ii \tlibc6\t2.36-9\tamd64\n@@ store\n{list}@@ mark\n{}\nholder {}\n@@ cluster\n{}\n@@ end\n",
            self.name,
            if self.swap.load(Ordering::Relaxed) { 1_000_000 } else { 0 },
            state.mark,
            state.holder,
            state.cluster
        )
    }

    fn answer(&self, command: &Command, stdin: &[u8]) -> String {
        match command.title.as_str() {
            "look at the node" => return self.facts(),
            "receive content" | "reach the other nodes" | "look at installed files" => {}
            "claim the node" => {
                let word = |name: &str| {
                    let value = command.script().lines().find_map(|line| line.strip_prefix(name));
                    value.map(|value| value.trim_matches('\'').to_string()).expect("a claim sets it")
                };
                let (mut state, mark) = (self.state.lock().unwrap(), word("MARK="));
                if !["", mark.as_str(), word("REPLACES=").as_str()].contains(&state.mark.as_str()) {
                    return format!("{}\nholder {}\n", state.mark, state.holder);
                }
                (state.mark, state.holder, state.cluster) = (mark, word("HOLDER="), word("CLUSTER="));
            }
            title => {
                assert_eq!(command.kind(), remote::Kind::Change, "{title}");
                let how = Digest::of(&[command.script().as_bytes(), stdin].concat());
                let new = self.state.lock().unwrap().done.insert((title.to_string(), how));
                if title == "install files" {
                    return if new { "changed\n".into() } else { String::new() };
                }
                if title.starts_with("write ") {
                    let files = if title.ends_with("more files") { 2 } else { 1 };
                    return if new { "changed\n" } else { "same\n" }.repeat(files);
                }
            }
        }
        String::new()
    }

    /// Takes a tar apart while it comes; what is whole in it, with its list at the end, is kept.
    async fn receive(&self, pieces: &mut tokio::sync::mpsc::Receiver<Bytes>) -> String {
        let (mut header, mut left, mut padding) = (Vec::new(), 0u64, 0u64);
        let (mut whole, mut listed) = (Vec::new(), false);
        while let Some(mut piece) = pieces.recv().await {
            while !piece.is_empty() {
                if left + padding > 0 {
                    let take = piece.len().min(usize::try_from(left + padding).unwrap());
                    let _ = piece.split_to(take);
                    let data = left.min(take as u64);
                    left -= data;
                    padding -= take as u64 - data;
                    continue;
                }
                let take = piece.len().min(512 - header.len());
                header.extend_from_slice(&piece.split_to(take));
                if header.len() == 512 {
                    let text = |range: std::ops::Range<usize>| {
                        let bytes: Vec<u8> =
                            header[range].iter().copied().take_while(|byte| *byte != 0).collect();
                        String::from_utf8(bytes).unwrap()
                    };
                    let (name, size) = (text(0..100), text(124..136));
                    left = u64::from_str_radix(size.trim(), 8).unwrap_or(0);
                    padding = (512 - left % 512) % 512;
                    listed |= name.starts_with("list.");
                    if name.parse::<Digest>().is_ok() {
                        whole.push((name, left));
                    }
                    header.clear();
                }
            }
        }
        if !listed {
            return String::new();
        }
        let good: String = whole.iter().map(|(name, _)| format!("good {name}\n")).collect();
        self.state.lock().unwrap().store.extend(whole);
        good + "verified\n"
    }
}

impl Host for Node {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&self, mut command: Command) -> BoxFuture<'_, Result<Output, RemoteError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let received = match std::mem::take(&mut command.stdin) {
                Stdin::Stream(mut pieces) => Some(self.receive(&mut pieces).await),
                Stdin::Bytes(bytes) => {
                    command.stdin = Stdin::Bytes(bytes);
                    None
                }
                Stdin::Empty => None,
            };
            tokio::time::sleep(self.pause).await;
            let stdin = match &command.stdin {
                Stdin::Bytes(bytes) => bytes.clone(),
                _ => Bytes::new(),
            };
            let stdout = received.unwrap_or_else(|| self.answer(&command, &stdin));
            Ok(Output { status: 0, stdout: stdout.into(), stderr: Bytes::new() })
        })
    }
}

/// So many nodes of one cluster: one master, the others workers.
pub struct Site {
    pub config: Arc<Config>,
    pub nodes: Vec<Arc<Node>>,
    content: Arc<Made>,
}

/// Content that is nowhere but here.
struct Made {
    index: Index,
    bytes: BTreeMap<Digest, Vec<u8>>,
}

impl Source for Made {
    fn read(&self, item: &Item) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(io::Cursor::new(self.bytes[&item.sha256].clone())))
    }
}

impl Site {
    pub fn new(cluster: &str, nodes: usize, pause: Duration) -> Self {
        let ip = |n: usize| format!("172.16.{}.{}", n / 250, n % 250 + 1);
        let entry = |n: usize| format!("- {{name: {cluster}-{n}, ip: {}, arch: amd64}}\n", ip(n));
        let workers: String = (nodes.min(1)..nodes).map(entry).collect();
        let workers = if workers.is_empty() { entry(0) } else { workers };
        let text = format!(
            "cluster-id: {cluster}\nmasters:\n{}workers:\n{workers}runtime: containerd\ninstall: {{package-source: {{type: bundle}}}}\n",
            entry(0)
        );
        let config = config::parse("deploy.yaml", text.as_bytes())
            .unwrap_or_else(|problems| panic!("{problems}"))
            .config;
        let nodes = (0..nodes).map(|n| Node::new(format!("{cluster}-{n}"), pause)).collect();
        let mut made = Made { index: Index::new("demo", "1", vec![Arch::Amd64]), bytes: BTreeMap::new() };
        for n in 0..20u8 {
            let bytes = format!("#!/bin/sh\necho {n}\n").repeat(200).into_bytes();
            let name = format!("tool-{n:02}");
            let sha256 = Digest::of(&bytes);
            made.index.items.push(Item {
                name: name.clone(),
                roles: vec![Role::Master, Role::Worker],
                dst: Some("/usr/local/bin".into()),
                ..Item::new(Arch::Amd64, Kind::Bin, &name, sha256, bytes.len() as u64)
            });
            made.bytes.insert(sha256, bytes);
        }
        Self { config: Arc::new(config), nodes, content: Arc::new(made) }
    }

    /// Commands that its nodes were given.
    pub fn asked(&self) -> usize {
        self.nodes.iter().map(|node| node.asked.load(Ordering::Relaxed)).sum()
    }

    pub fn request(&self, folder: &Path, events: Arc<dyn Sink>, stop: Stop) -> InstallRequest {
        let host = |node: &Arc<Node>| (node.name.clone(), node.clone() as Arc<dyn Host>);
        InstallRequest {
            config: self.config.clone(),
            access: Access::given(self.nodes.iter().map(host).collect()),
            operator: "ops@desk".into(),
            index: Arc::new(self.content.index.clone()),
            source: self.content.clone(),
            state: folder.join(&self.config.cluster_id),
            options: Options {
                ignore: Check::all().collect(),
                selection: Selection { only: PHASES.map(String::from).into(), ..Selection::default() },
                ..Options::default()
            },
            rolling: Default::default(),
            events,
            stop,
        }
    }
}
