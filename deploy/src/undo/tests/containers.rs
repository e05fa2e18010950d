use super::*;
use crate::remote::CALL;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that looks like a shim, with a container below it. Nobody else's has its name.
fn shim(sandbox: &Sandbox, namespace: &str) -> Child {
    let program = sandbox.path(&name());
    if !program.exists() {
        // Not by this process: another test's child could still hold the file open for writing.
        assert!(Command::new("cp").arg("/bin/sh").arg(&program).status().unwrap().success());
    }
    let ready = sandbox.path(namespace);
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
    let sandbox = Sandbox::new();
    let (mut pods, mut others) = (shim(&sandbox, "k8s.io"), shim(&sandbox, "k8s.io.users"));
    let end = |namespace: &str| {
        let script = Script::new([include_str!("../containers.sh"), CALL]);
        sandbox.does(script.args(["end_containers", &name(), namespace]))
    };
    end("k8s.io");
    // It may end by itself before it is ended, for its container has ended.
    pods.wait().unwrap();
    let lives = |namespace: &str| {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", sandbox.read(namespace).trim()));
        state.is_ok_and(|state| !state.contains(") Z "))
    };
    let patience = Instant::now() + Duration::from_secs(10);
    while lives("k8s.io") && Instant::now() < patience {
        std::thread::yield_now();
    }
    let (pod, other) = (lives("k8s.io"), lives("k8s.io.users"));
    let untouched = others.try_wait().unwrap().is_none();
    end("");
    others.wait().unwrap();
    assert!(!pod && other && untouched, "{pod} {other} {untouched}");
}

/// Without a shim's name every process would be one.
#[test]
fn without_a_name_no_process_ends() {
    let sandbox = Sandbox::new();
    let said = sandbox.run(call(&sandbox, &["end_containers", "", "k8s.io"]));
    assert!(!said.done, "{said:?}");
}

const DOCKER: [&str; 6] =
    ["remove_containers", "docker", "no-such-shim", "moby", "", "remove_pods() { echo pods; }"];

#[test]
fn a_runtime_of_the_users_loses_only_the_pods() {
    let sandbox = Sandbox::new();
    sandbox.program("systemctl", "echo \"$@\"");
    sandbox.write("kept/users-runtimes", "docker\n");
    sandbox.write("docker/x", "");
    let folders = [sandbox.at("docker")];
    let words: Vec<&str> = DOCKER.into_iter().chain(folders.iter().map(String::as_str)).collect();
    assert_eq!(sandbox.does(call(&sandbox, &words)), "daemon-reload\nrestart docker\npods\n");
    assert!(sandbox.has("docker/x"));
}

#[test]
fn the_folders_of_another_runtime_go_unless_that_is_the_users() {
    for users in [true, false] {
        let sandbox = Sandbox::new();
        sandbox.write("kept/users-runtimes", if users { "containerd\n" } else { "" });
        sandbox.write("docker/x", "");
        sandbox.write("containerd/x", "");
        let (docker, containerd) = (sandbox.at("docker"), sandbox.at("containerd"));
        let words: Vec<&str> =
            DOCKER.into_iter().chain([&*docker, "--", "containerd", &containerd]).collect();
        sandbox.does(call(&sandbox, &words));
        assert_eq!((sandbox.has("docker"), sandbox.has("containerd")), (false, users));
    }
}

#[test]
fn actions_of_a_runtime_name_all_that_is_its_own() {
    let kind: RuntimeKind = "docker".parse().unwrap();
    let words = Undo::ContainersOf { runtime: kind }.words();
    assert_eq!(words[..5], ["remove_containers", "docker", "containerd-shim", "moby", ""]);
    let folders = ["/var/lib/docker", "/var/lib/dockershim", "/run/docker", "/etc/docker/key.json"];
    assert_eq!(words[6..10], folders);
    assert_eq!(words[10..], ["--", "containerd", "/var/lib/containerd", "/run/containerd"]);
    assert_eq!(Undo::RuntimeLink { runtime: kind }.words(), ["remove_bridge", "docker", "docker0"]);
    for kind in RuntimeKind::all() {
        assert!(!kind.containers.shim.is_empty(), "{kind}");
        let trees = Undo::ContainersOf { runtime: kind };
        assert!(trees.trees().iter().all(|path| path.matches('/').count() > 1), "{kind}");
    }
}

#[test]
fn a_bridge_goes_unless_its_runtime_is_the_users() {
    let sandbox = Sandbox::new();
    sandbox.program("ip", "echo \"$@\"");
    let remove = || sandbox.does(call(&sandbox, &["remove_bridge", "docker", "docker0"]));
    assert_eq!(remove(), "link delete docker0\n");
    sandbox.write("kept/users-runtimes", "docker\n");
    assert_eq!(remove(), "");
}

#[test]
fn links_to_programs_in_other_folders_go() {
    let sandbox = Sandbox::new();
    let at = |name: &str| sandbox.at(name);
    sandbox.write("into/own", "");
    for (link, target) in [
        ("ours", "pack'aged/x"),
        ("slashes", "pack'aged//x"),
        ("users", "elsewhere/x"),
        ("almost", "pack'aged-not/x"),
    ] {
        symlink(at(target), at(&format!("into/{link}"))).unwrap();
    }
    for _ in 0..2 {
        sandbox.does(call(&sandbox, &["remove_links", &at("into"), &at("pack'aged"), &at("other")]));
    }
    assert!(!sandbox.has("into/ours") && !sandbox.has("into/slashes"));
    assert!(["own", "users", "almost"].iter().all(|name| sandbox.has(&format!("into/{name}"))));
    sandbox.does(call(&sandbox, &["remove_links", &at("nowhere"), &at("other")]));
}

#[test]
fn images_go_by_the_runtimes_own_function() {
    let sandbox = Sandbox::new();
    let functions = "remove_images() { echo \"$@\"; }";
    assert_eq!(sandbox.does(call(&sandbox, &["remove_images_of", functions, "a", "b c"])), "a b c\n");
}
