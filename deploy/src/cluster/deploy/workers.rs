//! Workers: kubelet and kube-proxy. All at once; one that fails does not stop the others.
//!
//! A kubelet joins with a client certificate that is signed on the control machine and goes to its node alone: no
//! token exists that another could join with, and nobody's requests for client certificates are approved by hand.

use super::runtime;
use crate::cluster::context::{Node, require};
use crate::cluster::deploy::control_plane::kubernetes_version;
use crate::cluster::files::kubeconfig::{Credentials, Kubeconfig};
use crate::cluster::files::{kubelet, proxy, unit};
use crate::cluster::flags::Scope;
use crate::cluster::service::Service;
use crate::cluster::{Cluster, paths};
use crate::components;
use crate::config::Component;
use crate::phases::PhaseError;
use crate::pki::{AuthorityName, Certificate};
use crate::remote::{COMMON, Command, KEPT, RemoteFile, Script};
use crate::run::{Outcome, Step};
use crate::undo::{KernelNote, Undo};
use crate::version::check_kubelet;
use eggo_bundles::Role;
use eggo_errors::Report;
use jiff::Timestamp;
use std::time::Duration;

const JOIN: Duration = Duration::from_secs(180);

/// When a kubelet gets a new client certificate from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    /// When it has none that the cluster accepts: it joins, or was off until its own expired.
    IfNeeded,
    Always,
}

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    let workers: Vec<&Node> = cluster.with_role(Role::Worker);
    super::on_each(&cluster.run, &workers, |node| Box::pin(refresh(cluster, node))).await
}

/// Brings a worker to the cluster, or to the form that it should have now.
pub async fn refresh(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    start(cluster, node, Client::IfNeeded).await
}

/// The same, with new certificates.
pub async fn renew(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    start(cluster, node, Client::Always).await
}

async fn start(cluster: &Cluster, node: &Node, client: Client) -> Result<(), Report> {
    let config = &cluster.config;
    let facts = node.facts(config).await?;
    let version = kubernetes_version(cluster, node, "kubelet").await?;
    if let Some(master) = cluster.with_role(Role::Master).first() {
        let control = kubernetes_version(cluster, master, "kube-apiserver").await?;
        check_kubelet(version, control).map_err(|skew| Report::new(skew.to_string()))?;
    }
    runtime::start(cluster, node).await?;

    let scope = Scope { config, host: &node.host, version, facts };
    let program = require(node, facts, "kubelet", Role::Worker)?;
    let pki = cluster.pki()?;
    let mut files = vec![
        RemoteFile::new(paths::pki("ca.crt"), pki.authority(AuthorityName::Cluster).pem.clone()),
        RemoteFile::new(paths::KUBELET_CONFIG, kubelet::config(&scope)),
        RemoteFile::new(paths::SYSCTL_KUBELET, kubelet::SYSCTL),
        kubeconfig(cluster)?,
    ];
    if !config.kubelet_serving {
        let leaf = cluster.leaf(&node.host, "kubelet")?;
        files.push(RemoteFile::new(paths::pki("kubelet.crt"), leaf.certificate));
        files.push(RemoteFile::new(paths::pki("kubelet.key"), leaf.key.to_string()).secret());
    }
    let found = facts.kubelet_client.as_ref();
    let introduced = client == Client::Always || !found.is_some_and(|found| accepts(cluster, node, found));
    if introduced {
        introduce(cluster, node).await?;
    }
    Service {
        unit: Some(unit::write(Component::Kubelet, program, &scope)),
        files,
        depends: version.to_string(),
        before: Some(set_kernel()),
        works: Some(
            Script::new([include_str!("kubelet_works.sh")]).set("CERTIFICATE", paths::KUBELET_CLIENT),
        ),
        limit: JOIN,
        undo: vec![Undo::Pods, Undo::KernelSettings { noted: KernelNote::Kubelet }],
        ..Service::new("kubelet")
    }
    .ensure(&cluster.run, node)
    .await?;

    let version = kubernetes_version(cluster, node, "kube-proxy").await?;
    let scope = Scope { version, ..scope };
    let program = require(node, facts, "kube-proxy", Role::Worker)?;
    Service {
        unit: Some(unit::write(Component::KubeProxy, program, &scope)),
        files: vec![
            cluster.kubeconfig_of(&components::PROXY, &node.host, &cluster.endpoint())?,
            RemoteFile::new(paths::KUBE_PROXY_CONFIG, proxy::config(&scope)),
            RemoteFile::new(paths::SERVICE_ROUTE, proxy::SERVICE_ROUTE.to_string()),
        ],
        depends: version.to_string(),
        undo: vec![
            Undo::ServiceRoute { network: scope.config.service.cidr.to_string() },
            Undo::KubeProxyRules { program: program.to_string() },
        ],
        ..Service::new("kube-proxy")
    }
    .ensure(&cluster.run, node)
    .await?;
    registered(cluster, node, introduced).await
}

/// Whether the API accepts this as the certificate of the node's kubelet.
fn accepts(cluster: &Cluster, node: &Node, found: &Certificate) -> bool {
    let row = cluster.kubelet_client_row(&node.host);
    cluster.pki().is_ok_and(|pki| {
        pki.authority(row.authority).issued(found)
            && found.common_name == row.profile.common_name
            && found.not_after > Timestamp::now()
    })
}

/// How the kubelet finds the API; its certificate is in a file of its own, for it renews that itself.
fn kubeconfig(cluster: &Cluster) -> Result<RemoteFile, Report> {
    let endpoint = cluster.endpoint();
    let kubeconfig = Kubeconfig {
        cluster: &cluster.config.cluster_id,
        server: &endpoint,
        authority: &cluster.pki()?.authority(AuthorityName::Cluster).pem,
        user: "kubelet",
        credentials: Credentials::File(paths::KUBELET_CLIENT),
    };
    Ok(RemoteFile::new(paths::KUBELET, kubeconfig.write().to_string()).secret())
}

/// A client certificate for the kubelet. It is stopped, so that it starts with the new one.
async fn introduce(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    let step = Step::new("kubelet/introduce", "give the kubelet a client certificate")
        .undo(Undo::Folder { path: "/var/lib/kubelet".into() })
        .undo(Undo::tree(paths::KUBELET_PKI))
        .always();
    let work = async |permit| {
        let leaf = cluster.kubelet_client(&node.host)?;
        let script = Script::new([include_str!("kubelet_client.sh")])
            .set("FOLDER", paths::KUBELET_PKI)
            .set("CURRENT", paths::KUBELET_CLIENT)
            .set("TOKEN", paths::KUBELET_BOOTSTRAP);
        let command = Command::change(permit, "give the kubelet a client certificate", script).secret();
        node.remote.run(command.stdin(format!("{}{}", leaf.certificate, *leaf.key))).await?;
        Ok(Outcome::Changed)
    };
    cluster.run.step(&node.host.name, step, work).await?;
    Ok(())
}

/// Waits until the API knows the node.
async fn registered(cluster: &Cluster, node: &Node, introduced: bool) -> Result<(), Report> {
    let step = Step::new("kubelet/registered", "see the node in the API");
    let step = if introduced { step.always() } else { step };
    let work = async |_| {
        let kubectl = cluster.kubectl().await?;
        let words = ["get", "node", &node.host.name, "-o", "name"];
        kubectl.until("see the node in the API", &words, JOIN).await?;
        Ok(Outcome::Changed)
    };
    cluster.run.step(&node.host.name, step, work).await?;
    Ok(())
}

/// Where a worker notes its kernel settings of before.
fn saved() -> String {
    format!("{KEPT}/{}", KernelNote::Kubelet.file())
}

/// Sets what the kubelet insists on, and notes what was set before, once; also what a kubelet sets itself if the
/// user tells it not to insist.
fn set_kernel() -> Script {
    let kubelets = kubelet::SYSCTL.lines().filter_map(|line| line.split_once(" =")).map(|(key, _)| key);
    let keys = kubelets.chain(["kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes"]);
    Script::new([COMMON, include_str!("kernel.sh")])
        .set("NOTED", saved())
        .set("SETTINGS", paths::SYSCTL_KUBELET)
        .args(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::context::Bare;
    use crate::events::Silent;
    use crate::journal::Journal;
    use crate::pki::Authority;
    use crate::remote::fake::{Call, Fake};
    use crate::remote::sandbox::Sandbox;
    use crate::run::Run;
    use crate::undo;
    use jiff::SignedDuration;
    use std::path::Path;
    use std::sync::Arc;

    /// A cluster with the workers `w` and `v`, kept in a folder.
    fn cluster(folder: &Path, fakes: &[Arc<Fake>]) -> Cluster {
        let text = "masters: [{name: m, ip: 192.168.7.1, arch: amd64}]\n\
                    workers: [{name: w, ip: 192.168.7.2, arch: amd64}, {name: v, ip: 192.168.7.3, arch: amd64}]\n\
                    install: {package-source: {type: bundle}}\n";
        let config = Arc::new(crate::config::parse("d.yaml", text.as_bytes()).unwrap().config);
        let nodes = ["w", "v"].iter().zip(fakes);
        let nodes = nodes.map(|(name, fake)| Node::new(config.host(name).unwrap().clone(), fake.clone()));
        let run = Arc::new(Run::new(Journal::open(folder).unwrap(), Arc::new(Silent)));
        Cluster::new(config.clone(), nodes.collect(), run, Arc::new(Bare), folder.to_path_buf())
    }

    /// What a node is given lets it be itself and nobody else; the key goes nowhere but to the node.
    #[tokio::test]
    async fn a_joining_node_gets_its_own_certificate_and_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let fakes = ["w", "v"].map(|name| Arc::new(Fake::new(name)));
        let cluster = cluster(folder.path(), &fakes);
        for (node, fake) in cluster.nodes.iter().zip(&fakes) {
            introduce(&cluster, node).await.unwrap();
            let calls = fake.calls();
            let [Call::Run { script, stdin, .. }] = &calls[..] else { panic!("{calls:?}") };
            let (name, text) = (&node.host.name, String::from_utf8(stdin.to_vec()).unwrap());
            let leaf = Certificate::parse("client", text.as_bytes()).unwrap();
            assert_eq!(leaf.common_name, format!("system:node:{name}"));
            assert_eq!(leaf.organisations, ["system:nodes"]);
            assert!(leaf.dns.is_empty() && leaf.ips.is_empty() && !leaf.is_authority);
            let (key, _) =
                text.split_once("-----BEGIN PRIVATE KEY-----\n").unwrap().1.split_once('\n').unwrap();
            assert!(!script.contains(key));
            let journal = std::fs::read_to_string(folder.path().join("journal.jsonl")).unwrap();
            assert!(!journal.contains(key));
            let files = crate::state::State::list(&crate::state::Folder::new(folder.path())).unwrap();
            assert!(!files.iter().any(|file| file.path().ends_with("kubelet-client.key")), "{files:?}");
        }
    }

    #[test]
    fn a_kubelet_whose_certificate_does_not_count_is_to_join_again() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = cluster(folder.path(), &["w", "v"].map(|name| Arc::new(Fake::new(name))));
        let (w, v) = (&cluster.nodes[0], &cluster.nodes[1]);
        let parse = |text: &str| Certificate::parse("client", text.as_bytes()).unwrap();
        let own = parse(&cluster.kubelet_client(&w.host).unwrap().certificate);
        assert!(accepts(&cluster, w, &own));
        assert!(!accepts(&cluster, v, &own), "another node's");
        let late = Certificate { not_after: Timestamp::now() - SignedDuration::from_secs(1), ..own };
        assert!(!accepts(&cluster, w, &late), "expired");
        let (other, _) = Authority::make(AuthorityName::Cluster, Timestamp::now()).unwrap();
        let profile = cluster.kubelet_client_row(&w.host).profile;
        let foreign = parse(&other.sign("client", &profile, Timestamp::now()).unwrap().certificate);
        assert!(!accepts(&cluster, w, &foreign), "of another authority");
    }

    /// What the script leaves in a folder that has `before` in it.
    #[test]
    fn the_new_certificate_takes_the_place_of_all_others() {
        let sandbox = Sandbox::new();
        sandbox.program("systemctl", "exit 1");
        let at = |name: &str| sandbox.path("pki").join(name);
        let run = || {
            let script = Script::new([include_str!("kubelet_client.sh")])
                .set("FOLDER", sandbox.at("pki"))
                .set("CURRENT", at("kubelet-client-current.pem").display().to_string())
                .set("TOKEN", at("token").display().to_string());
            let said = sandbox.feed(script, b"new\n");
            assert!(said.done && said.err.is_empty(), "{said:?}");
            let mut files: Vec<String> = std::fs::read_dir(at(""))
                .unwrap()
                .map(|file| file.unwrap().file_name().into_string().unwrap())
                .collect();
            files.sort();
            assert_eq!(std::fs::read_to_string(at("kubelet-client-current.pem")).unwrap(), "new\n");
            assert!(std::fs::symlink_metadata(at("kubelet-client-current.pem")).unwrap().is_symlink());
            files.join(" ")
        };
        let only = "kubelet-client-current.pem kubelet-client-issued.pem";
        assert_eq!(run(), only, "the first time");
        std::fs::remove_file(at("kubelet-client-current.pem")).unwrap();
        for name in ["kubelet-client-2026-11-18-17-06-00.pem", "token", "kubelet-server-2026-11-18.pem"] {
            std::fs::write(at(name), "old").unwrap();
        }
        std::os::unix::fs::symlink(
            at("kubelet-client-2026-11-18-17-06-00.pem"),
            at("kubelet-client-current.pem"),
        )
        .unwrap();
        assert_eq!(run(), format!("{only} kubelet-server-2026-11-18.pem"));
    }

    #[test]
    fn kernel_settings_go_back_to_what_they_were() {
        let sandbox = Sandbox::new();
        // A kernel in the folder: a file for each setting.
        let sysctl = "if [ \"$1\" = -e ]; then shift; for key; do echo \"$key = $(cat $key)\"; done; exit; fi\n\
                      for file; do :; done; while read -r key _ value; do echo $value > $key; done < $file";
        sandbox.program("sysctl", sysctl);
        let run = |script: Script| {
            sandbox.does(script.set("NOTED", sandbox.at("kept")).set("SETTINGS", sandbox.at("ours")));
        };
        let keys = [
            "kernel.panic",
            "kernel.panic_on_oops",
            "vm.overcommit_memory",
            "vm.panic_on_oom",
            "kernel.keys.root_maxkeys",
            "kernel.keys.root_maxbytes",
        ];
        for key in keys {
            sandbox.write(key, "7\n");
        }
        sandbox.write("ours", kubelet::SYSCTL);
        let values = || keys.map(|key| sandbox.read(key).trim().to_string());
        run(set_kernel());
        assert_eq!(values(), ["10", "1", "1", "0", "7", "7"]);
        run(set_kernel());
        run(undo::call(["restore_settings", "kept"]).set("KEPT", sandbox.at("")));
        assert_eq!(values(), ["7"; 6]);
    }
}
