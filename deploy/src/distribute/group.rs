//! Nodes that are fed together. One thread reads and inflates; every piece goes to all members that
//! need the item. Members come and go: the group goes round the items until nobody needs any.
//!
//! A member whose queue stays full while another's is empty is let go: it joins the next, slower
//! group, where the same holds among its like. The last group waits for everyone.

use super::{DeliveryError, Source};
use crate::limits::Limits;
use bytes::Bytes;
use eggo_bundles::{Digest, Item};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Groups by speed.
const GROUPS: usize = 3;
const PIECE: usize = 256 << 10;
/// Pieces read ahead of the network.
const AHEAD: usize = 4;
/// Pieces that a member may lag behind. All members share the pieces, so this bounds the memory of
/// a group whatever its size.
const QUEUE: usize = 16;
/// How long a member may hold up another before it is let go.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a member is sent. A queue that closes in the middle of an item lets the member go; one that
/// closes after `End` has nothing more for it.
pub(super) enum Part {
    Begin(Arc<Item>),
    Data(Bytes),
    End,
}

pub(super) struct Groups {
    joins: Vec<mpsc::UnboundedSender<Member>>,
    /// Ended with this: a distribution that is given up reads no further.
    _tasks: JoinSet<()>,
    broken: Arc<Mutex<Option<DeliveryError>>>,
}

struct Member {
    needs: BTreeSet<Digest>,
    queue: mpsc::Sender<Part>,
}

impl Groups {
    pub(super) fn start(
        items: BTreeMap<Digest, Arc<Item>>,
        source: Arc<dyn Source>,
        limits: &Limits,
    ) -> Self {
        let broken = Arc::new(Mutex::new(None));
        // In the order of the bundle, so that reading goes forward.
        let mut order: Vec<Arc<Item>> = items.into_values().collect();
        order.sort_by(|a, b| a.path.cmp(&b.path));
        let order = Arc::new(order);
        let mut tasks = JoinSet::new();
        let joins = (0..GROUPS)
            .map(|level| {
                let (join, joining) = mpsc::unbounded_channel();
                let group = Group {
                    items: order.clone(),
                    joining,
                    members: Vec::new(),
                    patient: level + 1 == GROUPS,
                    broken: broken.clone(),
                    limits: limits.clone(),
                };
                tasks.spawn(group.run(source.clone()));
                join
            })
            .collect();
        Self { joins, _tasks: tasks, broken }
    }

    /// A queue with the content of `needs`, in any order.
    pub(super) fn join(&self, level: usize, needs: BTreeSet<Digest>) -> mpsc::Receiver<Part> {
        let (queue, parts) = mpsc::channel(QUEUE);
        // A group that is gone leaves the queue closed: `broken` says why.
        let _ = self.joins[level.min(GROUPS - 1)].send(Member { needs, queue });
        parts
    }

    /// Why nothing more can come from the source.
    pub(super) fn broken(&self) -> Option<DeliveryError> {
        self.broken.lock().expect("no panic while locked").clone()
    }
}

struct Group {
    items: Arc<Vec<Arc<Item>>>,
    joining: mpsc::UnboundedReceiver<Member>,
    members: Vec<Member>,
    /// Lets nobody go.
    patient: bool,
    broken: Arc<Mutex<Option<DeliveryError>>>,
    limits: Limits,
}

type Pieces = mpsc::Receiver<io::Result<Option<Bytes>>>;

impl Group {
    async fn run(mut self, source: Arc<dyn Source>) {
        let Some(first) = self.joining.recv().await else { return };
        self.members.push(first);
        let (requests, mut pieces) = reader(source, self.limits.clone());
        let mut position = 0;
        loop {
            while let Ok(member) = self.joining.try_recv() {
                self.members.push(member);
            }
            self.members.retain(|member| !member.needs.is_empty() && !member.queue.is_closed());
            let Some(next) = self.next(position) else {
                match self.joining.recv().await {
                    Some(member) => self.members.push(member),
                    None => return,
                }
                continue;
            };
            position = next + 1;
            let item = self.items[next].clone();
            if requests.send(item.clone()).is_err() {
                return;
            }
            if let Err(error) = self.pass_on(&item, &mut pieces).await {
                let error = DeliveryError::source(&item, &error);
                *self.broken.lock().expect("no panic while locked") = Some(error);
                return;
            }
        }
    }

    /// The next item that anybody needs, going round.
    fn next(&self, position: usize) -> Option<usize> {
        let needed = |at: &usize| {
            let digest = self.items[*at].sha256;
            self.members.iter().any(|member| member.needs.contains(&digest))
        };
        (position..self.items.len()).chain(0..position.min(self.items.len())).find(needed)
    }

    async fn pass_on(&mut self, item: &Arc<Item>, pieces: &mut Pieces) -> io::Result<()> {
        let mut takers: Vec<usize> =
            (0..self.members.len()).filter(|at| self.members[*at].needs.contains(&item.sha256)).collect();
        let mut gone = BTreeSet::new();
        self.send(&mut takers, &mut gone, || Part::Begin(item.clone())).await;
        loop {
            let piece = pieces.recv().await.ok_or_else(|| io::Error::other("the reader has stopped"))??;
            let Some(piece) = piece else { break };
            self.send(&mut takers, &mut gone, || Part::Data(piece.clone())).await;
        }
        self.send(&mut takers, &mut gone, || Part::End).await;
        for at in takers {
            self.members[at].needs.remove(&item.sha256);
        }
        let mut at = 0;
        self.members.retain(|_| {
            at += 1;
            !gone.contains(&(at - 1))
        });
        Ok(())
    }

    /// Sends a part to all takers. Those that are gone, or are let go, leave the takers.
    async fn send(&self, takers: &mut Vec<usize>, gone: &mut BTreeSet<usize>, part: impl Fn() -> Part) {
        use mpsc::error::TrySendError::{Closed, Full};
        let mut slow = Vec::new();
        takers.retain(|&at| match self.members[at].queue.try_send(part()) {
            Ok(()) => true,
            Err(Full(_)) => {
                slow.push(at);
                true
            }
            Err(Closed(_)) => {
                gone.insert(at);
                false
            }
        });
        if slow.is_empty() {
            return;
        }
        let waits = slow.iter().map(|&at| async move { (at, self.members[at].queue.reserve().await) });
        let mut waits: FuturesUnordered<_> = waits.collect();
        let mut left: BTreeSet<usize> = slow.iter().copied().collect();
        let mut lost = BTreeSet::new();
        while !left.is_empty() {
            tokio::select! {
                Some((at, permit)) = waits.next() => {
                    left.remove(&at);
                    match permit {
                        Ok(permit) => permit.send(part()),
                        Err(_) => drop(lost.insert(at)),
                    }
                }
                () = tokio::time::sleep(PATIENCE), if !self.patient => {
                    let waits_for_us = |at: &usize| {
                        let queue = &self.members[*at].queue;
                        !left.contains(at) && queue.capacity() == queue.max_capacity() && !queue.is_closed()
                    };
                    if takers.iter().any(waits_for_us) {
                        lost.append(&mut left);
                    }
                }
            }
        }
        drop(waits);
        takers.retain(|at| !lost.contains(at));
        gone.extend(lost);
    }
}

/// What reads and inflates, on a thread for what blocks. For each request it gives pieces, then `None`; it ends when
/// nobody takes them any more.
fn reader(source: Arc<dyn Source>, limits: Limits) -> (std::sync::mpsc::Sender<Arc<Item>>, Pieces) {
    let (requests, queue) = std::sync::mpsc::channel::<Arc<Item>>();
    let (pieces, receiver) = mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        while let Ok(item) = queue.recv() {
            let result = read(&*source, &item, &pieces, &limits);
            if pieces.blocking_send(result.map(|()| None)).is_err() {
                return;
            }
        }
    });
    (requests, receiver)
}

fn read(
    source: &dyn Source,
    item: &Item,
    pieces: &mpsc::Sender<io::Result<Option<Bytes>>>,
    limits: &Limits,
) -> io::Result<()> {
    let mut content = source.read(item)?;
    let size = PIECE.min(usize::try_from(item.size).unwrap_or(PIECE).max(1));
    loop {
        let room = Handle::current().block_on(async {
            tokio::select! {
                room = limits.room(size) => Some(room),
                () = pieces.closed() => None,
            }
        });
        // Nobody listens any more: not the source's fault.
        let Some(room) = room else { return Ok(()) };
        let mut piece = vec![0; size];
        let mut filled = 0;
        while filled < piece.len() {
            match content.read(&mut piece[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if filled == 0 {
            return Ok(());
        }
        piece.truncate(filled);
        if pieces.blocking_send(Ok(Some(room.hold(piece)))).is_err() {
            return Ok(());
        }
    }
}
