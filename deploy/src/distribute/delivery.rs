//! One node's delivery, from what it lacks to what it has verified, through cuts and slowness.

use super::batch::{self, Answer, Batch, Entry};
use super::group::{Groups, Part};
use super::meter::Meter;
use super::{Delivery, DeliveryError, Missing, missing};
use crate::remote::{Host, Output, RemoteError};
use crate::run::Permit;
use crate::store;
use bytes::Bytes;
use eggo_bundles::{Digest, Item};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};

/// Cuts without a byte of progress in between, after which a node is given up.
const MOST_CUTS: usize = 5;
/// How often an item may arrive damaged.
const MOST_DAMAGES: usize = 2;
/// Batches that may be under way on a node: one is sent while the others are verified.
const UNDER_WAY: usize = 2;
/// Pieces between us and the network.
const WINDOW: usize = 2;

pub(super) async fn deliver(
    permit: Permit,
    delivery: Delivery,
    groups: &Groups,
    meter: &Meter,
) -> Result<(), DeliveryError> {
    let Delivery { host, items, mut contents } = delivery;
    if contents.suspect {
        contents = store::inspect(permit, &*host).await?;
    } else if contents.unmerged || !contents.incoming.is_empty() {
        contents = store::recover(permit, &*host).await?;
    }
    let mut job = Job { permit, host, meter, number: 0, damages: BTreeMap::new(), batches: VecDeque::new() };
    let mut level = 0;
    let mut cuts = 0;
    let mut least_left = u64::MAX;
    loop {
        let mut lacks = missing(&items, &contents);
        if lacks.is_empty() {
            meter.finish();
            return Ok(());
        }
        let left = lacks.values().map(|missing| missing.size - missing.there).sum();
        meter.expect(left);
        if left < least_left {
            (least_left, cuts) = (left, 0);
        }
        let parts = groups.join(level, lacks.keys().copied().collect());
        let end = job.receive(parts, &mut lacks).await;
        if let Some(error) = groups.broken() {
            return Err(error);
        }
        match end {
            Ok(()) if lacks.is_empty() => continue_with_all(&mut contents, &items),
            // Let go, or damaged on the way: look at what is there, and get the rest.
            Ok(()) => {
                level += 1;
                contents = store::recover(permit, &*job.host).await?;
            }
            Err(DeliveryError::Remote(error)) if error.is_lost() && cuts < MOST_CUTS => {
                cuts += 1;
                // This command re-makes the connection, or fails for good.
                contents = store::recover(permit, &*job.host).await?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Everything was verified: no need to ask again.
fn continue_with_all(contents: &mut store::Contents, items: &[Arc<Item>]) {
    contents.whole.extend(items.iter().map(|item| (item.sha256, item.size)));
}

struct Job<'a> {
    permit: Permit,
    host: Arc<dyn Host>,
    meter: &'a Meter,
    number: u64,
    damages: BTreeMap<Digest, usize>,
    batches: VecDeque<Running>,
}

/// A batch that the node is receiving or verifying.
struct Running {
    items: BTreeMap<Digest, String>,
    end: Task,
}

/// A command that runs while it is fed, and is ended when nobody waits for it any more.
struct Task(JoinHandle<Result<Output, RemoteError>>);

impl Task {
    async fn end(mut self) -> Result<Result<Output, RemoteError>, JoinError> {
        (&mut self.0).await
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A batch that is being sent.
struct Open {
    batch: Batch,
    paths: BTreeMap<Digest, String>,
    pieces: mpsc::Sender<Bytes>,
    end: Task,
}

/// The item that is being sent.
struct Current {
    item: Arc<Item>,
    entry: Entry,
    /// Bytes to leave out because they are there.
    skip: u64,
    /// Bytes that go into the tar.
    size: u64,
}

impl Job<'_> {
    /// Takes parts until the queue closes. What was verified is no longer in `lacks`.
    async fn receive(
        &mut self,
        mut parts: mpsc::Receiver<Part>,
        lacks: &mut BTreeMap<Digest, Missing>,
    ) -> Result<(), DeliveryError> {
        let mut open: Option<Open> = None;
        let mut current: Option<Current> = None;
        let result = loop {
            let Some(part) = parts.recv().await else { break Ok(()) };
            if let Err(stop) = self.take(part, &mut open, &mut current, lacks).await {
                break Err(stop);
            }
            if let Some(full) = open.take_if(|open| current.is_none() && open.batch.is_full()) {
                self.close(full).await;
                while self.batches.len() > UNDER_WAY {
                    self.settle(lacks).await?;
                }
            }
        };
        drop(parts);
        if let Some(open) = open {
            match current {
                // In the middle of an item there is no place for the list.
                Some(_) => {
                    drop(open.pieces);
                    let end = open.end.end().await;
                    if result.is_err() {
                        self.judge(end, &BTreeMap::new(), lacks)?;
                    } else if let Ok(Err(error)) = end {
                        return Err(error.into());
                    }
                }
                None => self.close(open).await,
            }
        }
        while !self.batches.is_empty() {
            self.settle(lacks).await?;
        }
        match result {
            Ok(()) => Ok(()),
            Err(Stopped) => Err(RemoteError::Lost {
                host: self.host.name().into(),
                title: "receive content".into(),
                reason: "it stopped reading".into(),
            }
            .into()),
        }
    }

    async fn take(
        &mut self,
        part: Part,
        open: &mut Option<Open>,
        current: &mut Option<Current>,
        lacks: &BTreeMap<Digest, Missing>,
    ) -> Result<(), Stopped> {
        match part {
            Part::Begin(item) => {
                let there = lacks.get(&item.sha256).map_or(0, |missing| missing.there);
                let entry = Entry { digest: item.sha256, rest: there > 0 };
                let size = item.size - there;
                let open = open.get_or_insert_with(|| self.open());
                *current = Some(Current { item, entry, skip: there, size });
                open.send(batch::begin(entry, size)).await
            }
            Part::Data(mut bytes) => {
                let (Some(open), Some(current)) = (open, current) else { return Err(Stopped) };
                let skip = current.skip.min(bytes.len() as u64);
                current.skip -= skip;
                let bytes = bytes.split_off(skip as usize);
                if bytes.is_empty() {
                    return Ok(());
                }
                let length = bytes.len() as u64;
                open.send(bytes).await?;
                open.batch.bytes += length;
                self.meter.advance(length);
                Ok(())
            }
            Part::End => {
                let (Some(open), Some(done)) = (open, current.take()) else { return Err(Stopped) };
                open.batch.items.push(done.entry);
                open.paths.insert(done.item.sha256, done.item.path.clone());
                open.send(batch::end(done.size)).await
            }
        }
    }

    fn open(&mut self) -> Open {
        self.number += 1;
        let (pieces, receiver) = mpsc::channel(WINDOW);
        let (host, command) = (self.host.clone(), batch::command(self.permit, self.number, receiver));
        let end = Task(tokio::spawn(async move { host.run(command).await }));
        Open { batch: Batch::default(), paths: BTreeMap::new(), pieces, end }
    }

    /// Ends a batch with its list; the node verifies it while the next one is sent.
    async fn close(&mut self, open: Open) {
        // If the node stopped reading, its answer says why.
        let _ = open.send(open.batch.end(self.number)).await;
        self.batches.push_back(Running { items: open.paths, end: open.end });
    }

    /// Waits for the answer to the oldest batch.
    async fn settle(&mut self, lacks: &mut BTreeMap<Digest, Missing>) -> Result<(), DeliveryError> {
        let Some(running) = self.batches.pop_front() else { return Ok(()) };
        let end = running.end.end().await;
        self.judge(end, &running.items, lacks)
    }

    fn judge(
        &mut self,
        end: Result<Result<Output, RemoteError>, JoinError>,
        items: &BTreeMap<Digest, String>,
        lacks: &mut BTreeMap<Digest, Missing>,
    ) -> Result<(), DeliveryError> {
        let name = self.host.name();
        let output =
            end.map_err(|error| RemoteError::answer(name, "receive content", error.to_string()))??;
        let Answer::Verified { good } = batch::answer(&output) else {
            return Err(RemoteError::failed(name, "receive content", &output, false).into());
        };
        for (digest, path) in items {
            if good.contains(digest) {
                lacks.remove(digest);
                continue;
            }
            let damages = self.damages.entry(*digest).or_default();
            *damages += 1;
            if *damages > MOST_DAMAGES {
                return Err(DeliveryError::Damaged { node: name.into(), path: path.clone() });
            }
        }
        Ok(())
    }
}

/// The node takes no more: how its command ended says why.
struct Stopped;

impl Open {
    async fn send(&self, bytes: Bytes) -> Result<(), Stopped> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.pieces.send(bytes).await.map_err(|_| Stopped)
    }
}
