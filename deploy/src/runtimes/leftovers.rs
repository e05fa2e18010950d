//! What containers leave behind: they end, their mounts go, then their data. A runtime that the user had keeps all that
//! is in it, and runs again as it did; so does another one that ours used too.

use super::users::{self, USERS};
use super::{CALL, RuntimeKind};
use crate::remote::{Script, mounts};

const CONTAINERS: &str = include_str!("containers.sh");

/// A piece of it, in the order in which they are done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub title: String,
    pub script: String,
}

pub fn leftovers(kind: RuntimeKind) -> Vec<Leftover> {
    let (name, containers) = (kind.service, &kind.containers);
    let mut all = Vec::new();
    let mut add = |title: &str, script: String| all.push(Leftover { title: title.to_string(), script });
    if let Some(link) = containers.link {
        let script = Script::new([USERS, include_str!("remove_link.sh")]).set("NAME", name).set("LINK", link);
        add(&format!("remove {kind}'s bridge"), users::noted(script).to_string());
    }
    let end = Script::new([USERS, CONTAINERS, kind.shell, include_str!("end.sh")])
        .set("NAME", name)
        .set("SHIM", containers.shim)
        .set("NAMESPACE", containers.namespace)
        .set("PODS", containers.pods);
    let mut script = format!("{}\n{}\n", users::noted(end), mounts::remove(containers.folders));
    if let Some((other, folders)) = containers.uses {
        let spare = Script::new([USERS, include_str!("spare.sh")]).set("NAME", other);
        script.push_str(&format!("{}\n{}\n", users::noted(spare), mounts::remove(folders)));
    }
    add("end the containers and remove their data", script);
    let restart = users::noted(Script::new([USERS, CALL])).args(["as_before", name]);
    add("leave the runtime that was there before as it was", restart.to_string());
    all
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
        let end = |namespace: &str| {
            let script = Script::new([CONTAINERS, CALL]).args(["end_containers", &name(), namespace]);
            Command::new("sh").args(["-euc", &script.to_string()]).output().unwrap()
        };
        let output = end("k8s.io");
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
        end("");
        others.wait().unwrap();
        assert!(!pod && other && untouched, "{pod} {other} {untouched}");
    }

    /// No folder is removed, and no process ended but by docker itself.
    #[test]
    fn a_runtime_of_the_users_loses_only_the_pods() {
        let folder = tempfile::tempdir().unwrap();
        let noted = folder.path().join("users");
        let asked = folder.path().join("asked");
        std::fs::write(&noted, "docker\n").unwrap();
        let programs = format!(
            "systemctl() {{ echo systemctl \"$@\"; }}; docker() {{ echo docker \"$@\" >> {0}; echo pod; }}\n\
             xargs() {{ while read -r i; do echo \"$@ $i\" >> {0}; done; }}\n\
             for p in rm find kill umount awk; do eval \"$p() {{ echo $p; }}\"; done",
            asked.display()
        );
        let all = leftovers("docker".parse().unwrap());
        let titles: Vec<&str> = all.iter().map(|piece| piece.title.as_str()).collect();
        assert_eq!(titles[..2], ["remove docker's bridge", "end the containers and remove their data"]);
        let script = all[1].script.replace("/var/lib/eggo/kept/users-runtimes", noted.to_str().unwrap());
        let output = Command::new("sh").args(["-euc", &format!("{programs}\n{script}")]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "systemctl daemon-reload\nsystemctl restart docker\n", "{output:?}");
        let asked = std::fs::read_to_string(asked).unwrap();
        assert_eq!(asked, "docker ps -aq --filter label=io.kubernetes.pod.uid\n-r docker rm -f -v pod\n");
    }
}
