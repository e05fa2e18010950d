//! Container runtimes on the workers.

use crate::cluster::context::{Node, require};
use crate::cluster::files::runtime as files;
use crate::cluster::service::{Service, stamp};
use crate::cluster::version::Version;
use crate::cluster::{Cluster, paths};
use crate::config::RuntimeKind;
use crate::journal::Undo;
use crate::phases::PhaseError;
use crate::remote::KEPT;
use eggo_bundles::Role;
use eggo_terminal::Report;

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    let workers = cluster.with_role(Role::Worker);
    super::on_each(&cluster.run, &workers, |node| Box::pin(start(cluster, node))).await
}

pub async fn start(cluster: &Cluster, node: &Node) -> Result<(), Report> {
    let config = &cluster.config;
    let probe = node.probe(config).await?;
    let kind = config.runtime.kind;
    let (name, program) = match kind {
        RuntimeKind::Docker => ("docker", "dockerd"),
        RuntimeKind::Containerd => ("containerd", "containerd"),
        RuntimeKind::Isulad => ("isulad", "isulad"),
    };
    let path = require(node, probe, program, Role::Worker)?;
    let kubelet = probe.version("kubelet").unwrap_or(Version::new(1, 20, 0));
    let refused = |error: files::RuntimeError| {
        let report = Report::new(format!("{}: {error}", node.host.name));
        match error.hint() {
            Some(hint) => report.hinted(hint),
            None => report,
        }
    };
    let files = files::files(config, probe, kubelet).map_err(refused)?;
    // A runtime that came as a bare binary has no unit yet.
    let unit = (!probe.units.contains(name)).then(|| unit(name, path));
    let version = probe.version(program).map(|version| version.to_string()).unwrap_or_default();
    Service {
        unit,
        files,
        depends: version,
        before: note_owner(name),
        works: Some(works(kind)),
        undo: leftovers(kind, name),
        ..Service::new(name)
    }
    .ensure(&cluster.run, node)
    .await?;
    Ok(())
}

fn works(kind: RuntimeKind) -> String {
    match kind {
        RuntimeKind::Docker => "docker version >/dev/null".to_string(),
        RuntimeKind::Containerd => "ctr version >/dev/null".to_string(),
        RuntimeKind::Isulad => "isula version >/dev/null".to_string(),
    }
}

fn unit(name: &str, program: &str) -> String {
    format!(
        "# Written by eggo-install.\n[Unit]\nDescription=Container runtime\nAfter=network-online.target\n\
         Wants=network-online.target\n\n[Service]\nType=notify\nExecStartPre=-/sbin/modprobe overlay\nExecStart={program}\n\
         Delegate=yes\nKillMode=process\nRestart=always\nRestartSec=5\nLimitNPROC=infinity\nLimitCORE=infinity\n\
         TasksMax=infinity\n\n[Install]\nWantedBy=multi-user.target\n# {name}\n"
    )
}

/// Whose a runtime was before it was first started for the cluster: what runs before that is the user's, for
/// packages start nothing while we install them.
const OWNER: &str = "runtime-owner";

fn note_owner(name: &str) -> String {
    format!(
        "o={KEPT}/{OWNER}; [ -e $o ] || {{ mkdir -p {KEPT}; if [ ! -e {} ] && systemctl -q is-active {name}; then echo user; else echo ours; fi > $o.new\n\
         mv -f $o.new $o; }}",
        stamp(name)
    )
}

/// Shell: succeeds if the runtime was the user's.
fn is_users() -> String {
    format!("[ \"$(cat {KEPT}/{OWNER} 2>/dev/null)\" = user ]")
}

/// What containers leave behind: they end, their mounts go, then their data. A runtime that the user had
/// keeps all that is in it, and runs again as it did.
fn leftovers(kind: RuntimeKind, name: &str) -> Vec<Undo> {
    let (folders, shims) = match kind {
        RuntimeKind::Containerd => {
            ("/var/lib/containerd /run/containerd /etc/containerd/certs.d", "containerd-shim")
        }
        RuntimeKind::Docker => (
            "/var/lib/docker /var/lib/dockershim /run/docker /etc/docker/key.json /var/lib/containerd /run/containerd",
            "containerd-shim",
        ),
        RuntimeKind::Isulad => ("/var/lib/isulad /run/isulad", "isulad-shim"),
    };
    let script = format!(
        "if {}; then exit 0; fi\n{}\nfor f in {folders}; do {}\nrm -rf --one-file-system \"$f\"; done",
        is_users(),
        end_containers(shims),
        unmount("$f"),
    );
    let restart = format!("if {}; then systemctl -q enable {name}; systemctl restart {name}; fi", is_users());
    // Undone last first.
    let mut undo = vec![
        Undo::script("start the runtime that was there before", restart),
        Undo::script("end the containers and remove their data", script),
    ];
    if kind == RuntimeKind::Docker {
        let remove = format!(
            "if ! {} && command -v ip >/dev/null; then ip link delete docker0 2>/dev/null || :; fi",
            is_users()
        );
        undo.push(Undo::script("remove docker's bridge", remove));
    }
    undo.push(Undo::Folder {
        path: paths::CONTAINERD_USER.rsplit_once('/').map_or("/etc/containerd", |(folder, _)| folder).into(),
    });
    undo
}

/// Shell: ends every process that lives below a container's shim, and the shim.
fn end_containers(shims: &str) -> String {
    format!(
        "for p in /proc/[0-9]*; do read -r c 2>/dev/null < $p/comm || continue; case $c in {shims}*) \
         s=${{p#/proc/}}; for t in $p/task/*/children; do for k in $(cat $t 2>/dev/null); do kill -9 $k 2>/dev/null || :; done; done; \
         kill -9 $s 2>/dev/null || : ;; esac; done; sleep 0.2"
    )
}

/// Shell: unmounts everything below a folder, the innermost first.
pub fn unmount(folder: &str) -> String {
    format!(
        "awk -v f=\"{folder}/\" 'index($2 \"/\", f) == 1 {{ print $2 }}' /proc/mounts | sort -r | \
         while read -r m; do umount -l \"$m\" 2>/dev/null || :; done"
    )
}
