//! Whether nodes reach the ones that everybody talks to: their ssh ports stand for the rest, because
//! nothing else listens yet. Asked with whatever the node has for it.

use super::checks::Found;
use super::{Candidate, Check, Level};
use crate::config::Config;
use crate::remote::{Command, quote};
use eggo_bundles::Role;
use futures::StreamExt;
use std::time::Duration;

const AT_ONCE: usize = 64;

pub(super) async fn check(config: &Config, candidates: &[Candidate<'_>]) -> Vec<(String, Found)> {
    let central = |host: &&crate::config::Host| {
        host.has(Role::Master) || host.has(Role::Etcd) || host.has(Role::Loadbalance)
    };
    let targets: Vec<(String, u16, String)> = config
        .hosts
        .iter()
        .filter(central)
        .map(|host| (host.ip.to_string(), host.port, host.name.clone()))
        .collect();
    let mut jobs = Vec::new();
    for candidate in candidates {
        let others: Vec<_> =
            targets.iter().filter(|(_, _, name)| *name != candidate.host.name).cloned().collect();
        jobs.push(ask(candidate, others));
    }
    let answers: Vec<_> = futures::stream::iter(jobs).buffer_unordered(AT_ONCE).collect().await;
    answers.into_iter().flatten().collect()
}

async fn ask(candidate: &Candidate<'_>, targets: Vec<(String, u16, String)>) -> Vec<(String, Found)> {
    if targets.is_empty() {
        return Vec::new();
    }
    let name = candidate.host.name.clone();
    let found = |level, message: String| (name.clone(), Found { check: Check::Reach, level, message });
    let output = match candidate
        .remote
        .run(Command::sh("reach the other nodes", script(&targets)).timeout(Duration::from_secs(60)))
        .await
    {
        Ok(output) => output.text(),
        Err(error) => return vec![found(Level::Error, error.to_string())],
    };
    if output.lines().any(|line| line == "no tool") {
        return vec![found(Level::Warning, "cannot tell: neither bash, nc nor python3 is there".into())];
    }
    let unreached = output.lines().filter_map(|line| line.strip_prefix("no "));
    unreached.map(|target| found(Level::Error, format!("it does not reach {target}"))).collect()
}

/// All targets at the same time, each for at most 5 seconds.
fn script(targets: &[(String, u16, String)]) -> String {
    let mut script = String::from(
        "if command -v bash >/dev/null; then try() { timeout 5 bash -c \"exec 3<>/dev/tcp/$1/$2\" 2>/dev/null; }\n\
         elif command -v nc >/dev/null; then try() { timeout 5 nc -z \"$1\" \"$2\" 2>/dev/null; }\n\
         elif command -v python3 >/dev/null; then try() { timeout 5 python3 -c \"import socket; socket.create_connection(('$1', $2), 5)\" 2>/dev/null; }\n\
         else echo 'no tool'; exit 0; fi\n",
    );
    for (address, port, name) in targets {
        let text = quote(&format!("no `{name}` at {address} port {port}"));
        script.push_str(&format!("{{ try {} {port} || echo {text}; }} &\n", quote(address)));
    }
    script + "wait"
}
