//! The journal that 0.1.0 (2a30c53) wrote of an install on two hosts of the lab: a master with nftables, and a worker with
//! another name than its host had, with containerd and links to CNI programs in a folder with a slash at its end.
//! The cleanup of today left nothing of that install.

use super::*;
use crate::undo::{Firewall, KernelNote};
use eggo_errors::Explain;
use serde_json::Value;

const WRITTEN: &str = include_str!("0.1.0.jsonl");

fn raw() -> impl Iterator<Item = Value> {
    WRITTEN.lines().map(|line| serde_json::from_str(line).unwrap())
}

#[test]
fn everything_in_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let entries = read(folder.path(), WRITTEN.as_bytes()).unwrap();
    let intents: Vec<Value> = raw().filter(|record| record["record"] == "intent").collect();
    assert_eq!((entries.len(), intents.len()), (29, 29));
    for (entry, intent) in entries.iter().zip(&intents) {
        assert!(entry.done, "{entry:?}");
        assert_eq!(
            (entry.node.as_str(), entry.step.as_str()),
            (text(&intent["node"]), text(&intent["step"]))
        );
        let written = intent["undo"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(entry.undo.len(), written.len(), "{}", entry.step);
        for (undo, written) in
            entry.undo.iter().zip(written).filter(|(_, written)| written["undo"] != "script")
        {
            assert_eq!(serde_json::to_value(undo).unwrap(), *written);
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn its_scripts_are_actions() {
    let folder = tempfile::tempdir().unwrap();
    let entries = read(folder.path(), WRITTEN.as_bytes()).unwrap();
    let intents = raw().filter(|record| record["record"] == "intent");
    let mut found = Vec::new();
    for (entry, intent) in entries.iter().zip(intents) {
        let written = intent["undo"].as_array().cloned().unwrap_or_default();
        let scripts = entry.undo.iter().zip(written).filter(|(_, written)| written["undo"] == "script");
        found.extend(scripts.map(|(undo, _)| (format!("{} {}", entry.node, entry.step), undo.clone())));
    }
    let runtime = "containerd".parse().unwrap();
    let hosts = || Undo::HostsEntry { cluster: "golden".into() };
    let settings = |noted| Undo::KernelSettings { noted };
    let links = Undo::CniLinks { into: "/opt/cni/bin".into(), from: vec!["/usr/lib/cni".into()] };
    let expected = [
        ("m system/hosts", hosts()),
        ("w system/hostname", Undo::Hostname { was: "old-name".into() }),
        ("w system/hosts", hosts()),
        ("m system/kernel", settings(KernelNote::System)),
        ("w system/kernel", settings(KernelNote::System)),
        ("m system/ports", Undo::FirewallPorts { firewall: Firewall::Nftables }),
        ("m packages/install", Undo::ReleaseServices),
        ("w packages/install", Undo::ReleaseServices),
        ("w service/containerd", links),
        ("w service/containerd", Undo::RuntimeAsBefore { runtime }),
        ("w service/containerd", Undo::ContainersOf { runtime }),
        ("w service/kubelet", Undo::Pods),
        ("w service/kubelet", settings(KernelNote::Kubelet)),
        ("w service/kube-proxy", Undo::KubeProxyRules { program: "/usr/bin/kube-proxy".into() }),
    ];
    assert_eq!(found, expected.map(|(place, undo)| (place.to_string(), undo)));
}

/// Before anything of it is undone: the journal is read as a whole.
#[test]
fn an_unknown_script_in_it_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    for (known, unknown, why) in [
        (
            "close ports in nftables",
            "close ports in shorewall",
            "wrote the script `close ports in shorewall`",
        ),
        (
            "awk -v begin='# begin eggo golden'",
            "rm -f /etc/hosts",
            "wrote the script `remove our names from /etc/hosts`",
        ),
        ("/usr/bin/kube-proxy --cleanup", "/bin/sh --cleanup", "`/bin/sh` is not a path of kube-proxy"),
        ("/var/lib/etcd/default.etcd.new", "/var/lib", "`remove /var/lib` is refused"),
    ] {
        let line = WRITTEN.lines().position(|line| line.contains(known)).unwrap() + 1;
        let changed = WRITTEN.replacen(known, unknown, 1);
        assert_ne!(changed, WRITTEN);
        let error = read(folder.path(), changed.as_bytes()).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(&format!("journal.jsonl` line {line}: ")) && said.contains(why), "{said}");
        assert_eq!(
            error.hint().unwrap(),
            "nothing was done; put journal.jsonl back from a backup of this machine"
        );
        assert!(Journal::open(folder.path()).is_err());
    }
}

#[tokio::test]
async fn it_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("journal.jsonl"), WRITTEN).unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    for entry in journal.entries() {
        journal.append(Record::Undone { node: entry.node, step: entry.step, at: now() }).await.unwrap();
    }
    drop(journal);
    let text = fs::read_to_string(folder.path().join("journal.jsonl")).unwrap();
    assert!(text.starts_with(WRITTEN) && Journal::read(folder.path()).unwrap().entries().is_empty());
}
