//! How much a node has got, told now and then.

use crate::events::{Event, Sink};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(500);

pub(super) struct Meter {
    node: String,
    events: Arc<dyn Sink>,
    state: Mutex<State>,
}

struct State {
    total: u64,
    done: u64,
    sent: u64,
    begin: Instant,
    told: Instant,
}

impl Meter {
    pub(super) fn new(node: &str, events: Arc<dyn Sink>) -> Self {
        let now = Instant::now();
        let state = State { total: 0, done: 0, sent: 0, begin: now, told: now };
        Self { node: node.into(), events, state: Mutex::new(state) }
    }

    /// So much is left to do, after so much.
    pub(super) fn expect(&self, left: u64) {
        let mut state = self.state.lock().expect("no panic while locked");
        if state.total == 0 {
            state.total = left;
            state.begin = Instant::now();
        }
        state.done = state.total.saturating_sub(left);
    }

    pub(super) fn advance(&self, bytes: u64) {
        let mut state = self.state.lock().expect("no panic while locked");
        state.sent += bytes;
        state.done = (state.done + bytes).min(state.total);
        if state.told.elapsed() >= EVERY {
            state.told = Instant::now();
            self.tell(&state);
        }
    }

    /// Everything has arrived.
    pub(super) fn finish(&self) {
        let mut state = self.state.lock().expect("no panic while locked");
        if state.total > 0 {
            state.done = state.total;
            self.tell(&state);
        }
    }

    fn tell(&self, state: &State) {
        let seconds = state.begin.elapsed().as_secs_f64().max(0.001);
        let rate = (state.sent as f64 / seconds) as u64;
        let left = state.total - state.done;
        let seconds_left = (rate > 0).then(|| left.div_ceil(rate.max(1)));
        let (node, done, total) = (self.node.clone(), state.done, state.total);
        self.events.event(Event::Progress { node, done, total, rate, seconds_left });
    }

    /// Content bytes that were sent, repeated ones included.
    pub(super) fn sent(&self) -> u64 {
        self.state.lock().expect("no panic while locked").sent
    }
}
