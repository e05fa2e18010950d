//! The checks, in the order in which their findings are shown. A new one is one item of [`TABLE`] and its function.

use super::checks::{self, Found};
use super::{Circumstances, reach, rehearsal, this_machine};
use crate::node::Planned;
use futures::future::BoxFuture;

pub(super) struct Row {
    /// For `--ignore-preflight`.
    pub(super) name: &'static str,
    /// What must be so, for the help.
    pub(super) help: &'static str,
    pub(super) judge: Judge,
}

/// How a check comes to its findings.
pub(super) enum Judge {
    /// From the facts and the plan of one node, without I/O.
    Node(fn(&Circumstances<'_>, &Planned<'_>) -> Vec<Found>),
    /// From all nodes side by side.
    Together(fn(&Circumstances<'_>, &[Planned<'_>]) -> Named),
    /// By asking the nodes something that only this plan makes necessary.
    Ask(for<'a> fn(&'a Circumstances<'a>, &'a [Planned<'a>]) -> BoxFuture<'a, Named>),
}

/// Findings with the names of their nodes.
type Named = Vec<(String, Found)>;

/// What a claim decides itself, once more, when a node is changed: ignoring it would not help.
pub(super) const CLAIM: &str = "claim";

pub(super) static TABLE: &[Row] = &[
    Row {
        name: "arch",
        help: "the node's architecture is the one in deploy.yaml",
        judge: Judge::Node(checks::arch),
    },
    Row { name: "systemd", help: "systemd is the init", judge: Judge::Node(checks::systemd) },
    Row {
        name: "tools",
        help: "tar, sha256sum and the other programs that the installer runs are installed",
        judge: Judge::Node(checks::tools),
    },
    Row {
        name: "programs",
        help: "what the node's roles run comes with the bundle or is already installed",
        judge: Judge::Node(checks::programs),
    },
    Row {
        name: "package-manager",
        help: "dpkg with apt-get, or rpm, is installed if packages are to be installed",
        judge: Judge::Node(checks::package_manager),
    },
    Row {
        name: "packages",
        help: "every package that a bundled package needs is bundled or installed",
        judge: Judge::Node(checks::packages),
    },
    Row {
        name: "transaction",
        help: "the node's package manager would install the packages",
        judge: Judge::Ask(|circumstances, nodes| Box::pin(rehearsal::check(circumstances, nodes))),
    },
    Row {
        name: "clock",
        help: "the node's clock agrees with this machine's",
        judge: Judge::Node(checks::clock),
    },
    Row {
        name: "disk",
        help: "every file system has room for what the plan brings",
        judge: Judge::Node(checks::disk),
    },
    Row {
        name: "read-only",
        help: "no file system that is written to is read-only",
        judge: Judge::Node(checks::read_only),
    },
    Row {
        name: "memory",
        help: "there is enough memory for the node's roles",
        judge: Judge::Node(checks::memory),
    },
    Row { name: "swap", help: "swap is off, as the kubelet wants it", judge: Judge::Node(checks::swap) },
    Row {
        name: "modules",
        help: "the kernel modules that Kubernetes uses are available",
        judge: Judge::Node(checks::modules),
    },
    Row { name: "cgroups", help: "control groups are mounted", judge: Judge::Node(checks::cgroups) },
    Row {
        name: "ports",
        help: "the ports of the node's components are free",
        judge: Judge::Node(checks::ports),
    },
    Row {
        name: CLAIM,
        help: "no other control machine or state folder holds the node",
        judge: Judge::Node(checks::claim),
    },
    Row {
        name: "leftovers",
        help: "no other cluster's files or services are present",
        judge: Judge::Node(checks::leftovers),
    },
    Row {
        name: "load-balancer",
        help: "no other nginx serves on the load balancer",
        judge: Judge::Node(checks::load_balancer),
    },
    Row {
        name: "hostname",
        help: "no two names of deploy.yaml are the same machine",
        judge: Judge::Together(checks::hostname),
    },
    Row {
        name: "this-machine",
        help: "a node that is this machine itself is safe from its own cleanup",
        judge: Judge::Node(this_machine::check),
    },
    Row {
        name: "reach",
        help: "the nodes reach the masters, etcd members and load balancer",
        judge: Judge::Ask(|circumstances, nodes| Box::pin(reach::check(circumstances, nodes))),
    },
    Row {
        name: "version",
        help: "install and join: a cluster that runs has the bundle's version of Kubernetes",
        judge: Judge::Node(checks::version),
    },
];
