//! Whether nodes reach the ones that everybody talks to: their ssh ports stand for the rest, because
//! nothing else listens yet. Asked with whatever the node has for it.

use super::checks::Found;
use super::{Circumstances, Level};
use crate::node::Planned;
use crate::remote::{Command, Script};
use eggo_bundles::Role;
use std::time::Duration;

pub(super) async fn check(circumstances: &Circumstances<'_>, nodes: &[Planned<'_>]) -> Vec<(String, Found)> {
    let central = |host: &&crate::config::Host| {
        host.has(Role::Master) || host.has(Role::Etcd) || host.has(Role::Loadbalance)
    };
    let targets: Vec<(String, u16, String)> = circumstances
        .config
        .hosts
        .iter()
        .filter(central)
        .map(|host| (host.ip.to_string(), host.port, host.name.clone()))
        .collect();
    let mut jobs = Vec::new();
    for node in nodes {
        let others: Vec<_> = targets.iter().filter(|(_, _, name)| *name != node.host.name).cloned().collect();
        jobs.push(ask(node, others));
    }
    circumstances.limits.each(jobs).await.into_iter().flatten().collect()
}

async fn ask(node: &Planned<'_>, targets: Vec<(String, u16, String)>) -> Vec<(String, Found)> {
    if targets.is_empty() {
        return Vec::new();
    }
    let name = node.host.name.clone();
    let found = |level, message: String| (name.clone(), Found { level, message });
    let words = targets.into_iter().flat_map(|(address, port, name)| [address, port.to_string(), name]);
    let script = Script::new([include_str!("reach.sh")]).args(words);
    let command = Command::look("reach the other nodes", script).timeout(Duration::from_secs(60));
    let output = match node.remote.run(command).await {
        Ok(output) => output.text(),
        Err(error) => return vec![found(Level::Error, error.to_string())],
    };
    if output.lines().any(|line| line == "no tool") {
        return vec![found(Level::Warning, "cannot tell: neither bash, nc nor python3 is installed".into())];
    }
    let unreached = output.lines().filter_map(|line| line.strip_prefix("no "));
    unreached.map(|target| found(Level::Error, format!("it does not reach {target}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On this machine: one port that somebody listens on, and one that nobody does.
    #[test]
    fn says_who_is_not_reached() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap().port().to_string();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = closed.local_addr().unwrap().port().to_string();
        drop(closed);
        let words = ["127.0.0.1", &open, "a", "127.0.0.1", &port, "it's $(b)"];
        let script = Script::new([include_str!("reach.sh")]).args(words).to_string();
        let output = std::process::Command::new("sh").args(["-euc", &script]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text, format!("no `it's $(b)` at 127.0.0.1 port {port}\n"));
    }
}
