//! Who is there, and what they are like: all nodes at the same time.

use super::Access;
use crate::config::{self, Config};
use crate::events::Sink;
use crate::facts::{Look, look};
use crate::limits::Limits;
use crate::node::{Node, Surveyed};
use crate::phases::{Failure, PhaseError};
use eggo_errors::Report;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// Connects to every host; the failures of all come back together.
pub async fn connect(
    hosts: &[config::Host],
    access: &Access,
    events: &Arc<dyn Sink>,
) -> (Vec<Node>, Vec<Failure>) {
    let mut jobs = Vec::new();
    for host in hosts {
        let remote = access.host(host, events);
        jobs.push(async move {
            let reached = match remote {
                Ok(remote) => remote.connect().await.map(|()| remote),
                Err(error) => Err(error),
            };
            (host.clone(), reached)
        });
    }
    // They begin in deploy.yaml's order, so that questions about host keys come in it too.
    let results = access.limits().each(jobs).await;
    let (mut reached, mut failures) = (Vec::new(), Vec::new());
    for (host, result) in results {
        match result {
            Ok(remote) => reached.push(Node::new(host, remote)),
            Err(error) => failures.push(Failure { node: host.name, report: error.into() }),
        }
    }
    (reached, failures)
}

/// The facts of hosts that were reached.
pub async fn facts_of(reached: Vec<Node>, asked: Look<'_>, limits: &Limits) -> (Vec<Surveyed>, Vec<Failure>) {
    let mut jobs = Vec::new();
    for Node { host, remote, .. } in reached {
        jobs.push(async move {
            let facts = look(&*remote, asked).await;
            (host, remote, facts)
        });
    }
    let results = limits.each(jobs).await;
    let (mut surveyed, mut failures) = (Vec::new(), Vec::new());
    for (host, remote, facts) in results {
        match facts {
            Ok(facts) => surveyed.push(Surveyed { host, remote, facts }),
            Err(error) => failures.push(Failure { node: host.name, report: error.into() }),
        }
    }
    (surveyed, failures)
}

/// Whether an address is one of the machine that we run on: what goes there would come from there.
/// Nothing is sent.
pub fn is_this_machine(ip: IpAddr) -> bool {
    let from: SocketAddr = match ip {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let own = || {
        let socket = UdpSocket::bind(from)?;
        socket.connect((ip, 9))?;
        socket.local_addr()
    };
    ip.is_loopback() || own().is_ok_and(|own| own.ip() == ip)
}

/// The names of the nodes that are the machine that we run on.
pub(super) fn on_this_machine(config: &Config) -> BTreeSet<String> {
    // Behind a jump host, an address of this machine is another's.
    let direct = config.hosts.iter().filter(|host| host.jump.is_none());
    let own = direct.filter(|host| is_this_machine(host.ip));
    own.map(|host| host.name.clone()).collect()
}

/// Connects to all and asks all; `Err` if any failed.
pub async fn survey(
    hosts: &[config::Host],
    access: &Access,
    events: &Arc<dyn Sink>,
) -> Result<Vec<Surveyed>, Report> {
    let (reached, mut failures) = connect(hosts, access, events).await;
    let (surveyed, more) = facts_of(reached, Look::survey(), access.limits()).await;
    failures.extend(more);
    if failures.is_empty() {
        return Ok(surveyed);
    }
    Err(PhaseError::Nodes(failures).report("Connect"))
}
