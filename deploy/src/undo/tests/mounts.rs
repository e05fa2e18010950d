use super::*;
use std::process::Command;

/// Runs a script in a mount namespace of its own; what it said, with the folder's name taken out, or none where no
/// namespaces are allowed.
fn apart(sandbox: &Sandbox, script: &str) -> Option<String> {
    let apart = "if [ $(id -u) = 0 ]; then u=; else u='--user --map-root-user'; fi; exec unshare $u --mount sh -c \"$0\"";
    let said = sandbox.by(Command::new("sh").args(["-c", apart, script]));
    if said.err.starts_with("unshare:") {
        eprintln!("skipped: no namespaces are allowed here");
        return None;
    }
    assert!(said.done, "{said:?}");
    Some(said.out.replace(&sandbox.at(""), "/"))
}

#[test]
fn a_disk_of_the_users_stays_and_is_emptied() {
    let sandbox = Sandbox::new();
    let (disk, plain, nowhere) = (sandbox.at("disk"), sandbox.at("plain"), sandbox.at("nowhere"));
    let script = format!(
        "set -eu; mkdir -p {disk} {plain}/pods/p/volume; mount -t tmpfs users {disk}; mkdir {disk}/lost+found\n{}\n\
         mkdir -p {disk}/pods/q '{plain}/pods/a b'; echo x > {disk}/pods/x\n\
         for m in {disk}/pods/q {plain}/pods/p/volume '{plain}/pods/a b'; do mount -t tmpfs pod \"$m\"; done\n{}\n\
         ls -A {disk}; [ -e {plain} ] || echo removed; awk '$2 ~ \"{}\" {{ print $1, $2 }}' /proc/mounts",
        call(&sandbox, &["note_mounts"]),
        call(&sandbox, &["remove_trees", &disk, &plain, &nowhere]),
        sandbox.at(""),
    );
    let Some(text) = apart(&sandbox, &script) else { return };
    assert_eq!(text, "lost+found\nremoved\nusers /disk\n");
}

/// A bind mount of the same file system looks like any other folder.
#[test]
fn what_was_mounted_below_before_is_not_touched() {
    let sandbox = Sandbox::new();
    let (docker, data) = (sandbox.at("docker"), sandbox.at("data"));
    let script = format!(
        "set -eu; mkdir -p data docker/volumes/x 'docker/volumes/a [b]' docker/volumes/xy pod\n\
         echo users > data/file; mkdir data/empty; echo ours > pod/file\n\
         mount --bind data docker/volumes/x; mount --bind data 'docker/volumes/a [b]'\n{}\n\
         mkdir -p docker/pods/p; mount --bind pod docker/pods/p; echo x > docker/volumes/xy/z; echo x > docker/volumes/y\n{}\n\
         find docker {data} pod | LC_ALL=C sort; grep -c {docker} /proc/mounts",
        call(&sandbox, &["note_mounts"]),
        call(&sandbox, &["remove_tree", &docker]),
    );
    let Some(text) = apart(&sandbox, &script) else { return };
    let kept = "/data\n/data/empty\n/data/file\n\
         docker\ndocker/volumes\n\
         docker/volumes/a [b]\ndocker/volumes/a [b]/empty\ndocker/volumes/a [b]/file\n\
         docker/volumes/x\ndocker/volumes/x/empty\ndocker/volumes/x/file\n\
         pod\npod/file\n2\n";
    assert_eq!(text, kept);
}

#[test]
fn a_folder_that_root_put_elsewhere_is_emptied_there() {
    let sandbox = Sandbox::new();
    let script = format!(
        "set -eu; mkdir -p real/kubelet/pods/p; ln -s real lib; mkdir pod; echo x > pod/file\n{}\n\
         mount --bind pod real/kubelet/pods/p\n{}\nfind real pod | LC_ALL=C sort",
        call(&sandbox, &["note_mounts"]),
        call(&sandbox, &["remove_tree", &sandbox.at("lib/kubelet")]),
    );
    let Some(text) = apart(&sandbox, &script) else { return };
    assert_eq!(text, "pod\npod/file\nreal\n");
}

#[test]
fn a_folder_that_no_pattern_can_name_is_refused() {
    let sandbox = Sandbox::new();
    for name in ["a b", "a*", "a[b]", "a\\b"] {
        sandbox.write(&format!("{name}/x/file"), "own");
        let said = sandbox.run(call(&sandbox, &["remove_tree", &sandbox.at(&format!("{name}/x"))]));
        assert!(!said.done && sandbox.has(&format!("{name}/x/file")), "{name}");
    }
}
