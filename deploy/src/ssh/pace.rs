//! Whether a command that is fed a stream still moves. A node that answers keepalives is not lost, and may still never
//! come to an end.

use std::sync::Mutex;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// A node that verifies and syncs what it received takes longer the more that was: at least so many bytes a second.
const SLOWEST: u64 = 1 << 20;

pub(super) struct Pace {
    idle: Option<Duration>,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    last: Instant,
    /// It is we who have nothing to send.
    ours: bool,
    sent: u64,
}

impl Pace {
    pub(super) fn new(idle: Option<Duration>) -> Self {
        Self { idle, state: Mutex::new(State { last: Instant::now(), ours: false, sent: 0 }) }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().expect("no panic while locked");
        state.last = Instant::now();
        change(&mut state);
    }

    /// Something came from the node.
    pub(super) fn moved(&self) {
        self.change(|_| {});
    }

    /// The node took something.
    pub(super) fn sent(&self, bytes: usize) {
        self.change(|state| state.sent += bytes as u64);
    }

    /// Waits for something that the node is not to blame for.
    pub(super) async fn wait_for_us<T>(&self, work: impl Future<Output = T>) -> T {
        self.change(|state| state.ours = true);
        let done = work.await;
        self.change(|state| state.ours = false);
        done
    }

    /// Ends when nothing has moved for too long, which is how long.
    pub(super) async fn stalled(&self) -> Duration {
        let Some(idle) = self.idle else { return std::future::pending().await };
        loop {
            let state = *self.state.lock().expect("no panic while locked");
            match state.next(idle, Instant::now()) {
                Ok(limit) => return limit,
                Err(look_again) => sleep_until(look_again).await,
            }
        }
    }
}

impl State {
    /// The limit if it is over, or when to look again.
    fn next(&self, idle: Duration, now: Instant) -> Result<Duration, Instant> {
        let limit = idle + Duration::from_secs(self.sent / SLOWEST);
        match (self.ours, self.last + limit) {
            (true, _) => Err(now + limit),
            (false, end) if end <= now => Ok(limit),
            (false, end) => Err(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_is_waited_for() {
        let (second, begin) = (Duration::from_secs(1), Instant::now());
        let state = State { last: begin, ours: false, sent: 0 };
        assert_eq!(state.next(5 * second, begin + 4 * second), Err(begin + 5 * second));
        assert_eq!(state.next(5 * second, begin + 5 * second), Ok(5 * second));
        // What was sent has to be verified.
        let sent = State { sent: 10 << 20, ..state };
        assert_eq!(sent.next(5 * second, begin + 14 * second), Err(begin + 15 * second));
        assert_eq!(sent.next(5 * second, begin + 16 * second), Ok(15 * second));
        // The node cannot help it that we are slow.
        let slow = State { ours: true, ..state };
        assert_eq!(slow.next(5 * second, begin + 99 * second), Err(begin + 104 * second));
    }
}
