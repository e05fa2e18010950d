//! Progress as a person sees it: bars on a terminal, a line now and then elsewhere.

use crate::{Bar, Bars, Rate, Size, screen};
use eggo_bundles::progress::{Progress, Task};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How much is shown on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loudness {
    /// Errors only.
    Quiet,
    #[default]
    Normal,
}

/// Without a terminal, a line after this long, and again each time.
const NOW_AND_THEN: Duration = Duration::from_secs(15);
/// More bars than this are noise: further tasks count, but are not drawn.
const MOST_BARS: usize = 8;

/// Draws on stderr. Cheap calls: each advance takes one lock.
pub struct Watch {
    loudness: Loudness,
    bars: Option<Bars>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    tasks: HashMap<u64, Running>,
}

struct Running {
    label: String,
    total: Option<u64>,
    done: u64,
    begun: Instant,
    told: Instant,
    bar: Option<Bar>,
}

impl Watch {
    pub fn new(loudness: Loudness) -> Self {
        let terminal = screen::is_watched() && loudness == Loudness::Normal;
        let bars = terminal.then(|| Bars::new(8));
        Self { loudness, bars, state: Mutex::default() }
    }

    fn bar(&self, bars: &Bars, label: &str, total: Option<u64>) -> Bar {
        let bar = match total {
            Some(total) => bars.bar(
                total,
                "{prefix:28!} {bar:24} {bytes:>11} of {total_bytes:11} {bytes_per_sec:>13} {eta:>4}",
                "━╸─",
            ),
            None => bars.spinner("{prefix:28!} {spinner} {bytes:>11} {bytes_per_sec:>13}"),
        };
        bar.set_prefix(label);
        bar
    }

    /// Lines that nobody may miss, quiet or not.
    pub fn insist(&self, lines: &str) {
        if !self.bars.as_ref().is_some_and(|bars| bars.show(lines)) {
            screen::show(lines);
        }
    }

    /// A message that nobody may miss, whoever its words are from.
    pub fn insist_message(&self, message: &str) {
        if !self.bars.as_ref().is_some_and(|bars| bars.say(message)) {
            screen::say(message);
        }
    }

    fn say(&self, line: &str) {
        if self.loudness != Loudness::Quiet {
            self.insist(line);
        }
    }
}

impl Progress for Watch {
    fn start(&self, label: &str, total: Option<u64>) -> Task {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.next += 1;
        let drawn = state.tasks.values().filter(|task| task.bar.is_some()).count();
        let bars = self.bars.as_ref().filter(|_| drawn < MOST_BARS);
        let bar = bars.map(|bars| self.bar(bars, label, total));
        let now = Instant::now();
        let running = Running { label: label.to_string(), total, done: 0, begun: now, told: now, bar };
        let id = state.next;
        state.tasks.insert(id, running);
        Task(id)
    }

    fn advance(&self, task: Task, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(running) = state.tasks.get_mut(&task.0) else { return };
        running.done += bytes;
        if let Some(bar) = &running.bar {
            bar.set_position(running.done);
        }
        if self.bars.is_none() && running.told.elapsed() >= NOW_AND_THEN {
            running.told = Instant::now();
            let line = running.line();
            drop(state);
            self.say(&line);
        }
    }

    fn finish(&self, task: Task) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(running) = state.tasks.remove(&task.0) else { return };
        if let (Some(bar), Some(bars)) = (&running.bar, &self.bars) {
            bar.clear();
            bars.remove(bar);
        }
    }

    fn note(&self, line: &str) {
        self.say(line);
    }
}

impl Running {
    fn line(&self) -> String {
        let seconds = self.begun.elapsed().as_secs().max(1);
        let rate = Rate(self.done / seconds);
        match self.total {
            Some(total) => format!("{}: {} of {}, {rate}", self.label, Size(self.done), Size(total)),
            None => format!("{}: {}, {rate}", self.label, Size(self.done)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_come_and_go_without_a_terminal() {
        let watch = Watch::new(Loudness::Quiet);
        let task = watch.start("x", Some(10));
        watch.advance(task, 4);
        assert_eq!(watch.state.lock().unwrap().tasks[&task.0].done, 4);
        assert!(watch.state.lock().unwrap().tasks[&task.0].line().starts_with("x: 4 B of 10 B, "));
        watch.finish(task);
        watch.advance(task, 4);
        assert!(watch.state.lock().unwrap().tasks.is_empty());
    }
}
