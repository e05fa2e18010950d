//! The functions, on real trees and with programs of our own.

mod accounts;
mod containers;
mod files;
mod mounts;
mod networks;
mod packages;
mod system;

use super::*;
use crate::remote::Script;
use crate::remote::sandbox::Sandbox;

/// One of the functions, on a node in a folder.
fn call(sandbox: &Sandbox, words: &[&str]) -> Script {
    let at = |name: &str| sandbox.at(name);
    library()
        .set("KEPT", at("kept"))
        .set("NOTED", at("kept/users-runtimes"))
        .set("NODE", at("node"))
        .set("WHITELIST", at("allowed"))
        .set("HOSTS", at("hosts"))
        .set("NFT_FILE", at("rules.nft"))
        .set("NFT_DROP_IN", at("nftables.service.d/eggo.conf"))
        .set("POLICY", at("policy-rc.d"))
        .then(words.iter().copied())
}

/// Every action, for tests that go through all of them.
fn all() -> Vec<Undo> {
    let (manager, runtime) = (Manager::Dpkg, RuntimeKind::default());
    let names = vec!["a".to_string()];
    vec![
        Undo::file("/etc/kubernetes/x"),
        Undo::Item { path: "/usr/bin/kubelet".into() },
        Undo::tree("/var/lib/eggo"),
        Undo::folder("/opt/cni"),
        Undo::unit("kubelet"),
        Undo::Packages { manager, names: names.clone() },
        Undo::BroughtAlong { manager },
        Undo::ReleaseServices,
        Undo::Images { runtime, names: names.clone() },
        Undo::Hostname { was: "old".into() },
        Undo::HostsEntry { cluster: "k".into() },
        Undo::FirewallPorts { firewall: Firewall::Ufw },
        Undo::KernelSettings { noted: KernelNote::System },
        Undo::CniLinks { into: "/opt/cni/bin".into(), from: vec!["/usr/libexec/cni".into()] },
        Undo::RuntimeLink { runtime },
        Undo::ContainersOf { runtime },
        Undo::RuntimeAsBefore { runtime },
        Undo::Pods,
        Undo::KubeProxyRules { program: "/usr/bin/kube-proxy".into() },
        Undo::ReleaseImages { runtime },
        Undo::Accounts,
        Undo::ServiceRoute { network: "10.32.0.0/16".into() },
    ]
}

/// A name that was written once is read for ever.
#[test]
fn actions_are_written_under_these_names() {
    let name = |undo: &Undo| serde_json::to_value(undo).unwrap()["undo"].as_str().unwrap().to_string();
    let names: Vec<String> = all().iter().map(name).collect();
    let expected = [
        "file",
        "item",
        "tree",
        "folder",
        "unit",
        "packages",
        "brought-along",
        "release-services",
        "images",
        "hostname",
        "hosts-entry",
        "firewall-ports",
        "kernel-settings",
        "cni-links",
        "runtime-link",
        "containers-of",
        "runtime-as-before",
        "pods",
        "kube-proxy-rules",
        "release-images",
        "accounts",
        "service-route",
    ];
    assert_eq!(names, expected);
    for undo in all() {
        assert_eq!(undo.check(), Ok(()));
        let text = serde_json::to_string(&undo).unwrap();
        assert_eq!(serde_json::from_str::<Undo>(&text).unwrap(), undo);
    }
}

/// What an action calls is there.
#[test]
fn every_action_has_its_function() {
    let library = library().to_string();
    for undo in all() {
        let function = &undo.words()[0];
        assert!(library.contains(&format!("\n{function}() ")), "{function}");
    }
    for firewall in Firewall::ALL {
        for function in ["open", "close"] {
            assert!(library.contains(&format!("\n{function}_{}() {{", firewall.as_str())), "{firewall:?}");
        }
    }
}

#[test]
fn an_undo_ends_where_it_fails_and_the_others_go_on() {
    let sandbox = Sandbox::new();
    sandbox.program("systemctl", "[ \"$2\" = good ] || [ \"$1\" = reset-failed ] || [ \"$1\" = start ]");
    sandbox.write("kept/users-runtimes", "x\nenabled x.service\nactive x.service\n");
    sandbox.program("ip", "echo \"$@\" >&2");
    let script = call(&sandbox, &[":"]).and(include_str!("../undo.sh"));
    let script = script.then(["undo", "false"]).then(["undo", "echo", "goes on"]).then(["entry", "0"]);
    let script = script.then(["undo", "as_before", "x"]).then(["entry", "1"]);
    let script = script
        .then(["undo", "remove_tree", "/"])
        .then(["entry", "2"])
        .then(["undo", ":"])
        .then(["entry", "3"]);
    let said = sandbox.run(script);
    assert_eq!((said.done, said.out.as_str()), (true, "@failed 0\n@failed 1\n@failed 2\n"));
    assert!(said.err.contains("goes on\n") && said.err.contains("refused: "), "{}", said.err);
}
