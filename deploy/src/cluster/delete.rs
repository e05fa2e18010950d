//! Nodes that leave: checked first, drained, taken out of etcd, the API, the load balancer and DNS.
//! What they have of ours is removed by cleanup, afterwards.

use super::context::{Cluster, Node};
use super::deploy::{control_plane, dns, etcd, load_balancer};
use super::flags::peer_url;
use super::kubectl::{drain_script, words};
use super::{etcd_data, paths};
use crate::components;
use crate::config::{DnsKind, Host};
use crate::phases::PhaseError;
use crate::remote::{Command, Script};
use crate::run::{Outcome, Step};
use crate::state;
use eggo_bundles::Role;
use eggo_errors::Report;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Nodes on their way out of a cluster.
pub struct Departure {
    pub cluster: Cluster,
    /// The cluster without them.
    pub rest: Cluster,
    /// Those that go, and those of them that can be asked to.
    pub going: Vec<Host>,
    pub reached: BTreeSet<String>,
    /// How long pods may take to leave.
    pub drain: Duration,
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
    let is_endpoint = |host: &&Host| host.ip.to_string() == *endpoint || host.name == *endpoint;
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

impl Departure {
    pub fn new(cluster: Cluster, names: &[String], reached: BTreeSet<String>, drain: Duration) -> Self {
        let mut remaining = (*cluster.config).clone();
        let going = remaining.hosts.extract_if(.., |host| names.contains(&host.name)).collect();
        let rest = cluster.with_config(Arc::new(remaining));
        Self { cluster, rest, going, reached, drain }
    }

    fn nodes(&self, role: Role) -> impl Iterator<Item = &Node> {
        let going = |node: &&Node| self.going.iter().any(|host| host.name == node.host.name);
        self.cluster.nodes.iter().filter(going).filter(move |node| node.host.has(role))
    }

    pub async fn back_up(&self) -> Result<(), PhaseError> {
        etcd_data::backup_before(&self.cluster, "delete").await.map_err(PhaseError::Whole)
    }

    /// Moves the pods of one node after the other elsewhere, and takes the nodes out of the API.
    pub async fn drain(&self) -> Result<(), PhaseError> {
        for node in self.nodes(Role::Worker) {
            self.drain_one(node).await.map_err(PhaseError::Whole)?;
        }
        Ok(())
    }

    async fn drain_one(&self, node: &Node) -> Result<(), Report> {
        let kubectl = self.rest.kubectl().await?;
        let name = &node.host.name;
        let drain = Step::new("delete/drain", "move its pods elsewhere").always();
        let work = async |permit| {
            // A node that is gone cannot confirm that its pods have ended; they are not waited for.
            let script = drain_script(name, self.drain).arg("--skip-wait-for-delete-timeout=30");
            let command = kubectl.change(permit, "drain the node", script);
            kubectl.run(command.timeout(self.drain + Duration::from_secs(60))).await?;
            Ok(Outcome::Changed)
        };
        self.cluster.run.step(name, drain, work).await?;
        self.stop(node, &components::named(Role::Worker)).await;
        let delete = Step::new("delete/node", "take it out of the API").always();
        let work = async |permit| {
            let script = words(&["delete", "node", name, "--ignore-not-found"]);
            kubectl.run(kubectl.change(permit, "delete the node", script)).await?;
            Ok(Outcome::Changed)
        };
        self.cluster.run.step(name, delete, work).await.map(|_| ())
    }

    /// No new connection goes to masters that are about to stop.
    pub async fn load_balancer(&self) -> Result<(), PhaseError> {
        load_balancer::run(&self.rest).await
    }

    pub async fn stop_controllers(&self) -> Result<(), PhaseError> {
        let api = components::API_SERVER.name();
        let controllers: Vec<&str> =
            components::named(Role::Master).into_iter().filter(|name| Some(*name) != api).collect();
        for node in self.nodes(Role::Master) {
            self.stop(node, &controllers).await;
        }
        if self.rest.config.dns.kind == DnsKind::Binary {
            dns::run(&self.rest).await?;
        }
        Ok(())
    }

    /// The apiservers first learn to do without the members that go.
    pub async fn etcd(&self) -> Result<(), PhaseError> {
        control_plane::run(&self.rest).await?;
        self.leave_etcd().await.map_err(PhaseError::Whole)
    }

    async fn leave_etcd(&self) -> Result<(), Report> {
        let staying = health(&self.rest.with_role(Role::Etcd)).await;
        let first = staying.iter().find(|(_, well)| *well).map(|(node, _)| *node);
        let first = first.ok_or_else(|| Report::new("no healthy etcd member would be left"))?;
        let mut members = health(&self.nodes(Role::Etcd).collect::<Vec<_>>()).await;
        // The sick ones first: without them the others are more than half the sooner.
        members.sort_by_key(|(_, well)| *well);
        for (node, _) in members {
            self.leave_etcd_one(first, node).await?;
        }
        Ok(())
    }

    async fn leave_etcd_one(&self, first: &Node, node: &Node) -> Result<(), Report> {
        let leave = Step::new("delete/etcd-member", "take it out of etcd").always();
        let work = async |permit| {
            let url = peer_url(&node.host);
            let listed = etcd::members(first).await?;
            let member = listed.iter().find(|member| member.peer_urls.contains(&url));
            if let Some(member) = member {
                etcd::remove(permit, first, member).await?;
            }
            Ok(Outcome::changed_if(member.is_some()))
        };
        self.cluster.run.step(&node.host.name, leave, work).await?;
        self.stop(node, &components::named(Role::Etcd)).await;
        let script = Script::new([include_str!("delete/forget_etcd.sh")]).set("DATA", paths::ETCD_DATA);
        self.if_reached(node, "delete/etcd-data", "remove etcd's data", script).await;
        Ok(())
    }

    pub async fn stop_apiservers(&self) -> Result<(), PhaseError> {
        for node in self.nodes(Role::Master) {
            self.stop(node, components::API_SERVER.name().as_slice()).await;
        }
        Ok(())
    }

    /// This machine keeps nothing of them but what is to be undone on them.
    pub async fn forget(&self) -> Result<(), PhaseError> {
        let going = self.going.clone();
        let forget = move |rest: &Cluster| -> Result<(), Report> {
            for host in &going {
                rest.pki()?.forget(&host.name)?;
            }
            state::save(&rest.state, &rest.config)
        };
        self.rest.on_disk(forget).await.map_err(PhaseError::Whole)
    }

    async fn stop(&self, node: &Node, units: &[&str]) {
        let id = format!("delete/stop-{}", units.first().unwrap_or(&"nothing"));
        self.if_reached(node, &id, "stop the services", stop_each(units)).await;
    }

    /// A node that cannot be reached has nothing to stop. One that does not do it goes all the same: whoever watches is
    /// told, and what is left there is undone later.
    async fn if_reached(&self, node: &Node, id: &str, title: &str, script: Script) {
        if self.reached.contains(&node.host.name) {
            let work = async |permit| {
                node.remote.run(Command::change(permit, title, script)).await?;
                Ok(Outcome::Changed)
            };
            let _ = self.cluster.run.step(&node.host.name, Step::new(id, title).always(), work).await;
        }
    }
}

fn stop_each(units: &[&str]) -> Script {
    Script::new([include_str!("delete/stop.sh")]).args(units.iter().copied())
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
