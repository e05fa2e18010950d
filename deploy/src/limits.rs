//! How much operations may take at the same time: nodes that are worked on, memory, sessions on a node. The caller hands
//! it in; a server that runs many operations in one process gives all of them clones of the same limits.

use bytes::Bytes;
use futures::StreamExt;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

const NODES: usize = 64;
const BYTES: usize = 32 << 20;
const SESSIONS: usize = 8;

tokio::task_local! {
    /// Set in whatever is part of the work on a node.
    static HAS_PLACE: ();
}

/// Clones are the same limits: operations that are given clones keep them together.
#[derive(Debug, Clone)]
pub struct Limits {
    nodes: Arc<Semaphore>,
    at_once: usize,
    bytes: Arc<Semaphore>,
    most_bytes: usize,
    sessions: usize,
}

impl Default for Limits {
    /// 64 nodes at once, 32 MiB in flight, 8 sessions per node.
    fn default() -> Self {
        Self {
            nodes: Arc::new(Semaphore::new(NODES)),
            at_once: NODES,
            bytes: Arc::new(Semaphore::new(BYTES)),
            most_bytes: BYTES,
            sessions: SESSIONS,
        }
    }
}

impl Limits {
    /// How many nodes are worked on at the same time, each over a connection of its own.
    pub fn nodes_at_once(self, most: usize) -> Self {
        let at_once = most.clamp(1, Semaphore::MAX_PERMITS);
        Self { nodes: Arc::new(Semaphore::new(at_once)), at_once, ..self }
    }

    /// How much content is held in memory between the bundle and the network. One operation holds at most about 20 MiB,
    /// whatever the number of its nodes.
    pub fn bytes_in_flight(self, most: usize) -> Self {
        let most_bytes = most.clamp(1, Semaphore::MAX_PERMITS);
        Self { bytes: Arc::new(Semaphore::new(most_bytes)), most_bytes, ..self }
    }

    /// How many commands run on one node at the same time. sshd allows 10 sessions per connection unless it is configured
    /// otherwise.
    pub fn sessions_per_node(self, most: usize) -> Self {
        Self { sessions: most.clamp(1, Semaphore::MAX_PERMITS), ..self }
    }

    pub(crate) fn sessions(&self) -> usize {
        self.sessions
    }

    /// Does the work on many nodes, a job for each, as places become free. The answers are in the order of the jobs.
    pub(crate) async fn each<J: Future>(&self, jobs: Vec<J>) -> Vec<J::Output> {
        let mut placed = Vec::new();
        for (at, job) in jobs.into_iter().enumerate() {
            placed.push(async move {
                let _place = self.place().await;
                (at, HAS_PLACE.scope((), job).await)
            });
        }
        // Those that wait for a place are few: who shares the limits with a large cluster does not wait for all of it.
        let mut answers: Vec<_> =
            futures::stream::iter(placed).buffer_unordered(self.at_once).collect().await;
        answers.sort_by_key(|(at, _)| *at);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// `None` for what is part of the work on a node that has a place: waiting for another one, it could wait for itself.
    async fn place(&self) -> Option<SemaphorePermit<'_>> {
        match HAS_PLACE.try_with(|()| ()) {
            Ok(()) => None,
            Err(_) => Some(self.nodes.acquire().await.expect("never closed")),
        }
    }

    /// Room for so many bytes, or for as many as there can be.
    pub(crate) async fn room(&self, bytes: usize) -> Room {
        let bytes = u32::try_from(bytes.min(self.most_bytes)).unwrap_or(u32::MAX);
        Room { _permits: self.bytes.clone().acquire_many_owned(bytes).await.expect("never closed") }
    }
}

/// Room in memory, which is free again when the last reference to what is in it has gone.
pub(crate) struct Room {
    _permits: OwnedSemaphorePermit,
}

impl Room {
    pub(crate) fn hold(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Held { bytes, _room: self })
    }
}

struct Held {
    bytes: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// Jobs that take a while, the first ones longest; `now` and `most` count those under way.
    async fn work(limits: &Limits, now: &AtomicUsize, most: &AtomicUsize) -> Vec<u64> {
        let jobs = (0..20u64).map(|at| async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20 - at)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            at
        });
        limits.each(jobs.collect()).await
    }

    #[tokio::test]
    async fn clones_share_their_places_and_answers_come_in_order() {
        let limits = Limits::default().nodes_at_once(3);
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let other = limits.clone();
        let (one, two) = tokio::join!(work(&limits, &now, &most), work(&other, &now, &most));
        let all: Vec<u64> = (0..20).collect();
        assert_eq!((one, two), (all.clone(), all));
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn what_is_part_of_the_work_on_a_node_needs_no_place_of_its_own() {
        let limits = Limits::default().nodes_at_once(1);
        let inner = |start: i32| limits.each([1, 2].map(|more| async move { start + more }).into());
        let outer = [10, 20].map(|start| async move { inner(start).await });
        assert_eq!(limits.each(outer.into()).await, [[11, 12], [21, 22]]);
    }

    #[tokio::test]
    async fn room_is_free_again_when_its_content_is_gone() {
        let limits = Limits::default().bytes_in_flight(10);
        // More than there can be is all that there is.
        let first = limits.room(100).await.hold(vec![7; 100]);
        let part = first.clone().split_off(90);
        drop(first);
        let waiting = limits.clone();
        let next = tokio::spawn(async move { waiting.room(1).await });
        tokio::task::yield_now().await;
        assert!(!next.is_finished());
        assert_eq!(part[..], [7; 10]);
        drop(part);
        next.await.unwrap();
    }
}
