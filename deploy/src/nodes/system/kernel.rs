//! Kernel modules and settings, now and after a reboot.

use crate::facts::Module;
use crate::journal::Undo;
use crate::nodes::{Node, Nodes};
use crate::remote::{Command, KEPT, RemoteFile, Written, words};
use crate::run::{Outcome, Step};
use eggo_bundles::Role;
use eggo_errors::Report;

const MODULES_FILE: &str = "/etc/modules-load.d/eggo.conf";
const SYSCTL_FILE: &str = "/etc/sysctl.d/90-eggo.conf";
const SAVED: &str = "/var/lib/eggo/kept/sysctl";

/// Loaded where the kernel has them.
const MODULES: [&str; 2] = ["br_netfilter", "overlay"];
const SETTINGS: [(&str, &str); 5] = [
    ("net.bridge.bridge-nf-call-iptables", "1"),
    ("net.bridge.bridge-nf-call-ip6tables", "1"),
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
    ("vm.swappiness", "0"),
];

pub(super) async fn set(all: &Nodes, node: &Node) -> Result<(), Report> {
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
            Undo::script(
                "restore kernel settings",
                format!("[ ! -e {SAVED} ] || sysctl -q -e -p {SAVED} >/dev/null 2>&1 || :"),
            ),
            Undo::file(SYSCTL_FILE),
            Undo::file(MODULES_FILE),
        ]);
    let work = || async {
        let written = node.remote.write_files(files).await?;
        let script = format!(
            "for module in {}; do modprobe -q \"$module\" || [ -d \"/sys/module/$module\" ] || echo \"no module $module\" >&2; done\n\
             mkdir -p {KEPT}; [ -e {SAVED} ] || {{ sysctl -e {} 2>/dev/null || :; }} > {SAVED}\n\
             sysctl -q -e -p {SYSCTL_FILE}",
            words(&modules),
            words(SETTINGS.map(|(key, _)| key))
        );
        node.remote.run(Command::sh("load kernel modules and settings", script)).await?;
        Ok(Outcome::changed_if(written.contains(&Written::Changed)))
    };
    all.run.step(&node.host.name, step, work).await.map(|_| ())
}
