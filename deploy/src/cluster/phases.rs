//! The cluster's phases. They slot into the list of any operation whose context has a
//! [`Cluster`].

use super::context::Cluster;
use super::deploy;
use crate::config::{Config, DnsKind, Host, Schedule};
use crate::phases::{Applies, OnFailure, Phase};
use crate::plan::NodePlan;
use eggo_bundles::{Kind, Role};

/// A context with a cluster in it.
pub trait HasCluster: Send + Sync + 'static {
    fn cluster(&self) -> &Cluster;
}

impl HasCluster for Cluster {
    fn cluster(&self) -> &Cluster {
        self
    }
}

/// Before images are loaded: the container runtimes, as the cluster wants them.
pub fn runtime<C: HasCluster>() -> Phase<C> {
    Phase {
        name: "runtime",
        title: "Start container runtimes",
        help: "configure and start containerd, docker or iSulad on every worker",
        applies: Applies::Hosts(|_, host| host.has(Role::Worker)),
        needs: &[],
        run: |context| Box::pin(deploy::runtime::run(context.cluster())),
        on_failure: OnFailure::GoOn,
    }
}

pub fn certificates<C: HasCluster>() -> Phase<C> {
    Phase {
        name: "certificates",
        title: "Make certificates",
        help: "make or reuse the authorities, certificates and kubeconfigs on this machine",
        applies: Applies::ALWAYS,
        needs: &[],
        run: |context| Box::pin(deploy::certificates::run(context.cluster())),
        on_failure: OnFailure::Stop,
    }
}

pub fn prejoin<C: HasCluster>() -> Phase<C> {
    Phase {
        name: "prejoin",
        title: "Run prejoin hooks",
        help: "run the scripts with the schedule prejoin",
        applies: Applies::Content(|_, plan| plan.has_hook(Schedule::Prejoin)),
        needs: &[],
        run: |context| Box::pin(deploy::hooks::run(context.cluster(), Schedule::Prejoin)),
        on_failure: OnFailure::Stop,
    }
}

pub fn etcd<C: HasCluster>() -> Phase<C> {
    Phase {
        name: "etcd",
        title: "Start etcd",
        help: "start the members one by one, each healthy before the next",
        applies: Applies::Together(|config, host| config.etcd.external.is_none() && host.has(Role::Etcd)),
        needs: &[],
        run: |context| Box::pin(deploy::etcd::run(context.cluster())),
        on_failure: OnFailure::Stop,
    }
}

pub fn load_balancer<C: HasCluster>() -> Phase<C> {
    Phase {
        name: "load-balancer",
        title: "Start the load balancer",
        help: "nginx before the apiservers",
        applies: Applies::Together(|config, host| {
            config.load_balancer_port.is_some() && host.has(Role::Loadbalance)
        }),
        needs: &[],
        run: |context| Box::pin(deploy::load_balancer::run(context.cluster())),
        on_failure: OnFailure::Stop,
    }
}

pub fn control_plane<C: HasCluster>() -> Phase<C> {
    Phase {
        name: "control-plane",
        title: "Start the control plane",
        help: "apiserver, controller-manager, scheduler: the first master, then the others",
        applies: Applies::Together(|_, host| host.has(Role::Master)),
        needs: &[],
        run: |context| Box::pin(deploy::control_plane::run(context.cluster())),
        on_failure: OnFailure::Stop,
    }
}

pub fn workers<C: HasCluster>() -> Phase<C> {
    Phase {
        name: "workers",
        title: "Join workers",
        help: "kubelet and kube-proxy, all workers at once",
        applies: Applies::Hosts(|_, host| host.has(Role::Worker)),
        needs: &[],
        run: |context| Box::pin(deploy::workers::run(context.cluster())),
        on_failure: OnFailure::GoOn,
    }
}

pub fn labels<C: HasCluster>() -> Phase<C> {
    Phase {
        name: "labels",
        title: "Label and taint masters",
        help: "label and taint the masters that are workers too",
        applies: Applies::Hosts(|_, host| host.has(Role::Master) && host.has(Role::Worker)),
        needs: &[],
        run: |context| Box::pin(deploy::labels::run(context.cluster())),
        on_failure: OnFailure::Stop,
    }
}

pub fn dns<C: HasCluster>() -> Phase<C> {
    Phase {
        name: "dns",
        title: "Start DNS",
        help: "coredns as a service on the masters, or as pods",
        applies: Applies::Hosts(has_dns),
        needs: &[],
        run: |context| Box::pin(deploy::dns::run(context.cluster())),
        on_failure: OnFailure::Stop,
    }
}

pub fn addons<C: HasCluster>() -> Phase<C> {
    Phase {
        name: "addons",
        title: "Apply addons",
        help: "apply the manifests of the bundle in order, and wait until they work",
        applies: Applies::Content(applies_addons),
        needs: &[],
        run: |context| Box::pin(deploy::addons::run(context.cluster())),
        on_failure: OnFailure::Stop,
    }
}

pub fn kubelet_serving<C: HasCluster>() -> Phase<C> {
    Phase {
        name: "kubelet-serving",
        title: "Approve kubelet-serving certificates",
        help: "approve what the kubelets of this cluster ask for",
        applies: Applies::Hosts(|config, host| config.kubelet_serving && host.has(Role::Worker)),
        needs: &[],
        run: |context| Box::pin(deploy::serving::run(context.cluster())),
        on_failure: OnFailure::GoOn,
    }
}

pub fn postjoin<C: HasCluster>() -> Phase<C> {
    Phase {
        name: "postjoin",
        title: "Run postjoin hooks",
        help: "run the scripts with the schedule postjoin",
        applies: Applies::Content(|_, plan| plan.has_hook(Schedule::Postjoin)),
        needs: &[],
        run: |context| Box::pin(deploy::hooks::run(context.cluster(), Schedule::Postjoin)),
        on_failure: OnFailure::GoOn,
    }
}

pub fn ready<C: HasCluster>() -> Phase<C> {
    Phase {
        name: "ready",
        title: "Wait until all nodes are ready",
        help: "every node Ready, DNS rolled out",
        applies: Applies::ALWAYS,
        needs: &[],
        run: |context| Box::pin(deploy::ready::run(context.cluster())),
        on_failure: OnFailure::GoOn,
    }
}

fn has_dns(config: &Config, host: &Host) -> bool {
    match config.dns.kind {
        DnsKind::Binary => host.has(Role::Master),
        DnsKind::Pod { .. } => config.first_master() == Some(host),
    }
}

/// A manifest that is already on the first master may be named by the network's arguments.
fn applies_addons(config: &Config, plan: &NodePlan) -> bool {
    let first = config.first_master().is_some_and(|host| host.name == plan.name);
    let brought = plan.of_kind(Kind::Addon).next().is_some() || !config.addons.is_empty();
    first && (brought || config.network.plugin_args.contains_key("NetworkYamlPath"))
}
