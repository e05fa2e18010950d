//! What of a run is under way, told now and then while a phase takes long: a log or a server shall show
//! what is waited for, and not only that something is.

use super::Run;
use crate::events::{Event, Underway, seconds};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// What is under way, and when that is told.
pub(super) struct Board {
    /// Titles by node and step.
    titles: Mutex<BTreeMap<(String, String), String>>,
    /// A phase that takes longer is told of,
    first: Duration,
    /// and again each time that so much has passed.
    again: Duration,
}

impl Default for Board {
    fn default() -> Self {
        Self { titles: Mutex::default(), first: Duration::from_secs(20), again: Duration::from_secs(60) }
    }
}

impl Board {
    pub(super) fn see(&self, event: &Event) {
        match event {
            Event::StepStarted { node, step, title, .. } => self.put(node, step, title),
            Event::StepFinished { node, step, .. } | Event::StepFailed { node, step, .. } => {
                self.take(node, step);
            }
            _ => {}
        }
    }

    fn put(&self, node: &str, step: &str, title: &str) {
        let mut board = self.titles.lock().expect("no panic while locked");
        board.insert((node.to_string(), step.to_string()), title.to_string());
    }

    fn take(&self, node: &str, step: &str) {
        self.titles.lock().expect("no panic while locked").remove(&(node.to_string(), step.to_string()));
    }

    fn list(&self) -> Vec<Underway> {
        let board = self.titles.lock().expect("no panic while locked");
        board.iter().map(|((node, _), title)| Underway { node: node.clone(), title: title.clone() }).collect()
    }
}

impl Run {
    /// Does the `work` of a phase; while it takes long, whoever watches is told what is under way.
    pub(crate) async fn patiently<W: Future>(&self, phase: &str, title: &str, work: W) -> W::Output {
        let (begin, mut work, mut pause) = (Instant::now(), pin!(work), self.board.first);
        loop {
            if let Ok(output) = timeout(pause, work.as_mut()).await {
                return output;
            }
            pause = self.board.again;
            self.event(Event::PhaseWaits {
                phase: phase.to_string(),
                title: title.to_string(),
                seconds: seconds(begin.elapsed()),
                underway: self.board.list(),
            });
        }
    }

    /// The same, for tests: everything takes long.
    #[cfg(test)]
    pub(crate) fn impatient(mut self) -> Self {
        (self.board.first, self.board.again) = (Duration::from_millis(1), Duration::from_millis(1));
        self
    }

    /// Nodes that are waited for outside of any step, until the answer is dropped. `title` as a step's.
    pub(crate) fn waits_for<'a>(
        &'a self,
        nodes: impl IntoIterator<Item = &'a str>,
        title: &'a str,
    ) -> Wait<'a> {
        let nodes: Vec<&str> = nodes.into_iter().collect();
        nodes.iter().for_each(|node| self.board.put(node, title, title));
        Wait { board: &self.board, nodes, title }
    }
}

/// See [`Run::waits_for`].
pub(crate) struct Wait<'a> {
    board: &'a Board,
    nodes: Vec<&'a str>,
    title: &'a str,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.nodes.iter().for_each(|node| self.board.take(node, self.title));
    }
}
