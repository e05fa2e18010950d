//! The user's scripts, on the nodes of their role. When they run is the business of whoever runs
//! them: the cluster's phases around joining, cleanup around undoing.

use crate::config::{self, Config, Hook};
use crate::events::Event;
use crate::paths;
use crate::remote::{Command, Host, quote};
use crate::run::{Outcome, Run, Step};
use crate::store::ROOT;
use eggo_bundles::Role;
use eggo_errors::Report;
use std::time::Duration;

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
        let work = || async {
            let output = remote.run(self.command(host, hook, script.clone())).await?;
            let words = output.text();
            if !words.is_empty() {
                self.run.event(Event::note(Some(&host.name), format!("{}: {words}", hook.name)));
            }
            Ok(Outcome::Changed)
        };
        self.run.step(&host.name, step, work).await?;
        Ok(())
    }

    /// The script comes through standard input and runs as a file of its own, so that its first line
    /// decides what it is written in; it and what it started are ended when its time is over.
    fn command(&self, host: &config::Host, hook: &Hook, script: Vec<u8>) -> Command {
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
        let exports: String =
            environment.iter().map(|(name, value)| format!("export {name}={}\n", quote(value))).collect();
        let seconds = hook.timeout.as_secs().max(1);
        // Not on /run, which may forbid execution. After a cleanup our folder goes again.
        let text = format!(
            "umask 077; mkdir -p {ROOT}; d=$(mktemp -d {ROOT}/hook.XXXXXX)\n\
             trap 'rm -rf \"$d\"; rmdir {ROOT} 2>/dev/null || :' EXIT\n\
             cat > \"$d/hook\"; chmod 0700 \"$d/hook\"; head -c 2 \"$d/hook\" | grep -q '#!' || sed -i '1i #!/bin/sh' \"$d/hook\"\n\
             umask 022; cd /\n{exports}timeout -k 5 {seconds} \"$d/hook\" 2>&1 </dev/null || {{ s=$?\n\
             [ $s -ne 124 ] || echo 'it took longer than {seconds} s' >&2; exit $s; }}\n"
        );
        Command::sh(format!("run the hook {}", hook.name), text)
            .stdin(script)
            .timeout(hook.timeout + Duration::from_secs(30))
            .once()
    }
}

/// A hook's name in the journal.
pub fn step_id(hook: &Hook) -> String {
    format!("hook/{}/{}/{}", hook.schedule, hook.role, hook.name)
}
