//! Kernel modules and settings, now and after a reboot.

use crate::facts::Module;
use crate::node::Planned;
use crate::nodes::Nodes;
use crate::remote::{Command, RemoteFile, Written};
use crate::run::{Outcome, Step};
use crate::undo::{self, KernelNote, MODULES_FILE, SYSCTL_FILE, Undo};
use eggo_bundles::Role;
use eggo_errors::Report;

/// Loaded where the kernel has them.
const MODULES: [&str; 2] = ["br_netfilter", "overlay"];
const SETTINGS: [(&str, &str); 5] = [
    ("net.bridge.bridge-nf-call-iptables", "1"),
    ("net.bridge.bridge-nf-call-ip6tables", "1"),
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
    ("vm.swappiness", "0"),
];

pub(super) async fn set(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    if !node.host.has(Role::Worker) && !node.host.has(Role::Master) {
        return Ok(());
    }
    let has = |module: &&str| node.facts.modules.get(*module).is_some_and(|state| *state != Module::Missing);
    let modules: Vec<&str> = MODULES.into_iter().filter(has).collect();
    let files = vec![
        RemoteFile::new(MODULES_FILE, modules.join("\n") + "\n"),
        RemoteFile::new(SYSCTL_FILE, SETTINGS.map(|(key, value)| format!("-{key} = {value}\n")).concat()),
    ];
    let step = Step::new("system/kernel", "set kernel modules and settings")
        .fingerprint_of(files.iter().map(|file| file.content.clone()))
        .undo_all([
            Undo::KernelSettings { noted: KernelNote::System },
            Undo::file(SYSCTL_FILE),
            Undo::file(MODULES_FILE),
        ]);
    let work = async |permit| {
        let written = node.remote.write_files(permit, files).await?;
        let script = undo::library()
            .and(include_str!("kernel.sh"))
            .set("NOTE", KernelNote::System.file())
            .set("SETTINGS", SYSCTL_FILE)
            .set("KEYS", SETTINGS.map(|(key, _)| key).join(" "))
            .args(modules);
        let title = "load kernel modules and settings";
        node.remote.run(Command::change(permit, title, script)).await?;
        Ok(Outcome::changed_if(written.contains(&Written::Changed)))
    };
    all.run.step(&node.host.name, step, work).await.map(|_| ())
}
