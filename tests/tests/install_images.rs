//! Images into real container runtimes: out of a bundle and out of eggo's old tarballs, only what is not there.

use eggo_tests::lab::{Host, Kind, Lab};
use eggo_tests::site::{run, succeed};
use eggo_tests::user::User;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

const PHASES: &str = "distribute,files,images";

struct Runtime {
    name: &'static str,
    list: &'static str,
    remove: &'static str,
}

const RUNTIMES: [Runtime; 2] = [
    Runtime { name: "containerd", list: "ctr -n k8s.io images ls -q", remove: "ctr -n k8s.io images rm" },
    Runtime {
        name: "docker",
        list: "docker image ls --format '{{.Repository}}:{{.Tag}}'",
        remove: "docker image rm",
    },
];

/// A host with both runtimes, and a registry to bundle images from.
fn site() -> Option<(Lab, User, String)> {
    let lab = Lab::take(&[("d", Kind::DebAmd64)])?;
    let (user, registry) = (User::new(&lab), lab.upstream().registry);
    let runtimes = user.build(
        "runtimes",
        "name: runtimes\nversion: 1\narchs: [amd64]\nrepos:\n- {name: debian, type: deb, from: system}\n\
         baseline: minimal\npackages:\n  worker: [containerd, runc, docker.io]\n",
        "amd64",
    );
    user.install_debs(&runtimes, lab.host("d"));
    Some((lab, user, registry))
}

/// The titles of the steps that changed something, as the program's events tell them.
fn changes(mut command: Command) -> Vec<String> {
    command.args(["--format", "json"]);
    let text = succeed(command);
    let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("an event"));
    let changed = events.filter(|event| event["event"] == "step-finished" && event["changed"] == true);
    changed.map(|event| event["title"].as_str().expect("a title").to_string()).collect()
}

/// What is loaded again is pinned again, where the runtime can.
fn again<'a>(runtime: &str, load: &'a str) -> Vec<&'a str> {
    if runtime == "containerd" { vec![load, "pin images"] } else { vec![load] }
}

#[test]
fn images_of_a_bundle_go_in_once_and_come_back_when_removed() {
    let Some((lab, user, registry)) = site() else { return };
    let host = lab.host("d");
    let images = [format!("{registry}/pause:3.2"), format!("{registry}/busybox:1.35")];
    let bundle = user.build(
        "images",
        &format!(
            "name: images\nversion: 1\narchs: [amd64]\nregistries:\n- {{name: \"{registry}\", plain-http: true}}\n\
             images: [\"{}\", \"{}\"]\n",
            images[0], images[1]
        ),
        "amd64",
    );
    for Runtime { name, list, remove } in RUNTIMES {
        user.describe(&[host], "root", &format!("runtime: {name}\npause-image: {registry}/pause:3.2\n"));
        let install = || user.phases(&bundle, &user.path("key.pub"), PHASES);
        assert!(changes(install()).contains(&"load 2 images".to_string()), "{name}");
        assert_holds(host, list, &images);
        assert_eq!(changes(install()), Vec::<String>::new(), "{name}");
        host.exec(&format!("{remove} {}", images[1]));
        assert_eq!(changes(install()), again(name, "load 1 images"), "{name}");
        assert_holds(host, list, &images);

        succeed(user.install(&["cleanup", "--yes", "--images"]));
        let left = host.exec(list);
        assert_eq!(left.trim(), "", "{name}");
    }
}

#[test]
fn images_of_an_old_tarball_are_loaded_too() {
    let Some((lab, user, registry)) = site() else { return };
    let host = lab.host("d");
    // As eggo's first generation laid it out: flat, with `images.tar` in the root.
    let folder = user.path("tarball");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("eggo-tool"), "#!/bin/sh\necho old\n").expect("a program");
    fs::set_permissions(folder.join("eggo-tool"), fs::Permissions::from_mode(0o755)).expect("a program");
    let saved = Command::new("skopeo")
        .args(["copy", "-q", "--src-tls-verify=false", "--override-arch", "amd64"])
        .arg(format!("docker://{registry}/pause:3.2"))
        .arg(format!("docker-archive:{}:k8s.gcr.io/pause:3.2", folder.join("images.tar").display()))
        .status();
    assert!(saved.expect("skopeo").success());
    let packed =
        Command::new("tar").arg("-C").arg(&folder).arg("-czf").arg(user.path("x86.tar.gz")).arg(".").status();
    assert!(packed.expect("tar").success());
    let tool = "[{name: eggo-tool, type: binary, dstpath: /usr/local/bin}]";
    for Runtime { name, list, remove } in RUNTIMES {
        let source = user.path("x86.tar.gz").display().to_string();
        user.describe(
            &[host],
            "root",
            &format!(
                "runtime: {name}\npackage-src: {{type: tar.gz, dstpath: \"\", armsrc: \"\", x86src: {source}}}\n\
                 pacakges:\n  etcd: {tool}\n  master: {tool}\n  node: {tool}\n"
            ),
        );
        let install = || {
            user.install(&[
                "--allow-unsigned",
                "--yes",
                "--only",
                PHASES,
                "--ignore",
                "memory,swap,modules,ports",
            ])
        };
        let unsigned = run(user.install(&["--yes", "--only", PHASES]));
        assert_eq!(unsigned.status.code(), Some(3), "{name}");
        assert!(changes(install()).contains(&"load the images of images.tar".to_string()), "{name}");
        assert_holds(host, list, &["k8s.gcr.io/pause:3.2".to_string()]);
        assert_eq!(changes(install()), Vec::<String>::new(), "{name}");
        host.exec(&format!("{remove} k8s.gcr.io/pause:3.2"));
        assert_eq!(changes(install()), again(name, "load the images of images.tar"), "{name}");
        assert_eq!(host.exec("eggo-tool").trim(), "old");
        succeed(user.install(&["cleanup", "--yes", "--images"]));
        assert_eq!(host.exec(list).trim(), "", "{name}");
    }
}

fn assert_holds(host: &Host, list: &str, images: &[String]) {
    let found = host.exec(list);
    for image in images {
        assert!(found.lines().any(|line| line == image), "{image} in {found}");
    }
}
