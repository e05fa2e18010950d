//! Workers: kubelet by TLS bootstrap, kube-proxy. All at once; one that fails does not stop the others.

use super::requests::{CLIENT, Verdict, judge_client, others_wait, pending};
use super::runtime;
use crate::cluster::context::{Node, require};
use crate::cluster::deploy::control_plane::kubernetes_version;
use crate::cluster::files::kubeconfig::{Credentials, Kubeconfig};
use crate::cluster::files::{bootstrap::Token, kubelet, proxy, unit};
use crate::cluster::flags::Scope;
use crate::cluster::kubectl::until;
use crate::cluster::service::Service;
use crate::cluster::{Cluster, paths};
use crate::components;
use crate::config::Component;
use crate::events::Event;
use crate::facts::Facts;
use crate::journal::Undo;
use crate::phases::PhaseError;
use crate::pki::AuthorityName;
use crate::remote::{COMMON, Command, KEPT, RemoteFile, Script, mounts, networks, words};
use crate::run::{Outcome, Step};
use crate::version::check_kubelet;
use eggo_bundles::Role;
use eggo_errors::Report;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const JOIN: Duration = Duration::from_secs(180);

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    let workers: Vec<&Node> = cluster.with_role(Role::Worker);
    join(cluster, &workers).await
}

/// Brings `workers` to the cluster.
pub async fn join(cluster: &Cluster, workers: &[&Node]) -> Result<(), PhaseError> {
    let token = token_if_needed(cluster, workers).await.map_err(PhaseError::Whole)?;
    let done = AtomicBool::new(false);
    let joining = async {
        let result =
            super::on_each(&cluster.run, workers, |node| Box::pin(start(cluster, node, token.as_ref())))
                .await;
        done.store(true, Ordering::Relaxed);
        result
    };
    let approving = async {
        match &token {
            Some(token) => approve(cluster, token, &done).await,
            None => Ok(()),
        }
    };
    let (joined, approved) = futures::join!(joining, approving);
    if let Some(token) = &token {
        revoke(cluster, token).await.map_err(PhaseError::Whole)?;
    }
    joined.map_err(|error| match (error, approved) {
        // Why nobody let them in.
        (PhaseError::Nodes(mut failures), Err(report)) => {
            for failure in &mut failures {
                failure.report.notes.push(format!("certificate requests: {}", report.message));
            }
            PhaseError::Nodes(failures)
        }
        (error, _) => error,
    })
}

/// A token, if any worker still has to come in. It lasts for this phase alone.
async fn token_if_needed(cluster: &Cluster, workers: &[&Node]) -> Result<Option<Token>, Report> {
    let mut needed = false;
    for node in workers.iter().filter(|node| !cluster.run.has_failed(&node.host.name)) {
        // A node that cannot be asked fails by itself later.
        needed |= node.facts(&cluster.config).await.is_ok_and(|facts| !has_joined(facts));
    }
    if !needed {
        return Ok(None);
    }
    let token = Token::make(Timestamp::now())
        .map_err(|error| Report::new(format!("this machine gives no random numbers: {error}")))?;
    let kubectl = cluster.kubectl().await?;
    kubectl.apply("make a bootstrap token", token.secret().to_string().as_bytes()).await?;
    Ok(Some(token))
}

/// The kubelet has a certificate that is still good.
fn has_joined(facts: &Facts) -> bool {
    facts.kubelet_client.as_ref().is_some_and(|certificate| certificate.not_after > Timestamp::now())
}

async fn revoke(cluster: &Cluster, token: &Token) -> Result<(), Report> {
    let kubectl = cluster.kubectl().await?;
    let script = format!(
        "kubectl -n kube-system delete secret bootstrap-token-{} --ignore-not-found >/dev/null",
        token.id
    );
    kubectl.run("revoke the bootstrap token", &script).await?;
    Ok(())
}

/// Brings a worker that is in the cluster to the form that it should have now.
pub async fn refresh(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    start(cluster, node, None).await
}

async fn start(cluster: &Cluster, node: &Node, token: Option<&Token>) -> Result<(), Report> {
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
    let authority = cluster.pki()?.authority(AuthorityName::Cluster).pem.clone();
    let mut files = vec![
        RemoteFile::new(paths::pki("ca.crt"), authority),
        RemoteFile::new(paths::KUBELET_CONFIG, kubelet::config(&scope)),
        RemoteFile::new(paths::SYSCTL_KUBELET, kubelet::SYSCTL),
    ];
    if !config.kubelet_serving {
        let leaf = cluster.leaf(&node.host, "kubelet")?;
        files.push(RemoteFile::new(paths::pki("kubelet.crt"), leaf.certificate));
        files.push(RemoteFile::new(paths::pki("kubelet.key"), leaf.key.to_string()).secret());
    }
    let token = token.filter(|_| !has_joined(facts));
    if let Some(token) = token {
        introduce(cluster, node, token).await?;
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
        undo: [leftovers(), vec![Undo::script("restore kernel settings", restore_kernel())]].concat(),
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
        ],
        depends: version.to_string(),
        undo: vec![Undo::script("remove kube-proxy's rules", remove_rules(program))],
        ..Service::new("kube-proxy")
    }
    .ensure(&cluster.run, node)
    .await?;
    registered(cluster, node, token.is_some()).await
}

/// The token, in a file that goes once the kubelet has its own certificate.
async fn introduce(cluster: &Cluster, node: &Node, token: &Token) -> Result<(), Report> {
    let text = token.text();
    let endpoint = cluster.endpoint();
    let kubeconfig = Kubeconfig {
        cluster: &cluster.config.cluster_id,
        server: &endpoint,
        authority: &cluster.pki()?.authority(AuthorityName::Cluster).pem,
        user: "kubelet-bootstrap",
        credentials: Credentials::Token(&text),
    };
    let file = RemoteFile::new(paths::KUBELET_BOOTSTRAP, kubeconfig.write().to_string()).secret();
    let step = Step::new("kubelet/introduce", "give the kubelet a bootstrap token")
        .undo(Undo::file(paths::KUBELET_BOOTSTRAP))
        .always();
    let work = || async {
        // A certificate that has expired, while the machine was off: the kubelet asks for another one.
        let script = format!("rm -f {} {}", paths::KUBELET, paths::KUBELET_CLIENT);
        node.remote.run(Command::sh("forget the kubelet's old certificate", script)).await?;
        node.remote.write_file(file).await?;
        Ok(Outcome::Changed)
    };
    cluster.run.step(&node.host.name, step, work).await?;
    Ok(())
}

/// Waits until the API knows the node; then the token's file is of no use any more.
async fn registered(cluster: &Cluster, node: &Node, introduced: bool) -> Result<(), Report> {
    let step = Step::new("kubelet/registered", "see the node in the API");
    let step = if introduced { step.always() } else { step };
    let work = || async {
        let kubectl = cluster.kubectl().await?;
        let check = format!("kubectl get node {} -o name", node.host.name);
        kubectl.until("see the node in the API", &check, JOIN).await?;
        let script = format!("rm -f {}", paths::KUBELET_BOOTSTRAP);
        node.remote.run(Command::sh("remove the bootstrap token", script)).await?;
        Ok(Outcome::Changed)
    };
    cluster.run.step(&node.host.name, step, work).await?;
    Ok(())
}

/// Approves the workers' requests as they come, until all have joined or failed. An API that is out of
/// breath for a moment is asked again; what it said last is the result.
async fn approve(cluster: &Cluster, token: &Token, done: &AtomicBool) -> Result<(), Report> {
    let (mut left, mut last) = (BTreeSet::new(), Ok(()));
    while !done.load(Ordering::Relaxed) {
        last = approve_next(cluster, token, &mut left).await;
        if last.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    last
}

async fn approve_next(cluster: &Cluster, token: &Token, left: &mut BTreeSet<String>) -> Result<(), Report> {
    let kubectl = cluster.kubectl().await?;
    // One command waits on the master for the next request; it ends soon when none comes.
    let wait = until(&others_wait(CLIENT, left), Duration::from_secs(2));
    let script = format!("( {wait} ) >/dev/null 2>&1 || :\nkubectl get csr -o json");
    let output = kubectl.run("wait for certificate requests", &script).await?;
    let list = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let mut names = Vec::new();
    for request in pending(&list) {
        match judge_client(&cluster.config, &token.user(), &request) {
            Verdict::Approve(_) => names.push(request.name),
            Verdict::Leave(reason) => {
                let ours = request.user == token.user();
                if left.insert(request.name) && ours {
                    let text = format!("certificate request left alone: {reason}");
                    cluster.run.event(Event::warning(None, text));
                }
            }
        }
    }
    if !names.is_empty() {
        let script = format!("kubectl certificate approve {} >/dev/null", words(&names));
        kubectl.run("approve certificate requests", &script).await?;
    }
    Ok(())
}

/// Where a worker notes its kernel settings of before.
fn saved() -> String {
    format!("{KEPT}/sysctl-kubelet")
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

fn restore_kernel() -> Script {
    Script::new([include_str!("kernel_undo.sh")]).set("NOTED", saved())
}

/// What a kubelet leaves behind: mounts of pods, their data, the interfaces of the pods' network. CNI plugins
/// keep what they know of all containers in one place, which stays if others had any.
fn leftovers() -> Vec<Undo> {
    let script = format!(
        "rm -f {}\n{}\nif ! {}; then {}\nfi\n{}",
        paths::KUBELET,
        mounts::remove(&["/var/lib/kubelet", "/var/log/pods", "/var/log/containers"]),
        networks::has_users_data(),
        mounts::remove(&["/var/lib/cni"]),
        networks::remove(),
    );
    vec![Undo::script("remove pods, their mounts and interfaces", script)]
}

/// kube-proxy knows its own chains; those of the kubelet and of CNI plugins go by name. Nothing tells a pod's
/// chain of a plugin from another container's: if there were any before, all of them stay.
fn remove_rules(program: &str) -> String {
    let program = crate::remote::quote(program);
    format!(
        "{program} --cleanup >/dev/null 2>&1 || :\n\
         cni='CNI-|'; if {users}; then cni=; fi\n\
         for t in iptables ip6tables; do command -v $t-save >/dev/null || continue\n\
         $t-save 2>/dev/null | awk -v ours=\"(KUBE-|${{cni}}cali-|FLANNEL-)\" '/^\\*/ {{ print; next }} /^COMMIT/ {{ print; next }} \
         /^:/ {{ if ($1 !~ \"^:\" ours) print; next }} \
         $0 !~ ours && !/cali:/ {{ print }}' | $t-restore 2>/dev/null || :\ndone",
        users = networks::has_users_chains()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_pods_go_and_those_of_other_containers_stay() {
        let users = "*nat\n:PREROUTING ACCEPT [0:0]\n:DOCKER - [0:0]\n-A PREROUTING -j DOCKER\n";
        let plugins = ":CNI-1 - [0:0]\n-A POSTROUTING -s 10.9.0.2/32 -j CNI-1\n";
        let ours = ":KUBE-SVC - [0:0]\n:cali-nat - [0:0]\n-A PREROUTING -j KUBE-SVC\n\
                    -A FORWARD -m comment --comment \"cali:x\" -j ACCEPT\n-A FORWARD -j FLANNEL-FWD\n";
        let left = |noted: &str| {
            let fakes = format!(
                "tables_save() {{ printf '%s' '{users}{plugins}{ours}COMMIT\n'; }}; tables_restore() {{ cat; }}\n\
                 grep() {{ {noted}; }}"
            );
            let script = remove_rules("true").replace("iptables ip6tables", "x");
            let script = script.replace("$t-save", "tables_save").replace("$t-restore", "tables_restore");
            let script = format!("set -eu\n{fakes}\n{script}");
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(left("false"), format!("{users}COMMIT\n"));
        assert_eq!(left("true"), format!("{users}{plugins}COMMIT\n"), "there were some before");
    }

    #[test]
    fn a_kubelet_whose_certificate_has_expired_is_to_join_again() {
        use crate::pki::table::{Names, Subject, rows};
        use crate::pki::{Certificate, Folder, folder::Reuse};
        let folder = tempfile::tempdir().unwrap();
        let begin = Timestamp::now() - jiff::SignedDuration::from_hours(24 * 400);
        let pki = Folder::prepare(folder.path(), None, begin).unwrap();
        let api = Names::default();
        let subject = Subject { name: "w", ip: [127, 0, 0, 1].into(), leaves: &["kubelet"], api: &api };
        let row = rows(&subject).remove(0);
        let joined = |at| {
            let leaf = pki.leaf(Some("w"), &row, Reuse::Never, at).unwrap();
            let found = Certificate::parse("kubelet-client", leaf.certificate.as_bytes()).unwrap();
            has_joined(&Facts { kubelet_client: Some(found), ..Facts::default() })
        };
        assert!(joined(Timestamp::now()));
        assert!(!joined(begin), "a year is over");
        assert!(!has_joined(&Facts::default()));
    }

    #[test]
    fn kernel_settings_go_back_to_what_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        // A kernel in a folder: a file for each setting.
        let sysctl = format!(
            "cd {}; sysctl() {{ if [ \"$1\" = -e ]; then shift; for key; do echo \"$key = $(cat $key)\"; done; return; fi\n\
             for file; do :; done; while read -r key _ value; do echo $value > $key; done < $file; }}",
            folder.path().display()
        );
        let run = |script: Script| {
            let script = script.set("NOTED", at("kept")).set("SETTINGS", at("ours"));
            let script = format!("set -eu; {sysctl}\n{script}");
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
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
            std::fs::write(at(key), "7\n").unwrap();
        }
        std::fs::write(at("ours"), kubelet::SYSCTL).unwrap();
        let values = || keys.map(|key| std::fs::read_to_string(at(key)).unwrap().trim().to_string());
        run(set_kernel());
        assert_eq!(values(), ["10", "1", "1", "0", "7", "7"]);
        run(set_kernel());
        run(restore_kernel());
        assert_eq!(values(), ["7"; 6]);
    }

    /// What CNI plugins noted stays where they had noted something before.
    #[test]
    fn data_of_other_containers_stays() {
        // On no account those of the machine that the test runs on.
        let script = leftovers().remove(0).shell().replace("/var/", "/nowhere/");
        for users in ["true", "false"] {
            let fakes = format!(
                "rm() {{ for last; do :; done; echo \"$last\"; }}; grep() {{ {users}; }}; awk() {{ :; }}; ip() {{ :; }}"
            );
            let script = format!("set -eu\n{fakes}\n{script}");
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            let removed = String::from_utf8(output.stdout).unwrap();
            assert_eq!(!removed.contains("/nowhere/lib/cni"), users == "true", "{removed}");
            assert!(removed.contains("/nowhere/lib/kubelet"), "{removed}");
        }
    }
}
