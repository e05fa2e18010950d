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
use eggo_errors::Report;

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
    let links = files::cni_links(config, probe);
    let (before, link_undo) = links.map(|links| (links.make, links.undo)).unwrap_or_default();
    Service {
        unit,
        files,
        depends: version + &before,
        before,
        works: Some(works(kind)),
        undo: [link_undo, leftovers(kind, name)].concat(),
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
    let script = format!("if {users}; then {}\nexit 0; fi\n{remove}", end_pods(kind, name));
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

/// Shell: ends the pods in a runtime of the user's and removes their containers; all others stay. Only the
/// runtime itself can remove them, so it starts: with the user's settings, which are back by now.
fn end_pods(kind: RuntimeKind, name: &str) -> String {
    const SANDBOXES: &str = "/run/containerd/io.containerd.grpc.v1.cri/sandboxes";
    const LABEL: &str = "label=io.kubernetes.pod.uid";
    let (end, remove) = match kind {
        RuntimeKind::Containerd => (
            end_containers("containerd-shim", Some("k8s.io")),
            format!(
                "for i in $(ctr -n k8s.io containers ls -q 2>/dev/null); do\n\
                 ctr -n k8s.io containers rm $i >/dev/null 2>&1 || :; umount -l {SANDBOXES}/$i/shm 2>/dev/null || :; done"
            ),
        ),
        RuntimeKind::Docker => (
            String::new(),
            format!(
                "docker ps -aq --filter {LABEL} 2>/dev/null | xargs -r docker rm -f -v >/dev/null 2>&1 || :"
            ),
        ),
        RuntimeKind::Isulad => (
            String::new(),
            format!("isula ps -aq --filter {LABEL} 2>/dev/null | xargs -r isula rm -f >/dev/null 2>&1 || :"),
        ),
    };
    format!("{end}\nsystemctl daemon-reload\nif systemctl restart {name} 2>/dev/null; then {remove}\nfi")
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    /// A process that looks like a shim, with a container below it. Nobody else's has its name.
    fn shim(folder: &Path, namespace: &str) -> Child {
        let program = folder.join(name());
        if !program.exists() {
            // Not by this process: another test's child could still hold the file open for writing.
            assert!(Command::new("cp").arg("/bin/sh").arg(&program).status().unwrap().success());
        }
        let ready = folder.join(namespace);
        let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", ready.display());
        // Whatever becomes of this test, nobody waits for the end of its output.
        let mut command = Command::new(&program);
        command.args(["-c", &script, "-namespace", namespace]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        while !ready.exists() {
            std::thread::yield_now();
        }
        child
    }

    fn name() -> String {
        format!("shim{}", std::process::id())
    }

    #[test]
    fn only_the_containers_of_one_namespace_end() {
        let folder = tempfile::tempdir().unwrap();
        let (mut pods, mut others) = (shim(folder.path(), "k8s.io"), shim(folder.path(), "k8s.io.users"));
        let script = end_containers(&name(), Some("k8s.io"));
        let output = Command::new("sh").args(["-euc", &script]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        // It may end by itself before it is its turn, for its container has ended.
        pods.wait().unwrap();
        let lives = |namespace: &str| {
            let process = std::fs::read_to_string(folder.path().join(namespace)).unwrap();
            let state = std::fs::read_to_string(format!("/proc/{}/stat", process.trim()));
            state.is_ok_and(|state| !state.contains(") Z "))
        };
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while lives("k8s.io") && std::time::Instant::now() < patience {
            std::thread::yield_now();
        }
        let (pod, other) = (lives("k8s.io"), lives("k8s.io.users"));
        let untouched = others.try_wait().unwrap().is_none();
        Command::new("sh").args(["-euc", &end_containers(&name(), None)]).status().unwrap();
        others.wait().unwrap();
        assert!(!pod && other && untouched, "{pod} {other} {untouched}");
    }

    /// No folder is removed, and no process ended but by docker itself.
    #[test]
    fn a_runtime_of_the_users_loses_only_the_pods() {
        let programs = "systemctl() { echo systemctl \"$@\"; }; docker() { echo docker \"$@\" >&2; echo pod; }\n\
                        xargs() { while read -r i; do echo \"$@ $i\" >&2; done; }; grep() { true; }\n\
                        for p in rm find kill umount awk; do eval \"$p() { echo $p; }\"; done";
        let undo = leftovers(RuntimeKind::Docker, "docker");
        let end = undo.iter().find(|undo| undo.title().starts_with("end the containers")).unwrap();
        let script = format!("set -eu; {programs}\n{}", end.shell());
        let script = script.replace("2>/dev/null", "").replace(">/dev/null 2>&1", "");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let (said, asked) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(said, "systemctl daemon-reload\nsystemctl restart docker\n", "{asked}");
        assert_eq!(asked, "docker ps -aq --filter label=io.kubernetes.pod.uid\n-r docker rm -f -v pod\n");
    }
}
