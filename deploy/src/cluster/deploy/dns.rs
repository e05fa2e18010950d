//! coredns.

use super::failed_on;
use crate::cluster::context::{Node, require};
use crate::cluster::files::coredns::{self, Upstream};
use crate::cluster::flags::api_url;
use crate::cluster::service::Service;
use crate::cluster::{Cluster, paths};
use crate::components;
use crate::config::DnsKind;
use crate::facts::Facts;
use crate::phases::PhaseError;
use crate::remote::RemoteFile;
use crate::run::{Outcome, Step};
use crate::undo::Undo;
use eggo_bundles::Role;
use eggo_errors::Report;

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    let objects = match &cluster.config.dns.kind {
        DnsKind::Binary => {
            for node in cluster.with_role(Role::Master) {
                start(cluster, node)
                    .await
                    .map_err(|report| failed_on(&cluster.run, &node.host.name, report))?;
            }
            coredns::service_objects(&cluster.config)
        }
        DnsKind::Pod { image_version, replicas } => {
            let mut upstream = Upstream::None;
            for node in cluster.with_role(Role::Worker) {
                if !cluster.run.has_failed(&node.host.name) {
                    upstream = upstream_of(node.facts(&cluster.config).await.map_err(PhaseError::Whole)?);
                }
            }
            // Inside a pod the kubelet has put the node's name servers there.
            if upstream != Upstream::None {
                upstream = Upstream::File("/etc/resolv.conf");
            }
            let image = image(cluster, image_version).map_err(PhaseError::Whole)?;
            coredns::pod_objects(&cluster.config, &image, *replicas, upstream)
        }
    };
    apply(cluster, objects.to_string()).await.map_err(PhaseError::Whole)
}

async fn apply(cluster: &Cluster, objects: String) -> Result<(), Report> {
    let kubectl = cluster.kubectl().await?;
    let step = Step::new("dns", "make the DNS service").fingerprint_of([&objects]).always();
    let work = async |permit| {
        let changed = kubectl.apply(permit, "make the DNS service", objects.as_bytes()).await?;
        Ok(Outcome::changed_if(changed))
    };
    cluster.run.step(kubectl.host().name(), step, work).await?;
    Ok(())
}

pub async fn start(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    let facts = node.facts(&cluster.config).await?;
    let program = require(node, facts, "coredns", Role::Master)?;
    let corefile = coredns::corefile(&cluster.config, node.host.ip, upstream_of(facts));
    Service {
        unit: Some(coredns::unit(program)),
        files: vec![
            cluster.kubeconfig_of(&components::DNS, &node.host, &api_url(&node.host))?,
            RemoteFile::new(paths::COREFILE, corefile),
        ],
        works: Some(super::control_plane::listens_on(node.host.ip, 53)),
        undo: vec![Undo::Folder { path: "/etc/dns".into() }],
        ..Service::new("coredns")
    }
    .ensure(&cluster.run, node)
    .await?;
    Ok(())
}

fn upstream_of(facts: &Facts) -> Upstream {
    match (facts.name_servers, facts.resolved) {
        (false, _) => Upstream::None,
        (true, true) => Upstream::File("/run/systemd/resolve/resolv.conf"),
        (true, false) => Upstream::File("/etc/resolv.conf"),
    }
}

/// The bundle's image of coredns in the version that deploy.yaml asks for.
fn image(cluster: &Cluster, version: &str) -> Result<String, Report> {
    let bare = version.trim_start_matches('v');
    let images = cluster.shelf.images();
    let of_coredns = |name: &&String| {
        let repository = name.rsplit_once(':').map_or(name.as_str(), |(repository, _)| repository);
        repository.rsplit('/').next() == Some("coredns")
    };
    let found: Vec<&String> = images.iter().filter(of_coredns).collect();
    let tag = |name: &&&String| name.rsplit(':').next().map(|tag| tag.trim_start_matches('v')) == Some(bare);
    found.iter().find(tag).map(|name| name.to_string()).ok_or_else(|| {
        let list: Vec<&str> = found.iter().map(|name| name.as_str()).collect();
        Report::new(format!("the bundle has no image of coredns {version}"))
            .note(format!("found: {}", if list.is_empty() { "none".into() } else { list.join(", ") }))
            .hinted(
                "add it to the bundle's images, or set `service.dns.imageversion`, or `corednstype: binary`",
            )
    })
}
