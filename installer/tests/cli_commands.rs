//! The program as a user calls it: output, exit codes, help.

use std::path::Path;
use std::process::{Command, Output};

fn eggo(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_eggo-install"))
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .env("COLUMNS", "100")
        .output()
        .unwrap()
}

/// Exit code, stdout and stderr in one text.
fn told(output: &Output) -> String {
    format!(
        "exit {}\n--- stdout\n{}--- stderr\n{}",
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn help_suffices_offline() {
    let folder = tempfile::tempdir().unwrap();
    insta::assert_snapshot!("help", told(&eggo(folder.path(), &["--help"])));
    for command in ["validate", "template", "plan", "facts", "cleanup"] {
        insta::assert_snapshot!(format!("help-{command}"), told(&eggo(folder.path(), &[command, "--help"])));
    }
}

#[test]
fn template_then_validate() {
    let folder = tempfile::tempdir().unwrap();
    let write = ["template", "-f", "deploy.yaml", "-n", "prod", "--masters", "m1@192.168.7.1"];
    let more =
        ["--masters", "192.168.7.3:arm64", "--nodes", "192.168.7.2:aarch64", "--loadbalancer", "192.168.7.9"];
    let output = eggo(folder.path(), &[&write[..], &more[..]].concat());
    assert!(output.status.success(), "{}", told(&output));
    insta::assert_snapshot!("template", std::fs::read_to_string(folder.path().join("deploy.yaml")).unwrap());
    insta::assert_snapshot!(
        "template-validated",
        told(&eggo(folder.path(), &["validate", "-f", "deploy.yaml"]))
    );

    let again = eggo(folder.path(), &write);
    assert_eq!(again.status.code(), Some(1), "never overwritten silently");
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(folder.path().join("deploy.yaml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let secret = eggo(folder.path(), &["template", "-p", "s3cret"]);
    assert!(String::from_utf8_lossy(&secret.stderr).contains("plain text"), "{}", told(&secret));
}

#[test]
fn the_old_place_of_deploy_yaml_is_found() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(eggo(folder.path(), &["validate"]).status.code(), Some(2));
    std::fs::create_dir(folder.path().join(".eggo")).unwrap();
    assert!(eggo(folder.path(), &["template", "-f", ".eggo/deploy.yaml"]).status.success());
    assert!(eggo(folder.path(), &["validate"]).status.success());
}

#[test]
fn a_private_key_that_is_not_here_is_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let text = "private-key-path: ~/id\nmasters: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                workers: [{name: a, ip: 192.168.7.1, arch: amd64}]\ninstall: {package-source: {type: bundle}}\n";
    std::fs::write(folder.path().join("d.yaml"), text).unwrap();
    let validate = || eggo(folder.path(), &["validate", "-f", "d.yaml"]);
    insta::assert_snapshot!("no-private-key", told(&validate()));
    let key = folder.path().join("id");
    std::fs::create_dir(&key).unwrap();
    assert!(told(&validate()).contains("which cannot be read here: Is a directory"));
    std::fs::remove_dir(&key).unwrap();
    std::fs::write(&key, "a key").unwrap();
    assert!(validate().status.success() && validate().stderr.is_empty());
}

#[test]
fn nodes_of_an_arch_that_the_package_source_lacks_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let item = |name: &str| format!("[{{name: {name}, type: bin, dst: /usr/bin}}]");
    let text = format!(
        "password: x\nmasters: [{{name: a, ip: 192.168.7.1, arch: amd64}}]\n\
         workers: [{{name: b, ip: 192.168.7.2, arch: arm64}}]\n\
         install:\n  package-source: {{srcpath: {{amd64: /root/packages-amd64.tar.gz}}}}\n  \
         etcd: {}\n  kubernetes-master: {}\n  kubernetes-worker: {}\n",
        item("etcd"),
        item("kube-apiserver"),
        item("kubelet")
    );
    std::fs::write(folder.path().join("d.yaml"), &text).unwrap();
    let validated = eggo(folder.path(), &["validate", "-f", "d.yaml"]);
    let told = String::from_utf8(validated.stderr).unwrap();
    assert_eq!(validated.status.code(), Some(1));
    assert!(told.contains("d.yaml:5:"), "{told}");
    assert!(told.contains("the package source names no tarball for arm64: b is arm64"), "{told}");
    let both = text.replace("amd64.tar.gz", "amd64.tar.gz, arm64: /root/packages-arm64.tar.gz");
    std::fs::write(folder.path().join("d.yaml"), both).unwrap();
    assert!(eggo(folder.path(), &["validate", "-f", "d.yaml"]).status.success());
}

#[test]
fn a_closed_standard_error_keeps_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_eggo-install"));
    let ran =
        command.args(["validate", "-f", "none.yaml"]).current_dir(folder.path()).stderr(writer).status();
    assert_eq!(ran.unwrap().code(), Some(1));
}

#[test]
fn problems_are_reported_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("one.yaml"), "mastres: []\n").unwrap();
    insta::assert_snapshot!("problems", told(&eggo(folder.path(), &["validate", "-f", "one.yaml"])));
    insta::assert_snapshot!(
        "problems-json",
        told(&eggo(folder.path(), &["validate", "-f", "one.yaml", "--format", "json"]))
    );
    insta::assert_snapshot!("no-file", told(&eggo(folder.path(), &["validate", "-f", "none.yaml"])));
    insta::assert_snapshot!("not-a-command", told(&eggo(folder.path(), &["validat", "-f", "one.yaml"])));
    insta::assert_snapshot!(
        "not-a-command-with-bundle",
        told(&eggo(folder.path(), &["plna", "b.tar.gz", "-d"]))
    );
    insta::assert_snapshot!("options-first", told(&eggo(folder.path(), &["-f", "one.yaml", "validate"])));
    assert_eq!(eggo(folder.path(), &["validate", "--frobnicate"]).status.code(), Some(2));
    assert_eq!(eggo(folder.path(), &["-d", "validate", "-f", "one.yaml"]).status.code(), Some(1));
}

#[test]
fn files_that_cannot_be_read_are_reported_with_the_reason() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("site")).unwrap();
    insta::assert_snapshot!("a-folder", told(&eggo(folder.path(), &["validate", "-f", "site"])));
    std::fs::write(folder.path().join("site/deploy.yaml"), "").unwrap();
    insta::assert_snapshot!("the-folder-of-it", told(&eggo(folder.path(), &["validate", "-f", "site"])));
    let closed = folder.path().join("closed.yaml");
    std::fs::write(&closed, "").unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read everything.
    if std::fs::read(&closed).is_err() {
        let closed = told(&eggo(folder.path(), &["validate", "-f", "closed.yaml"]));
        assert!(closed.contains("hint: run this as a user who may read it"), "{closed}");
    }
    assert!(eggo(folder.path(), &["template", "-f", "d.yaml"]).status.success());
    for words in [&["verify", "b.tar.gz"][..], &["plan", "b.tar.gz", "-f", "d.yaml"]] {
        let told = told(&eggo(folder.path(), &[words, &["--pubkey", "nope.pub"]].concat()));
        let reason = "error: cannot read key `nope.pub`: No such file or directory (os error 2)";
        assert!(told.starts_with("exit 1") && told.contains(reason), "{told}");
    }
}

#[test]
fn what_is_not_there_is_reported_before_anybody_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let template = ["template", "-f", "d.yaml", "--masters", "m1@192.168.7.1", "--workers", "w1@192.168.7.2"];
    assert!(eggo(folder.path(), &template).status.success());
    let run = |words: &[&str]| {
        told(&eggo(folder.path(), &[words, &["-f", "d.yaml", "--state-dir", "state"]].concat()))
    };
    let none =
        "error: no cluster `k8s-cluster` was installed from this machine\n  looked in `state/k8s-cluster`";
    for words in
        [&["delete", "w1"][..], &["delete", "nobody"], &["etcd", "restore", "snapshot"], &["certs", "renew"]]
    {
        let told = run(words);
        assert!(told.starts_with("exit 1") && told.contains(none), "{words:?}: {told}");
        assert!(told.contains("--state-dir"), "{told}");
    }
    let nothing = "nothing to clean up: no cluster `k8s-cluster` in `state/k8s-cluster`";
    let told = run(&["cleanup"]);
    assert!(told.starts_with("exit 0") && told.contains(nothing), "{told}");
    assert!(!folder.path().join("state").exists(), "looking makes no state");
    let told = self::told(&eggo(folder.path(), &["facts", "m2", "-f", "d.yaml"]));
    let unknown = "error: `m2` is no node of the cluster `k8s-cluster`\n\nhint: did you mean `m1`?";
    assert!(told.contains(unknown), "{told}");

    // There is one now, as far as this machine knows.
    let text = std::fs::read(folder.path().join("d.yaml")).unwrap();
    let config = eggo_deploy::config::parse("d.yaml", &text).unwrap().config;
    std::fs::create_dir_all(folder.path().join("state/k8s-cluster")).unwrap();
    let known = serde_json::to_vec(&config).unwrap();
    std::fs::write(folder.path().join("state/k8s-cluster/config.json"), known).unwrap();
    for (words, expected) in [
        (
            &["delete", "w2"][..],
            "error: `w2` is no node of the cluster `k8s-cluster`\n\nhint: did you mean `w1`?",
        ),
        (
            &["delete", "192.168.7.2"],
            "error: this takes nodes out, and nobody can be asked\n\nhint: say `--yes`",
        ),
        (&["cleanup"], "error: cleanup destroys a cluster, and nobody can be asked\n\nhint: say `--yes`"),
    ] {
        let told = run(words);
        assert!(told.contains(expected), "{words:?}: {told}");
    }
}

/// Every command that changes something, where nobody can be asked and `--yes` is not given.
#[test]
fn without_yes_and_without_a_terminal_nothing_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let hosts = "[{name: a, ip: 127.0.0.1, port: 1, arch: amd64}]";
    let text = format!(
        "masters: {hosts}\nworkers: {hosts}\ninstall:\n  package-source: {{srcpath: {{amd64: {}}}}}\n  \
         etcd: [{{name: etcd, type: bin}}]\n  kubernetes-master: [{{name: kubectl, type: bin}}]\n  \
         kubernetes-worker: [{{name: kubelet, type: bin}}]\n",
        at("content.tar.gz").display()
    );
    std::fs::write(at("d.yaml"), &text).unwrap();
    std::fs::create_dir_all(at("content/bin")).unwrap();
    for name in ["etcd", "kubectl", "kubelet"] {
        std::fs::write(at("content/bin").join(name), "a program").unwrap();
    }
    let mut pack = Command::new("tar");
    pack.arg("-czf").arg(at("content.tar.gz")).arg("-C").arg(at("content")).arg("bin");
    assert!(pack.status().unwrap().success());
    let state = at("state/k8s-cluster");
    std::fs::create_dir_all(&state).unwrap();
    let config = eggo_deploy::config::parse("d.yaml", text.as_bytes()).unwrap().config;
    std::fs::write(state.join("config.json"), serde_json::to_vec(&config).unwrap()).unwrap();
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(&state).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let kept = || (names(), std::fs::read(state.join("config.json")).unwrap());
    let before = kept();
    for words in [
        &["--allow-unsigned"][..],
        &["join", "--allow-unsigned"],
        &["upgrade", "--allow-unsigned"],
        &["delete", "a"],
        &["certs", "renew"],
        &["etcd", "restore", "snapshot.db"],
        &["cleanup"],
    ] {
        let told = told(&eggo(folder.path(), &[words, &["-f", "d.yaml", "--state-dir", "state"]].concat()));
        assert!(told.starts_with("exit 1") && told.contains("--yes"), "{words:?}: {told}");
        assert_eq!(kept(), before, "{words:?}");
    }
}

#[test]
fn cleanup_leaves_a_folder_that_it_knows_nothing_of() {
    let folder = tempfile::tempdir().unwrap();
    let template = ["template", "-f", "d.yaml", "--masters", "m1@127.0.0.1", "--workers", "w1@127.0.0.2"];
    assert!(eggo(folder.path(), &template).status.success());
    let state = folder.path().join("state/k8s-cluster");
    std::fs::create_dir_all(state.join("letters")).unwrap();
    std::fs::write(state.join("letters/one"), "of somebody").unwrap();
    let cleanup =
        || told(&eggo(folder.path(), &["cleanup", "--yes", "-f", "d.yaml", "--state-dir", "state"]));
    let told = cleanup();
    let expected = "nothing to clean up: nothing was recorded in `state/k8s-cluster`, which stays as it is";
    assert!(told.starts_with("exit 0") && told.contains(expected), "{told}");
    assert_eq!(std::fs::read_to_string(state.join("letters/one")).unwrap(), "of somebody");
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1, "and nothing is added");
    // Keys without a journal are those of a cluster that may run, or of another tool.
    std::fs::create_dir_all(state.join("pki")).unwrap();
    std::fs::write(state.join("pki/ca.key"), "key").unwrap();
    let told = cleanup();
    let expected =
        "error: the journal of the cluster `k8s-cluster` is incomplete: it has no change to any node";
    assert!(told.starts_with("exit 1") && told.contains(expected), "{told}");
    assert_eq!(std::fs::read_to_string(state.join("pki/ca.key")).unwrap(), "key");
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 2, "and nothing is added");
}

#[test]
fn flags_that_would_do_nothing_are_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let told = |words: &[&str]| told(&eggo(folder.path(), words));
    let check = told(&["facts", "--only", "etcd"]);
    assert!(check.starts_with("exit 2") && check.contains("unexpected argument '--only'"), "{check}");
    // Every operation has phases of its own.
    let other = told(&["upgrade", "b.tar.gz", "--skip", "etcd"]);
    assert!(other.starts_with("exit 2") && other.contains("error: there is no phase `etcd`"), "{other}");
    assert!(other.contains("upgrade-workers, upgrade-load-balancer, dns, addons, prune"), "{other}");
    let needed = told(&["upgrade", "b.tar.gz", "--skip", "backup"]);
    let expected = "error: the phase `upgrade-control-plane` needs `backup`, which would be left out";
    assert!(needed.starts_with("exit 2") && needed.contains(expected), "{needed}");
    let help = told(&["upgrade", "--help"]);
    // It is wrapped.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for phase in eggo_deploy::operation::upgrade_phases() {
        let line = format!("{} {}", phase.name, phase.help);
        assert!(help.contains(&format!("\n  {} ", phase.name)) && words(&help).contains(&line), "{help}");
    }
    assert!(!help.contains("control-plane  apiserver"), "{help}");
    let help = told(&["--help"]);
    assert!(eggo_deploy::operation::phases().iter().all(|phase| words(&help).contains(phase.help)), "{help}");
}

#[test]
fn a_node_that_does_not_answer_is_not_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let template = ["template", "-f", "d.yaml", "--masters", "m1@127.0.0.1", "--workers", "w1@127.0.0.2"];
    assert!(eggo(folder.path(), &template).status.success());
    let closed = std::net::TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port();
    let path = folder.path().join("d.yaml");
    let text = std::fs::read_to_string(&path).unwrap().replace("port: 22,", &format!("port: {closed},"));
    assert!(text.contains(&closed.to_string()), "{text}");
    std::fs::write(&path, &text).unwrap();
    let config = eggo_deploy::config::parse("d.yaml", text.as_bytes()).unwrap().config;
    let state = folder.path().join("state/k8s-cluster");
    std::fs::create_dir_all(&state).unwrap();
    let known = serde_json::to_vec(&config).unwrap();
    std::fs::write(state.join("config.json"), &known).unwrap();
    let words = ["delete", "w1", "--yes", "-f", "d.yaml", "--state-dir", "state"];
    let told = told(&eggo(folder.path(), &words));
    assert!(told.starts_with("exit 4"), "{told}");
    assert!(told.contains("error: 1 node cannot be reached: nothing was changed\n  w1: "), "{told}");
    assert!(told.contains("or with `--forget-gone` if they will not come back"), "{told}");
    assert_eq!(std::fs::read(state.join("config.json")).unwrap(), known);
}

#[test]
fn the_schema_is_json_and_completions_and_manual_pages_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let schema = eggo(folder.path(), &["schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).unwrap();
    assert_eq!(schema["properties"]["masters"]["type"], "array");
    for shell in ["bash", "zsh", "fish"] {
        assert!(eggo(folder.path(), &["completions", shell]).stdout.len() > 1000, "{shell}");
    }
    assert!(eggo(folder.path(), &["man", "--output", "pages"]).status.success());
    assert!(folder.path().join("pages/eggo-install-validate.1").is_file());
}
