//! etcd's data: snapshots onto the control machine, and back. Members that do not answer are copied from their disks.

use super::context::{Cluster, Node};
use super::deploy::etcd::{ETCDCTL, LOCAL, asking, members};
use super::deploy::on_each;
use super::flags::peer_url;
use super::paths;
use crate::blocking::blocking;
use crate::events::Event;
use crate::failure::{Failure, PhaseError};
use crate::remote::{Command, Script};
use crate::run::{Outcome, Permit, Step, WhenStopped};
use crate::state;
use bytes::Bytes;
use eggo_bundles::{Digest, Role};
use eggo_errors::Report;
use jiff::Timestamp;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::NamedTempFile;
use tokio::sync::mpsc;

const LIMIT: Duration = Duration::from_secs(600);
/// What is sent at a time.
const PIECE: u64 = 1 << 20;
const SNAPSHOT: &str = "/var/lib/eggo/snapshot.db";

/// A snapshot that lies on the control machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    pub path: PathBuf,
    pub size: u64,
    pub sha256: Digest,
    /// The member it was taken from.
    pub member: String,
}

/// Takes a snapshot from the first member that answers. `why` becomes part of its name.
pub async fn backup(cluster: &Cluster, why: &str) -> Result<Backup, Report> {
    let mut last = Report::new("no etcd member of this cluster can be asked for a snapshot");
    if cluster.config.etcd.external.is_some() {
        return Err(Report::new("etcd is external: its snapshots are its owner's business"));
    }
    for node in cluster.with_role(Role::Etcd) {
        match backup_from(cluster, node, why).await {
            Ok(backup) => return Ok(backup),
            Err(report) => last = report,
        }
    }
    Err(last)
}

/// A snapshot before a risky change; etcd that is external, or not there yet, is left alone.
pub async fn backup_before(cluster: &Cluster, why: &str) -> Result<(), Report> {
    if cluster.config.etcd.external.is_some() {
        return Ok(());
    }
    let mut any = false;
    for node in cluster.with_role(Role::Etcd) {
        any |= node.facts(&cluster.config).await.is_ok_and(|facts| facts.etcd_data);
    }
    if any {
        let backup = backup(cluster, why).await?;
        let text = format!("snapshot of etcd: {}", backup.path.display());
        cluster.run.event(Event::note(Some(&backup.member), text));
    }
    Ok(())
}

async fn backup_from(cluster: &Cluster, node: &Node, why: &str) -> Result<Backup, Report> {
    let save = Script::new([ETCDCTL, include_str!("etcd_data/save.sh")]).set("SNAPSHOT", SNAPSHOT);
    let save = asking(save, LOCAL, "300s");
    let step = Step::new("etcd/snapshot", "take a snapshot of etcd").when_stopped(WhenStopped::GivenUp);
    let work = async |permit| {
        let digest = saved(node, Command::change(permit, "take a snapshot of etcd", save)).await?;
        Ok((Outcome::Unchanged, fetch(permit, cluster, node, digest).await?))
    };
    let file = cluster.run.step_for(&node.host.name, step, work).await?;
    keep(cluster, node, file, why).await
}

/// A copy of every member's data, as it is on its disk: for members that cannot be asked for a snapshot. Each is restored
/// as a snapshot is. Enough if one can be had; `why` becomes part of their names.
pub async fn copy(cluster: &Cluster, members: &[&Node], why: &str) -> Result<Vec<Backup>, Report> {
    let copies = members.iter().map(|node| copy_from(cluster, node, why));
    let (mut backups, mut failures) = (Vec::new(), Vec::new());
    for (node, copied) in members.iter().zip(futures::future::join_all(copies).await) {
        match copied {
            Ok(backup) => backups.push(backup),
            Err(report) => failures.push(Failure { node: node.host.name.clone(), report }),
        }
    }
    if backups.is_empty() {
        return Err(PhaseError::Nodes(failures).report("Copy the data of etcd"));
    }
    for failure in failures {
        cluster.run.event(Event::warning(Some(&failure.node), failure.report.message));
    }
    Ok(backups)
}

async fn copy_from(cluster: &Cluster, node: &Node, why: &str) -> Result<Backup, Report> {
    let step = Step::new("etcd/copy", "copy the data of etcd");
    let work = async |permit| {
        let copy = Script::new([include_str!("etcd_data/copy.sh")])
            .set("SNAPSHOT", SNAPSHOT)
            .set("DATA", paths::ETCD_DATA);
        let digest = saved(node, Command::change(permit, "copy the data of etcd", copy).once()).await?;
        Ok((Outcome::Unchanged, (digest, fetch(permit, cluster, node, digest).await?)))
    };
    let (digest, file) = cluster.run.step_for(&node.host.name, step, work).await?;
    // A snapshot ends with the digest of what comes before it, and is refused without.
    let end = file.reopen();
    let sealed = blocking(move || {
        let mut end = end?;
        end.seek(SeekFrom::End(0))?;
        end.write_all(digest.as_bytes())?;
        end.sync_all()
    });
    sealed.await.map_err(|error| unwritable(file.path(), &error))?;
    keep(cluster, node, file, &format!("{why}-{}", node.host.name)).await
}

/// Runs a command that leaves a snapshot on the node; returns its digest.
async fn saved(node: &Node, command: Command) -> Result<Digest, Report> {
    let output = node.remote.run(command.timeout(LIMIT)).await?;
    let text = output.text();
    let digest = text.split_whitespace().next().unwrap_or_default().parse();
    digest.map_err(|_| Report::new(format!("{}: the snapshot of etcd has no digest", node.host.name)))
}

/// The node's snapshot, in a file of ours. It goes with its name unless it is kept: one that fails leaves nothing behind.
async fn fetch(
    permit: Permit,
    cluster: &Cluster,
    node: &Node,
    digest: Digest,
) -> Result<NamedTempFile, Report> {
    let folder = state::Folder::new(&cluster.state).backups();
    state::make(&folder).map_err(|error| unwritable(&folder, &error))?;
    let new = tempfile::Builder::new().prefix(".new-").tempfile_in(&folder);
    let new = new.map_err(|error| unwritable(&folder, &error))?;
    let io = |error: io::Error| unwritable(new.path(), &error);
    let mut file = new.reopen().map_err(io)?;
    let (sender, mut pieces) = mpsc::channel::<Bytes>(16);
    let fetch = Script::new([include_str!("etcd_data/fetch.sh")]).set("SNAPSHOT", SNAPSHOT);
    let fetch = Command::change(permit, "fetch the snapshot", fetch);
    let fetching = node.remote.run(fetch.secret().once().timeout(LIMIT).stdout_to(sender));
    // It owns the receiver: once it has failed, the node is not left waiting for somebody who takes more.
    let writing = blocking(move || {
        while let Some(piece) = pieces.blocking_recv() {
            file.write_all(&piece)?;
        }
        file.sync_all()
    });
    let (fetched, written) = futures::join!(fetching, writing);
    written.map_err(io)?;
    fetched?;
    let mut written = new.reopen().map_err(io)?;
    let (found, _) = blocking(move || Digest::of_reader(&mut written)).await.map_err(io)?;
    if found != digest {
        return Err(Report::new(format!("{}: the snapshot was damaged on its way", node.host.name)));
    }
    Ok(new)
}

/// Keeps it under a name with the time in it.
async fn keep(cluster: &Cluster, node: &Node, file: NamedTempFile, why: &str) -> Result<Backup, Report> {
    let folder = state::Folder::new(&cluster.state).backups();
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let path = folder.join(format!("etcd-{time}-{why}.db"));
    let member = node.host.name.clone();
    blocking(move || {
        let io = |error: io::Error| unwritable(&path, &error);
        let (sha256, size) = file.reopen().and_then(|mut file| Digest::of_reader(&mut file)).map_err(io)?;
        file.persist(&path).map_err(|error| io(error.error))?;
        state::sync(&folder).map_err(io)?;
        Ok(Backup { path, size, sha256, member })
    })
    .await
}

fn unwritable(path: &Path, error: &io::Error) -> Report {
    Report::new(format!("cannot write `{}`: {error}", path.display()))
}

/// A snapshot on its way back into etcd.
pub struct Restoration {
    pub cluster: Cluster,
    snapshot: PathBuf,
    digest: Digest,
}

impl Restoration {
    /// Reads the snapshot once: it must be the same when it is sent.
    pub async fn new(cluster: Cluster, snapshot: &Path) -> Result<Self, Report> {
        if cluster.config.etcd.external.is_some() {
            return Err(Report::new("etcd is external: its data is its owner's business"));
        }
        let path = snapshot.to_path_buf();
        let read = blocking(move || File::open(&path).and_then(|mut file| Digest::of_reader(&mut file)));
        let (digest, _) = read.await.map_err(|error| unreadable(snapshot, &error))?;
        Ok(Self { cluster, snapshot: snapshot.to_path_buf(), digest })
    }

    /// Checks the snapshot on every member, and unpacks it beside the data.
    pub async fn unpack(&self) -> Result<(), PhaseError> {
        let etcds = self.cluster.with_role(Role::Etcd);
        let list: Vec<String> =
            etcds.iter().map(|node| format!("{}={}", node.host.name, peer_url(&node.host))).collect();
        let list = list.join(",");
        on_each(&self.cluster.run, &etcds, |node| Box::pin(self.unpack_on(node, list.clone()))).await
    }

    async fn unpack_on(&self, node: &Node, list: String) -> Result<(), Report> {
        let token = &self.cluster.config.etcd.token;
        let script = Script::new([include_str!("etcd_data/unpack.sh")])
            .set("SNAPSHOT", SNAPSHOT)
            .set("DIGEST", self.digest.to_string())
            .set("DATA", paths::ETCD_DATA)
            .arg(format!("--name={}", node.host.name))
            .arg(format!("--initial-cluster={list}"))
            .arg(format!("--initial-cluster-token={token}"))
            .arg(format!("--initial-advertise-peer-urls={}", peer_url(&node.host)));
        let step = Step::new("restore/unpack", "unpack the snapshot").always();
        let work = async |permit| {
            let (sender, pieces) = mpsc::channel(16);
            let command = Command::change(permit, "unpack the snapshot", script);
            let unpacking = node.remote.run(command.stream(pieces).timeout(LIMIT));
            let (read, unpacked) = futures::join!(send(&self.snapshot, sender), unpacking);
            read.map_err(|error| unreadable(&self.snapshot, &error))?;
            unpacked?;
            Ok(Outcome::Changed)
        };
        self.cluster.run.step(&node.host.name, step, work).await.map(|_| ())
    }

    /// Puts it in place of all members' data. The API is down meanwhile; the data that was there stays beside it.
    pub async fn put_in_place(&self) -> Result<(), PhaseError> {
        // The cluster is down until the end: nobody stops this in between.
        let _busy = self.cluster.run.stop().busy();
        let masters = self.cluster.with_role(Role::Master);
        let etcds = self.cluster.with_role(Role::Etcd);
        self.everywhere(&masters, "stop the apiserver", "systemctl stop kube-apiserver").await?;
        self.everywhere(&etcds, "stop etcd", "systemctl stop etcd").await?;
        let swap = Script::new([include_str!("etcd_data/swap.sh")]).set("DATA", paths::ETCD_DATA);
        self.everywhere(&etcds, "put the snapshot in place", swap).await?;
        for node in &etcds {
            members(node).await.map_err(PhaseError::Whole)?;
        }
        let end = Script::new([include_str!("etcd_data/end.sh")]).set("DATA", paths::ETCD_DATA);
        self.everywhere(&etcds, "end the restore", end).await?;
        self.everywhere(&masters, "start the apiserver", "systemctl start kube-apiserver").await?;
        // What the others remember of the API is from another time.
        let forget = "systemctl restart kube-controller-manager kube-scheduler";
        self.everywhere(&masters, "restart the controllers", forget).await
    }

    async fn everywhere(
        &self,
        nodes: &[&Node],
        title: &'static str,
        script: impl Into<Script>,
    ) -> Result<(), PhaseError> {
        let script = script.into();
        on_each(&self.cluster.run, nodes, |node| {
            let script = script.clone();
            let step = Step::new(format!("restore/{}", title.replace(' ', "-")), title).always();
            Box::pin(async move {
                let work = async |permit| {
                    node.remote.run(Command::change(permit, title, script)).await?;
                    Ok(Outcome::Changed)
                };
                let step = step.when_stopped(WhenStopped::Done);
                self.cluster.run.step(&node.host.name, step, work).await.map(|_| ())
            })
        })
        .await
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Report {
    Report::new(format!("cannot read `{}`: {error}", path.display()))
}

/// A file in pieces, as far as somebody takes them.
async fn send(path: &Path, pieces: mpsc::Sender<Bytes>) -> io::Result<()> {
    let path = path.to_path_buf();
    blocking(move || {
        let file = File::open(path)?;
        loop {
            let mut piece = Vec::with_capacity(PIECE as usize);
            (&file).take(PIECE).read_to_end(&mut piece)?;
            if piece.is_empty() || pieces.blocking_send(piece.into()).is_err() {
                return Ok(());
            }
        }
    })
    .await
}
