//! What a person sees of a run: a line per phase, bars per node, warnings and failures.
//!
//! Off a terminal there are no bars, only lines; with `--format json` every event is a line of
//! JSON on stdout.

use super::{Format, output};
use eggo_deploy::events::{Event, Sink, Told, Underway};
use eggo_terminal::{Bar, Rate, Size};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The view that fits the output.
pub fn sink(format: Format) -> Arc<dyn Sink> {
    match format {
        Format::Json => Arc::new(Lines),
        Format::Table if eggo_terminal::is_watched() => Arc::new(Bars::new()),
        Format::Table => quiet(),
    }
}

/// For commands whose result is their output.
pub fn quiet() -> Arc<dyn Sink> {
    Arc::new(Plain::default())
}

/// For programs.
struct Lines;

impl Sink for Lines {
    fn event(&self, event: Event) {
        put(&event);
    }

    fn told(&self, told: Told) {
        put(&told);
    }
}

fn put(value: &impl serde::Serialize) {
    // Nobody is left to tell when stdout is gone; the run itself goes on.
    let _ = eggo_terminal::print_json_line(value);
}

/// For log files: what ends, what takes long, what went wrong.
#[derive(Default)]
struct Plain {
    sent: Mutex<Sent>,
}

impl Sink for Plain {
    fn event(&self, event: Event) {
        let mut sent = self.sent.lock().expect("no panic while locked");
        sent.see(&event);
        if let Some(line) = line(&event) {
            let more = if matches!(event, Event::PhaseWaits { .. }) { sent.words() } else { String::new() };
            output::say(line + &more);
        }
    }
}

/// How many bytes have reached the nodes, and how many are to.
#[derive(Default)]
struct Sent(HashMap<String, (u64, u64)>);

impl Sent {
    fn see(&mut self, event: &Event) {
        match event {
            Event::Progress { node, done, total, .. } => drop(self.0.insert(node.clone(), (*done, *total))),
            Event::PhaseStarted { .. } => self.0.clear(),
            _ => {}
        }
    }

    fn words(&self) -> String {
        let (done, total) = self.0.values().fold((0, 0), |sum, node| (sum.0 + node.0, sum.1 + node.1));
        if total == 0 { String::new() } else { format!(", {} of {} sent", Size(done), Size(total)) }
    }
}

/// The line that an event leaves behind, if it leaves one.
fn line(event: &Event) -> Option<String> {
    let place = |node: &Option<String>| node.as_ref().map(|node| format!("{node}: ")).unwrap_or_default();
    Some(match event {
        Event::PhaseFinished { title, seconds, changed, failed, .. } => {
            let outcome = match (changed, failed) {
                (0, 0) => "nothing to do".to_string(),
                (n, 0) => format!("{n} changed"),
                (n, failed) => format!("{n} changed, {failed} failed"),
            };
            format!("{title}: {outcome} ({seconds:.1} s)")
        }
        Event::StepFailed { node, title, message, .. } => {
            // Most messages name their node themselves.
            let message = message.strip_prefix(&format!("{node}: ")).unwrap_or(message);
            format!("{node}: cannot {title}: {message}")
        }
        Event::Reconnecting { node, reason } => {
            format!("{node}: connection lost ({reason}), connecting again")
        }
        Event::PhaseWaits { title, seconds, underway, .. } => {
            format!("{title}: still running after {seconds:.0} s{}", waits(underway))
        }
        Event::Note { node, text } => format!("{}{text}", place(node)),
        Event::Warning { node, text } => format!("warning: {}{text}", place(node)),
        Event::Stopping {} => {
            "stopping: waiting for the steps under way; press Ctrl-C again to end at once".to_string()
        }
        Event::OperationStarted { .. }
        | Event::OperationFinished { .. }
        | Event::PhaseStarted { .. }
        | Event::PhaseSkipped { .. }
        | Event::StepStarted { .. }
        | Event::StepFinished { .. }
        | Event::Progress { .. } => return None,
    })
}

/// `, waiting for w1, w2 to start kubelet; w3 to start kube-proxy`
fn waits(underway: &[Underway]) -> String {
    let mut titles: Vec<(&str, Vec<&str>)> = Vec::new();
    for Underway { node, title } in underway {
        match titles.iter_mut().find(|(known, _)| known == title) {
            Some((_, nodes)) => nodes.push(node),
            None => titles.push((title, vec![node])),
        }
    }
    let more = titles.len().saturating_sub(MOST_NAMED);
    let mut parts: Vec<String> =
        titles.iter().take(MOST_NAMED).map(|(title, nodes)| part(title, nodes)).collect();
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    if parts.is_empty() { String::new() } else { format!(", waiting for {}", parts.join("; ")) }
}

/// `w1, w2 and 3 more to start kubelet`
fn part(title: &str, nodes: &[&str]) -> String {
    let named = nodes[..nodes.len().min(MOST_NAMED)].join(", ");
    match nodes.len().saturating_sub(MOST_NAMED) {
        0 => format!("{named} to {title}"),
        more => format!("{named} and {more} more to {title}"),
    }
}

/// For a terminal.
struct Bars {
    all: eggo_terminal::Bars,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    phase: Option<Bar>,
    title: String,
    /// Steps under way, by node and step.
    running: HashMap<(String, String), String>,
    done: usize,
    nodes: HashMap<String, Bar>,
}

/// More bars than this scroll the terminal; the others count in the phase's line.
const MOST_BARS: usize = 12;
/// Nodes of one step, and steps, that a line names.
const MOST_NAMED: usize = 5;

impl Bars {
    fn new() -> Self {
        Self { all: eggo_terminal::Bars::new(20), state: Mutex::default() }
    }

    fn keep(&self, line: &str) {
        // A terminal that is gone takes no line.
        let _ = self.all.say(line);
    }
}

impl Sink for Bars {
    fn event(&self, event: Event) {
        // The spinner says all the time what is under way.
        let line = line(&event).filter(|_| !matches!(event, Event::PhaseWaits { .. }));
        if let Some(line) = line {
            self.keep(&line);
        }
        let mut state = self.state.lock().expect("no panic while locked");
        match event {
            Event::PhaseStarted { title, .. } => {
                let bar = self.all.spinner("{spinner} [{elapsed}] {wide_msg}");
                bar.tick_every(Duration::from_millis(120));
                *state = State { phase: Some(bar), title, ..State::default() };
                state.draw();
            }
            Event::PhaseFinished { .. } => {
                state.nodes.drain().for_each(|(_, bar)| bar.clear());
                if let Some(bar) = state.phase.take() {
                    bar.clear();
                }
            }
            Event::StepStarted { node, step, title, .. } => {
                state.running.insert((node, step), title);
                state.draw();
            }
            Event::StepFinished { node, step, .. } | Event::StepFailed { node, step, .. } => {
                state.running.remove(&(node, step));
                state.done += 1;
                state.draw();
            }
            Event::Progress { node, done, total, rate, seconds_left } => {
                if !state.nodes.contains_key(&node) && state.nodes.len() < MOST_BARS && done < total {
                    let bar = self.all.bar(total, "  {prefix:<16!} [{bar:24}] {msg}", "=> ");
                    bar.set_prefix(&node);
                    state.nodes.insert(node.clone(), bar);
                }
                if let Some(bar) = state.nodes.get(&node) {
                    bar.set_length(total);
                    bar.set_position(done);
                    let left = seconds_left.map(|left| format!(", {left} s left")).unwrap_or_default();
                    bar.set_message(&format!("{} of {}, {}{left}", Size(done), Size(total), Rate(rate)));
                    if done >= total {
                        bar.clear();
                        state.nodes.remove(&node);
                    }
                }
            }
            _ => {}
        }
    }
}

impl State {
    fn draw(&self) {
        let Some(bar) = &self.phase else { return };
        let mut running: Vec<String> =
            self.running.iter().map(|((node, _), title)| format!("{node}: {title}")).collect();
        running.sort();
        let more = running.len().saturating_sub(3);
        running.truncate(3);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let now =
            if running.is_empty() { String::new() } else { format!(" · {}{more}", running.join(", ")) };
        let done = if self.done > 0 { format!(" ({} done)", self.done) } else { String::new() };
        bar.set_message(&format!("{}{done}{now}", self.title));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_one_line_per_phase_and_whatever_went_wrong() {
        let finished = |changed, failed| Event::PhaseFinished {
            phase: "packages".into(),
            title: "Install packages".into(),
            seconds: 1.26,
            changed,
            failed,
        };
        let waits = |underway: &[(&str, &str)]| Event::PhaseWaits {
            phase: "workers".into(),
            title: "Join workers".into(),
            seconds: 40.01,
            underway: underway
                .iter()
                .map(|(node, title)| Underway { node: node.to_string(), title: title.to_string() })
                .collect(),
        };
        let failed = Event::StepFailed {
            phase: "packages".into(),
            node: "w1".into(),
            step: "packages/install".into(),
            title: "install 3 packages".into(),
            message: "w1: the disk is full".into(),
        };
        let lines: Vec<_> = [
            finished(0, 0),
            finished(3, 1),
            failed,
            Event::warning(Some("w1"), "swap is on"),
            Event::note(None, "nothing changed"),
            Event::PhaseStarted { phase: "x".into(), title: "X".into() },
            waits(&[]),
            waits(&[("w2", "start kubelet")]),
            waits(&[("w1", "start kube-proxy"), ("w2", "start kubelet"), ("w3", "start kube-proxy")]),
            waits(&["a", "b", "c", "d", "e", "f", "g"].map(|node| (node, "become Ready"))),
        ]
        .iter()
        .filter_map(line)
        .collect();
        assert_eq!(
            lines,
            [
                "Install packages: nothing to do (1.3 s)",
                "Install packages: 3 changed, 1 failed (1.3 s)",
                "w1: cannot install 3 packages: the disk is full",
                "warning: w1: swap is on",
                "nothing changed",
                "Join workers: still running after 40 s",
                "Join workers: still running after 40 s, waiting for w2 to start kubelet",
                "Join workers: still running after 40 s, waiting for w1, w3 to start kube-proxy; w2 to start kubelet",
                "Join workers: still running after 40 s, waiting for a, b, c, d, e and 2 more to become Ready",
            ]
        );
    }

    #[test]
    fn a_log_tells_how_much_was_sent() {
        let progress = |node: &str, done| Event::Progress {
            node: node.into(),
            done,
            total: 4 << 20,
            rate: 1,
            seconds_left: None,
        };
        let mut sent = Sent::default();
        assert_eq!(sent.words(), "");
        for event in [progress("a", 1), progress("a", 1 << 20), progress("b", 2 << 20)] {
            sent.see(&event);
        }
        assert_eq!(sent.words(), ", 3.0 MiB of 8.0 MiB sent");
        sent.see(&Event::PhaseStarted { phase: "x".into(), title: "X".into() });
        assert_eq!(sent.words(), "");
    }
}
