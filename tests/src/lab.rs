//! Real hosts for tests, by `scripts/lab`.
//!
//! [`Lab::take`] gives a test the hosts that it asks for, with fresh disks, and keeps every other test off them until it is
//! dropped. Hosts stay between tests, because a reset is ten times faster than a new lab; `scripts/lab down` removes them.
//! When a test fails, the console and journal of each of its hosts are kept under `target/lab-logs/`.
//!
//! Tests on hosts run only where `EGGO_LAB` names a lab (`scripts/test hosts` does); elsewhere they say that they skip.

mod facts;
mod host;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub use facts::Upstream;
pub use host::{Host, Kind, Login, Slow};

use facts::Facts;

/// The size of a disk where a test does not say.
const DISK: &str = "20G";

/// The hosts of one test, and the right to break them.
pub struct Lab {
    name: String,
    facts: Facts,
    hosts: Vec<Host>,
    /// Held for the whole test; the file system lets go of it when the process ends, however it ends.
    _turn: File,
}

impl Lab {
    /// Waits for this lab's turn, then brings up the hosts, each named and with a fresh disk.
    ///
    /// Prints why and returns `None` where no lab may be used: a test does
    /// `let Some(lab) = Lab::take(&[("a", Kind::DebAmd64)]) else { return };`
    ///
    /// # Panics
    /// When the lab does not come up: a test cannot go on without it, and cannot pass either.
    pub fn take(wanted: &[(&str, Kind)]) -> Option<Self> {
        let sized: Vec<_> = wanted.iter().map(|(name, kind)| (*name, *kind, None)).collect();
        Self::take_sized(&sized)
    }

    /// Like [`Lab::take`], with a disk size such as `Some("400M")` where a test needs one.
    pub fn take_sized(wanted: &[(&str, Kind, Option<&str>)]) -> Option<Self> {
        let name = allowed()?;
        let turn = take_turn(&name);
        let list: Vec<String> = wanted
            .iter()
            .map(|(host, kind, size)| {
                let size = size.map(|size| format!(":{size}")).unwrap_or_default();
                format!("{host}={}{size}", kind.as_str())
            })
            .collect();
        // of the hosts that earlier tests left, those that fit get a fresh disk, and others of the same name go
        let known = facts(&name).map(|facts| facts.hosts).unwrap_or_default();
        let (fitting, others): (Vec<_>, Vec<_>) = wanted
            .iter()
            .filter_map(|(host, kind, size)| {
                let found = known.iter().find(|known| known.name == *host)?;
                let fits = found.kind == kind.as_str() && found.disk == size.unwrap_or(DISK);
                Some((*host, fits))
            })
            .partition(|(_, fits)| *fits);
        for (command, chosen) in [("reset", fitting), ("remove", others)] {
            if !chosen.is_empty() {
                let hosts = chosen.iter().map(|(host, _)| *host);
                succeed(&name, std::iter::once(command).chain(hosts));
            }
        }
        succeed(&name, ["up", "--hosts", &list.join(",")]);
        let facts = facts(&name).expect("a lab that is up can be described");
        let hosts = wanted.iter().map(|(host, ..)| Host::new(&name, &facts, host)).collect();
        Some(Self { name, facts, hosts, _turn: turn })
    }

    /// A host by the name that the test gave it.
    ///
    /// # Panics
    /// When the test did not ask for it.
    pub fn host(&self, name: &str) -> &Host {
        self.hosts
            .iter()
            .find(|host| host.name() == name)
            .unwrap_or_else(|| panic!("this test asked for no host `{name}`"))
    }

    /// The hosts in the order that the test named them.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The private key that opens `root` and `ops` on every host; the password of both is `lab`.
    pub fn key(&self) -> &Path {
        &self.facts.key
    }

    /// Every host's ssh key, as OpenSSH writes it.
    pub fn known_hosts(&self) -> &Path {
        &self.facts.known_hosts
    }

    /// This machine's address in the lab's network.
    pub fn gateway(&self) -> &str {
        &self.facts.gateway
    }

    /// Starts the stand-in for the internet, which this machine reaches and the hosts do not.
    pub fn upstream(&self) -> Upstream {
        succeed(&self.name, ["upstream", "up"]);
        succeed(&self.name, ["upstream", "close"]);
        self.described_upstream()
    }

    /// The same, reachable from the hosts too.
    pub fn open_upstream(&self) -> Upstream {
        succeed(&self.name, ["upstream", "open"]);
        self.described_upstream()
    }

    fn described_upstream(&self) -> Upstream {
        facts(&self.name).and_then(|facts| facts.upstream).expect("an upstream that is up can be described")
    }

    /// Runs `scripts/lab` for this lab with words of the test's own.
    pub fn command(&self, words: &[&str]) -> Output {
        run(&self.name, words)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let test = std::thread::current().name().unwrap_or("test").replace("::", "-");
        let folder = project().join("target/lab-logs").join(test);
        if fs::create_dir_all(&folder).is_err() {
            return;
        }
        for host in &self.hosts {
            let log = folder.join(format!("{}.log", host.name()));
            if fs::write(&log, host.logs()).is_ok() {
                eprintln!("the log of host `{}` is in {}", host.name(), log.display());
            }
        }
    }
}

/// The lab that tests may use. Prints why and returns `None` where there is none.
pub fn allowed() -> Option<String> {
    let name = std::env::var("EGGO_LAB").ok().filter(|name| !name.is_empty());
    if name.is_none() {
        println!("skipped: no lab (set EGGO_LAB, or run scripts/test hosts)");
    }
    name
}

/// Builds of Kubernetes in the lab's cache: the folder with the programs of a version and an arch (`amd64`, `arm64`).
///
/// Prints why and returns `None` when that version was not built.
pub fn kubernetes(version: &str, arch: &str) -> Option<PathBuf> {
    let folder = cache().join("kubernetes").join(version).join(arch);
    if folder.join("kube-apiserver").exists() {
        return Some(folder);
    }
    println!("skipped: Kubernetes {version} for {arch} is not built (scripts/lab kubernetes {version})");
    None
}

/// Where `scripts/lab` keeps its images and builds.
pub fn cache() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folder) = variable("EGGO_LAB_CACHE") {
        return folder.into();
    }
    let caches = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(variable("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    caches.unwrap_or_else(home).join("eggo-lab")
}

/// The project's root folder.
pub fn project() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_path_buf()
}

/// One test at a time: the others wait here, also those of other processes.
fn take_turn(lab: &str) -> File {
    let folder = cache().join("locks");
    fs::create_dir_all(&folder).expect("the lab's cache can be written");
    let path = folder.join(format!("test-{lab}"));
    let file = File::create(&path).expect("the lab's lock can be made");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("the lab's lock can be taken");
    file
}

fn facts(lab: &str) -> Option<Facts> {
    Facts::parse(succeed(lab, ["status", "--format", "json"]).as_bytes())
}

fn run<Word: AsRef<std::ffi::OsStr>>(lab: &str, words: impl IntoIterator<Item = Word>) -> Output {
    Command::new(project().join("scripts/lab"))
        .args(["--lab", lab])
        .args(words)
        .output()
        .expect("scripts/lab can be run")
}

fn succeed<'a>(lab: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    let output = run(lab, &words);
    assert!(
        output.status.success(),
        "`scripts/lab {}` failed:\n{}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
