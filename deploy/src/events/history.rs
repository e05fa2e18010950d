//! The newest events of an operation, for those who come late.

use super::{Event, Sink, Told};
use std::collections::VecDeque;
use std::sync::Mutex;

/// Keeps the events of one operation, up to a bound; the oldest go first.
pub struct History {
    most: usize,
    kept: Mutex<VecDeque<Told>>,
}

/// What came after the number that a watcher has seen last.
#[derive(Debug, Clone, PartialEq)]
pub struct Missed {
    pub events: Vec<Told>,
    /// Events in between that are not kept any more.
    pub lost: u64,
}

impl History {
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), kept: Mutex::default() }
    }

    /// All events with a number above `number`; 0: from the beginning.
    pub fn after(&self, number: u64) -> Missed {
        let kept = self.kept.lock().expect("no panic while locked");
        let events: Vec<Told> = kept.iter().filter(|told| told.number > number).cloned().collect();
        let lost = events.first().map_or(0, |first| first.number - number - 1);
        Missed { events, lost }
    }
}

impl Sink for History {
    /// Outside of an operation an event has no number to ask for it by.
    fn event(&self, _event: Event) {}

    fn told(&self, told: Told) {
        let mut kept = self.kept.lock().expect("no panic while locked");
        if kept.len() == self.most {
            kept.pop_front();
        }
        kept.push_back(told);
    }
}
