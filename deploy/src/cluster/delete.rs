//! Nodes that leave: checked first, drained, taken out of etcd, the API, the load balancer and DNS.
//! What they have of ours is removed by cleanup, afterwards.

use super::context::{Cluster, Node};
use super::deploy::{control_plane, dns, etcd, load_balancer};
use super::flags::peer_url;
use super::kubectl::{drain_script, words};
use super::{etcd_data, paths};
use crate::components;
use crate::config::{Config, DnsKind};
use crate::events::Event;
use crate::phases::PhaseError;
use crate::remote::{Command, Script};
use crate::run::{Outcome, Step};
use eggo_bundles::Role;
use eggo_errors::Report;
use std::sync::Arc;
use std::time::Duration;

/// What is asked of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How long pods may take to leave.
    pub drain: Duration,
    /// Nodes that cannot be reached are taken out all the same: they will not come back.
    pub forget_gone: bool,
    /// The user's precleanup and postcleanup hooks do not run.
    pub skip_hooks: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { drain: Duration::from_secs(300), forget_gone: false, skip_hooks: false }
    }
}

/// Whether the cluster can do without `names`. Nothing is touched.
pub async fn check(cluster: &Cluster, names: &[String]) -> Result<(), Report> {
    let config = &cluster.config;
    config.named(names)?;
    let left = |role: Role| config.with_role(role).filter(|host| !names.contains(&host.name)).count();
    if left(Role::Master) == 0 {
        return Err(Report::new("the last master cannot be deleted")
            .hinted("`eggo-install cleanup` removes a whole cluster"));
    }
    if let Some(balancer) = config.load_balancer().filter(|host| names.contains(&host.name)) {
        return Err(Report::new(format!(
            "`{}` is the load balancer: all nodes reach the API by it",
            balancer.name
        )));
    }
    let endpoint = &config.api.endpoint.host;
    let is_endpoint =
        |host: &&crate::config::Host| host.ip.to_string() == *endpoint || host.name == *endpoint;
    if let Some(host) = config.hosts.iter().find(|host| names.contains(&host.name) && is_endpoint(host)) {
        return Err(Report::new(format!("`{}` is the endpoint by which all nodes reach the API", host.name))
            .hinted("set `apiserver-endpoint` or a load balancer before it goes"));
    }
    if config.etcd.external.is_none() {
        check_quorum(cluster, names).await?;
    }
    Ok(())
}

/// After every single removal the healthy members must still be more than half of those that are left.
async fn check_quorum(cluster: &Cluster, names: &[String]) -> Result<(), Report> {
    let etcds = cluster.with_role(Role::Etcd);
    if !etcds.iter().any(|node| names.contains(&node.host.name)) {
        return Ok(());
    }
    let health = health(&etcds).await;
    let mut members: Vec<(String, bool)> =
        health.iter().map(|(node, well)| (node.host.name.clone(), *well)).collect();
    if let Some((well, _)) = health.iter().find(|(_, well)| *well) {
        // Those that an earlier attempt took out have no voice any more.
        let listed = etcd::members(well).await?;
        let has = |node: &Node| listed.iter().any(|member| member.peer_urls.contains(&peer_url(&node.host)));
        members.retain(|(name, _)| etcds.iter().any(|node| node.host.name == *name && has(node)));
    }
    quorum(&members, names).map_err(|reason| {
        let sick: Vec<&str> =
            members.iter().filter(|(_, well)| !well).map(|(name, _)| name.as_str()).collect();
        let report = Report::new(reason);
        if sick.is_empty() { report } else { report.note(format!("not healthy now: {}", sick.join(", "))) }
    })
}

/// Which of the nodes have an etcd that is well.
async fn health<'a>(nodes: &[&'a Node]) -> Vec<(&'a Node, bool)> {
    let mut found = Vec::new();
    for node in nodes {
        found.push((*node, etcd::is_healthy(node, etcd::LOCAL).await == Some(true)));
    }
    found
}

/// Goes through the removals one by one.
fn quorum(members: &[(String, bool)], names: &[String]) -> Result<(), String> {
    let mut left: Vec<&(String, bool)> = members.iter().collect();
    // The sick ones go first: that is also the order in which they are removed.
    let mut going: Vec<&(String, bool)> = members.iter().filter(|(name, _)| names.contains(name)).collect();
    going.sort_by_key(|(_, well)| *well);
    for gone in going {
        // The removal itself must be agreed upon by the members of before.
        let well = left.iter().filter(|(_, well)| *well).count();
        if well * 2 <= left.len() {
            return Err(format!("etcd has no quorum now: {well} of {} members are healthy", left.len()));
        }
        left.retain(|member| member.0 != gone.0);
        let well = left.iter().filter(|(_, well)| *well).count();
        if well * 2 <= left.len() {
            return Err(format!(
                "without `{}` etcd would lose its quorum: {well} of {} members would be healthy",
                gone.0,
                left.len()
            ));
        }
    }
    Ok(())
}

/// Takes the nodes out; returns the config without them.
pub async fn run(cluster: &Cluster, names: &[String], options: Options) -> Result<Config, PhaseError> {
    check(cluster, names).await.map_err(PhaseError::Whole)?;
    let mut remaining = (*cluster.config).clone();
    remaining.hosts.retain(|host| !names.contains(&host.name));
    let rest = cluster.with_config(Arc::new(remaining.clone()));
    let going: Vec<&Node> = cluster.nodes.iter().filter(|node| names.contains(&node.host.name)).collect();
    let has = |role| going.iter().any(|node| node.host.has(role));
    if has(Role::Etcd) || has(Role::Master) {
        etcd_data::backup_before(cluster, "delete").await.map_err(PhaseError::Whole)?;
    }
    for node in &going {
        cluster.run.stop().check().map_err(PhaseError::Whole)?;
        if node.host.has(Role::Worker) {
            drain(&rest, node, options.drain).await.map_err(PhaseError::Whole)?;
        }
    }
    if has(Role::Master) {
        // No new connection goes to them before they stop.
        load_balancer::run(&rest).await?;
        let api = components::API_SERVER.name();
        let controllers: Vec<&str> =
            components::named(Role::Master).into_iter().filter(|name| Some(*name) != api).collect();
        for node in going.iter().filter(|node| node.host.has(Role::Master)) {
            stop(cluster, node, "controllers", &controllers).await.map_err(PhaseError::Whole)?;
        }
        if rest.config.dns.kind == DnsKind::Binary {
            dns::run(&rest).await?;
        }
    }
    if has(Role::Etcd) && cluster.config.etcd.external.is_none() {
        // The apiservers first learn to do without the members that go.
        control_plane::run(&rest).await?;
        leave_etcd(cluster, &rest, &going).await.map_err(PhaseError::Whole)?;
    }
    for node in &going {
        if node.host.has(Role::Master) {
            let units = components::API_SERVER.name();
            stop(cluster, node, "apiserver", units.as_slice()).await.map_err(PhaseError::Whole)?;
        }
        rest.pki().map_err(PhaseError::Whole)?.forget(&node.host.name)?;
    }
    Ok(remaining)
}

async fn drain(rest: &Cluster, node: &Node, limit: Duration) -> Result<(), Report> {
    let kubectl = rest.kubectl().await?;
    let name = &node.host.name;
    // A node that is gone cannot confirm that its pods have ended; they are not waited for.
    let script = drain_script(name, limit).arg("--skip-wait-for-delete-timeout=30");
    let work = async |permit| {
        let command = kubectl.change(permit, "drain the node", script);
        kubectl.run(command.timeout(limit + Duration::from_secs(60))).await?;
        Ok(Outcome::Changed)
    };
    rest.run.step(name, Step::new("delete/drain", "move its pods elsewhere").always(), work).await?;
    stop(rest, node, "worker", &components::named(Role::Worker)).await?;
    let work = async |permit| {
        let delete = words(&["delete", "node", name, "--ignore-not-found"]);
        kubectl.run(kubectl.change(permit, "delete the node", delete)).await?;
        Ok(Outcome::Changed)
    };
    rest.run.step(name, Step::new("delete/node", "delete the node").always(), work).await?;
    Ok(())
}

/// A node that cannot be reached has nothing to stop; that is said, and no error.
async fn stop(cluster: &Cluster, node: &Node, what: &str, units: &[&str]) -> Result<(), Report> {
    let work = async |permit| {
        let command = Command::change(permit, "stop the services", stop_each(units));
        let stopped = node.remote.run(command).await;
        if let Err(error) = &stopped {
            let text = format!("its services could not be stopped: {error}");
            cluster.run.event(Event::warning(Some(&node.host.name), text));
        }
        Ok(Outcome::changed_if(stopped.is_ok()))
    };
    let step = Step::new(format!("delete/stop-{what}"), "stop the services").always();
    cluster.run.step(&node.host.name, step, work).await.map(|_| ())
}

fn stop_each(units: &[&str]) -> Script {
    Script::new([include_str!("delete/stop.sh")]).args(units.iter().copied())
}

async fn leave_etcd(cluster: &Cluster, rest: &Cluster, going: &[&Node]) -> Result<(), Report> {
    let staying = health(&rest.with_role(Role::Etcd)).await;
    let first = staying.iter().find(|(_, well)| *well).map(|(node, _)| *node);
    let first = first.ok_or_else(|| Report::new("no healthy etcd member would be left"))?;
    let members: Vec<&Node> = going.iter().copied().filter(|node| node.host.has(Role::Etcd)).collect();
    let mut members = health(&members).await;
    // The sick ones first: without them the others are more than half the sooner.
    members.sort_by_key(|(_, well)| *well);
    for (node, _) in members {
        let url = peer_url(&node.host);
        let listed = etcd::members(first).await?;
        if let Some(member) = listed.iter().find(|member| member.peer_urls.contains(&url)) {
            let work = async |permit| {
                etcd::remove(permit, first, member).await?;
                Ok(Outcome::Changed)
            };
            let step = Step::new("delete/member", "remove the etcd member").always();
            cluster.run.step(&node.host.name, step, work).await?;
        }
        stop(cluster, node, "etcd", &components::named(Role::Etcd)).await?;
        let work = async |permit| {
            let forget = Script::new([include_str!("delete/forget_etcd.sh")]).set("DATA", paths::ETCD_DATA);
            let removed = node.remote.run(Command::change(permit, "remove etcd's data", forget)).await;
            Ok(Outcome::changed_if(removed.is_ok()))
        };
        cluster
            .run
            .step(&node.host.name, Step::new("delete/data", "remove etcd's data").always(), work)
            .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{quorum, stop_each};
    use crate::remote::sandbox::Sandbox;

    fn members(text: &str) -> Vec<(String, bool)> {
        text.split(' ').map(|word| (word.trim_end_matches('!').to_string(), !word.ends_with('!'))).collect()
    }

    #[test]
    fn a_member_goes_only_while_the_others_agree() {
        let ask = |all: &str, gone: &str| {
            let gone: Vec<String> = gone.split(' ').map(str::to_string).collect();
            quorum(&members(all), &gone).is_ok()
        };
        assert!(ask("a b c", "c"));
        assert!(ask("a b c", "b c"), "one after the other");
        assert!(ask("a b c!", "c"), "the sick one goes");
        assert!(!ask("a b c!", "b"), "a alone is not more than half of a and c");
        assert!(!ask("a b! c!", "c"), "no quorum now");
        assert!(ask("a b c d e!", "e d"));
        assert!(!ask("a", "a"));
    }

    #[test]
    fn a_unit_that_is_not_there_does_not_keep_the_others_running() {
        let sandbox = Sandbox::new();
        sandbox.program("systemctl", "shift 2; case \" $* \" in *' coredns '*) exit 1 ;; esac; echo \"$@\"");
        assert_eq!(sandbox.does(stop_each(&["coredns", "a", "b"])), "a\nb\n");
    }
}
