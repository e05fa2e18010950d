//! Container runtimes on the workers.

use crate::cluster::context::{Node, require};
use crate::cluster::files::runtime as files;
use crate::cluster::service::Service;
use crate::cluster::version::Version;
use crate::cluster::{Cluster, paths};
use crate::config::RuntimeKind;
use crate::journal::Undo;
use crate::phases::PhaseError;
use crate::remote::runtimes::{as_before, is_users};
use crate::remote::{mounts, quote};
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

/// What containers leave behind: they end, their mounts go, then their data. A runtime that the user had
/// keeps all that is in it, and runs again as it did; so does the containerd that our docker used too.
fn leftovers(kind: RuntimeKind, name: &str) -> Vec<Undo> {
    const CONTAINERD: [&str; 2] = ["/var/lib/containerd", "/run/containerd"];
    let remove = match kind {
        RuntimeKind::Containerd => {
            let [data, run] = CONTAINERD;
            let folders = mounts::remove(&[data, run, "/etc/containerd/certs.d"]);
            format!("{}\n{folders}", end_containers("containerd-shim", None))
        }
        RuntimeKind::Docker => format!(
            "{}\n{}\nif ! {}; then {}\nfi",
            end_containers("containerd-shim", Some("moby")),
            mounts::remove(&[
                "/var/lib/docker",
                "/var/lib/dockershim",
                "/run/docker",
                "/etc/docker/key.json"
            ]),
            is_users("containerd"),
            mounts::remove(&CONTAINERD)
        ),
        RuntimeKind::Isulad => {
            let folders = mounts::remove(&["/var/lib/isulad", "/run/isulad"]);
            format!("{}\n{folders}", end_containers("isulad-shim", None))
        }
    };
    let users = is_users(name);
    let script = format!("if {users}; then exit 0; fi\n{remove}");
    let restart = format!("if {users}; then {}; fi", as_before(name));
    // Undone last first.
    let mut undo = vec![
        Undo::script("leave the runtime that was there before as it was", restart),
        Undo::script("end the containers and remove their data", script),
    ];
    if kind == RuntimeKind::Docker {
        let remove = format!(
            "if ! {users} && command -v ip >/dev/null; then ip link delete docker0 2>/dev/null || :; fi"
        );
        undo.push(Undo::script("remove docker's bridge", remove));
    }
    undo.push(Undo::Folder {
        path: paths::CONTAINERD_USER.rsplit_once('/').map_or("/etc/containerd", |(folder, _)| folder).into(),
    });
    undo
}

/// Shell: ends every process that lives below a container's shim, and the shim; only of those shims that
/// have `namespace` among their arguments, if one is given.
fn end_containers(shims: &str, namespace: Option<&str>) -> String {
    let chosen = namespace.map_or(String::new(), |namespace| {
        format!("tr '\\0' '\\n' 2>/dev/null < $p/cmdline | grep -qxF {} || continue\n", quote(namespace))
    });
    format!(
        "for p in /proc/[0-9]*; do read -r c 2>/dev/null < $p/comm || continue; case $c in {shims}*) {chosen}\
         s=${{p#/proc/}}; for t in $p/task/*/children; do for k in $(cat $t 2>/dev/null); do kill -9 $k 2>/dev/null || :; done; done; \
         kill -9 $s 2>/dev/null || : ;; esac; done; sleep 0.2"
    )
}
