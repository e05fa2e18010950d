//! apiserver, controller-manager and scheduler on the masters.

use super::failed_on;
use crate::cluster::context::{Node, require};
use crate::cluster::files::{control_plane as files, rights, unit};
use crate::cluster::flags::{Scope, api_url};
use crate::cluster::service::{Service, make_folder};
use crate::cluster::{Cluster, ClusterView, paths};
use crate::components;
use crate::config::Component;
use crate::events::Event;
use crate::phases::PhaseError;
use crate::pki::AuthorityName;
use crate::remote::{RemoteFile, Script};
use crate::run::{Outcome, Step};
use crate::undo::Undo;
use crate::version::{NEWEST, OLDEST, Version};
use eggo_bundles::Role;
use eggo_errors::Report;
use std::net::IpAddr;
use std::time::Duration;

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    for (index, node) in cluster.with_role(Role::Master).into_iter().enumerate() {
        let failed = |report| failed_on(&cluster.run, &node.host.name, report);
        start(cluster, node).await.map_err(failed)?;
        if index == 0 {
            grant(cluster, node).await.map_err(failed)?;
        }
    }
    Ok(())
}

/// Brings one master's three services up, the apiserver first.
pub async fn start(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    let facts = node.facts(&cluster.config).await?;
    let program = require(node, facts, "kube-apiserver", Role::Master)?;
    let version = kubernetes_version(cluster, node, "kube-apiserver").await?;
    let scope = Scope { config: &cluster.config, host: &node.host, version, facts };
    Service {
        unit: Some(unit::write(Component::KubeApiserver, program, &scope)),
        files: apiserver_files(cluster, node)?,
        depends: version.to_string(),
        before: Some(make_folder("/var/log/kubernetes/audit")),
        limit: Duration::from_secs(300),
        undo: vec![
            Undo::tree("/var/log/kubernetes/audit"),
            Undo::Folder { path: "/var/log/kubernetes".into() },
        ],
        ..Service::new("kube-apiserver")
    }
    .ensure(&cluster.run, node)
    .await?;
    let server = api_url(&node.host);
    for (component, port) in [
        (&components::CONTROLLER_MANAGER, components::CONTROLLER_MANAGER_PORT),
        (&components::SCHEDULER, components::SCHEDULER_PORT),
    ] {
        let (name, facts) = (component.service(&cluster.config), scope.facts);
        let program = require(node, facts, name, Role::Master)?;
        let version = kubernetes_version(cluster, node, name).await?;
        let scope = Scope { version, ..scope };
        let mut files = vec![cluster.kubeconfig_of(component, &node.host, &server)?];
        files.extend(shared_files(cluster)?);
        Service {
            unit: component.flags.map(|flags| unit::write(flags, program, &scope)),
            files,
            depends: version.to_string(),
            works: Some(listens(port)),
            ..Service::new(name)
        }
        .ensure(&cluster.run, node)
        .await?;
    }
    Ok(())
}

/// Succeeds when something listens on the port.
pub fn listens(port: u16) -> Script {
    socket(format!(":{port:04X}"))
}

fn socket(end: String) -> Script {
    Script::new([include_str!("listens.sh")]).set("SOCKET", end)
}

/// As [`listens`], on just this address: others may have the port on theirs.
pub fn listens_on(ip: IpAddr, port: u16) -> Script {
    // The kernel prints an address in words as the machine reads them, and both archs are little-endian.
    let bytes = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = bytes.chunks(4).map(|word| word.iter().rev().map(|byte| format!("{byte:02X}")).collect());
    let address: String = words.collect::<Vec<String>>().concat();
    socket(format!(" {address}:{port:04X}"))
}

/// What a component says its version is; one that is not known here is run all the same.
pub async fn kubernetes_version(cluster: &Cluster, node: &Node, program: &str) -> Result<Version, Report> {
    let version = known_version(cluster, node, program).await?;
    if version.minor > NEWEST {
        let text =
            format!("{program} {version} is newer than 1.{NEWEST}, the newest whose flags are known here");
        cluster.run.event(Event::warning(Some(&node.host.name), text));
    }
    Ok(version)
}

/// The same for those who only look.
pub async fn known_version(cluster: &ClusterView, node: &Node, program: &str) -> Result<Version, Report> {
    let facts = node.facts(&cluster.config).await?;
    let name = &node.host.name;
    let version = facts.version(program).ok_or_else(|| {
        Report::new(format!("{name}: `{program} --version` does not say its version"))
            .hinted("is the program of the bundle for this arch, and complete?")
    })?;
    if version.major != 1 || version.minor < OLDEST {
        return Err(Report::new(format!(
            "{name}: {program} {version} is older than 1.{OLDEST}, the oldest supported"
        )));
    }
    Ok(version)
}

/// What several components of a master read.
fn shared_files(cluster: &Cluster) -> Result<Vec<RemoteFile>, Report> {
    let pki = cluster.pki()?;
    let (private, _) = pki.service_account()?;
    let authority = AuthorityName::Cluster;
    Ok(vec![
        RemoteFile::new(paths::pki("ca.crt"), pki.authority(authority).pem.clone()),
        // The controller-manager signs the kubelets' certificates with it.
        RemoteFile::new(paths::pki("ca.key"), pki.authority_key(authority)?.to_string()).secret(),
        RemoteFile::new(
            paths::pki("front-proxy-ca.crt"),
            pki.authority(AuthorityName::FrontProxy).pem.clone(),
        ),
        RemoteFile::new(paths::pki("sa.key"), private.to_string()).secret(),
    ])
}

fn apiserver_files(cluster: &Cluster, node: &Node) -> Result<Vec<RemoteFile>, Report> {
    let pki = cluster.pki()?;
    let mut files = shared_files(cluster)?;
    files.push(RemoteFile::new(paths::pki("sa.pub"), pki.service_account()?.1));
    let mut leaf = |name: &str, certificate: String, key: String| {
        files.push(RemoteFile::new(paths::pki(&format!("{name}.crt")), certificate));
        files.push(RemoteFile::new(paths::pki(&format!("{name}.key")), key).secret());
    };
    for name in ["apiserver", "apiserver-kubelet-client", "front-proxy-client"] {
        let found = cluster.leaf(&node.host, name)?;
        leaf(name, found.certificate, found.key.to_string());
    }
    let etcd_authority = match &cluster.config.etcd.external {
        Some(external) => {
            leaf("apiserver-etcd-client", given(&external.cert)?, given(&external.key)?);
            given(&external.ca)?
        }
        None => {
            let found = cluster.leaf(&node.host, "apiserver-etcd-client")?;
            leaf("apiserver-etcd-client", found.certificate, found.key.to_string());
            pki.authority(AuthorityName::Etcd).pem.clone()
        }
    };
    files.push(RemoteFile::new(paths::pki("etcd/ca.crt"), etcd_authority));
    let encryption = files::encryption(&pki.encryption_key()?);
    files.push(RemoteFile::new(paths::ENCRYPTION, encryption.to_string()).secret());
    files.push(RemoteFile::new(paths::AUDIT_POLICY, files::audit_policy()).mode(0o600));
    Ok(files)
}

fn given(path: &std::path::Path) -> Result<String, Report> {
    std::fs::read_to_string(path).map_err(|error| {
        Report::new(format!("cannot read `{}` of the external etcd: {error}", path.display()))
    })
}

/// The rights that kubelets need. With a version of ours that had them join by tokens, those end.
async fn grant(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    let objects = rights::of_kubelets().to_string();
    const REVOKE: &str = include_str!("revoke_tokens.sh");
    let step = Step::new("rights", "grant kubelets the right to renew their certificates")
        .fingerprint_of([objects.as_str(), REVOKE]);
    let work = async |permit| {
        let kubectl = cluster.kubectl_on(node).await?;
        kubectl.until("wait for the API", &["get", "--raw", "/readyz"], Duration::from_secs(120)).await?;
        let title = "grant kubelets the right to renew their certificates";
        kubectl.apply(permit, title, objects.as_bytes()).await?;
        let title = "revoke bootstrap tokens of earlier versions";
        kubectl.run(kubectl.change(permit, title, Script::new([REVOKE]))).await?;
        Ok(Outcome::Changed)
    };
    cluster.run.step(&node.host.name, step, work).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_counts_on_its_own_address_only() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let holds = |script: Script| {
            std::process::Command::new("sh").args(["-euc", &script.to_string()]).status().unwrap().success()
        };
        assert!(holds(listens(port)));
        assert!(holds(listens_on("127.0.0.1".parse().unwrap(), port)));
        assert!(!holds(listens_on("127.0.0.2".parse().unwrap(), port)));
        let six = listens_on("fd00::1".parse().unwrap(), 53).to_string();
        assert!(six.contains(" 000000FD000000000000000001000000:0035'"), "{six}");
    }
}
