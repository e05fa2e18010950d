//! The user's scripts, on the nodes of their role. When they run is the business of whoever runs
//! them: the cluster's phases around joining, cleanup around undoing.

use crate::config::{self, Config, Hook};
use crate::events::Event;
use crate::paths;
use crate::remote::{COMMON, Command, Host, Script};
use crate::run::{Outcome, Permit, Run, Step};
use crate::store::ROOT;
use eggo_bundles::Role;
use eggo_errors::Report;
use std::time::Duration;

/// The last lines of a hook's output, and how much of each, that are passed on.
const MOST_LINES: usize = 50;
const MOST_OF_A_LINE: usize = 500;

/// How hooks run during one command.
#[derive(Clone, Copy)]
pub struct Hooks<'a> {
    pub config: &'a Config,
    pub run: &'a Run,
    /// The command that the user gave: deploy, join, cleanup, delete.
    pub operator: &'static str,
}

impl Hooks<'_> {
    /// Runs a hook on one node, unless the journal says that it ran there in this form.
    pub async fn run_on(
        &self,
        host: &config::Host,
        remote: &dyn Host,
        hook: &Hook,
        script: Vec<u8>,
    ) -> Result<(), Report> {
        let step = Step::new(step_id(hook), format!("run the hook {}", hook.name)).fingerprint_of([&script]);
        let work = async |permit| {
            let output = remote.run(self.command(permit, host, hook, script.clone())).await?;
            let words = tail(&output.text());
            if !words.is_empty() {
                self.run.event(Event::note(Some(&host.name), format!("{}: {words}", hook.name)));
            }
            Ok(Outcome::Changed)
        };
        self.run.step(&host.name, step, work).await?;
        Ok(())
    }

    fn command(&self, permit: Permit, host: &config::Host, hook: &Hook, content: Vec<u8>) -> Command {
        let role = if hook.role == Role::Worker { "worker" } else { hook.role.as_str() };
        let environment = [
            ("EGGO_CLUSTER_ID", self.config.cluster_id.clone()),
            ("EGGO_CLUSTER_API_ENDPOINT", self.config.api.endpoint.to_string()),
            ("EGGO_CLUSTER_CONFIG_DIR", paths::KUBERNETES.to_string()),
            ("EGGO_NODE_IP", host.ip.to_string()),
            ("EGGO_NODE_NAME", host.name.clone()),
            ("EGGO_NODE_ARCH", host.arch.to_string()),
            ("EGGO_NODE_ROLE", role.to_string()),
            ("EGGO_HOOK_TYPE", hook.schedule.to_string()),
            ("EGGO_OPERATOR", self.operator.to_string()),
        ];
        let limit = hook.timeout.as_secs().max(1);
        let script =
            Script::new([COMMON, include_str!("hook.sh")]).set("ROOT", ROOT).set("LIMIT", limit.to_string());
        let script = environment.into_iter().fold(script, |script, (name, value)| script.set(name, value));
        Command::change(permit, format!("run the hook {}", hook.name), script)
            .stdin(content)
            .timeout(hook.timeout + Duration::from_secs(30))
            .last_words()
            .once()
    }
}

/// What of a hook's output is worth repeating.
fn tail(words: &str) -> String {
    let lines: Vec<&str> = words.lines().collect();
    let left_out = lines.len().saturating_sub(MOST_LINES);
    let mut kept: Vec<String> = lines[left_out..].iter().map(|line| start(line)).collect();
    if left_out > 0 {
        kept.insert(0, "…".into());
    }
    kept.join("\n")
}

fn start(line: &str) -> String {
    match line.char_indices().nth(MOST_OF_A_LINE) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_string(),
    }
}

/// A hook's name in the journal.
pub fn step_id(hook: &Hook) -> String {
    format!("hook/{}/{}/{}", hook.schedule, hook.role, hook.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_output_the_end_is_passed_on() {
        assert_eq!(tail("a\nb"), "a\nb");
        let long: String = (0..60).map(|n| format!("line {n}\n")).collect();
        let passed_on = tail(&long);
        assert!(passed_on.starts_with("…\nline 10\n") && passed_on.ends_with("line 59"), "{passed_on}");
        assert_eq!(tail(&"é".repeat(600)), "é".repeat(500) + "…");
    }
}
