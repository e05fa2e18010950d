//! The cluster's phases, in order. They slot into the list of any operation whose context has a
//! [`Cluster`].

use super::context::Cluster;
use super::deploy;
use crate::config::Schedule;
use crate::phases::{OnFailure, Phase};
use eggo_bundles::Role;

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
        run_if: |_| true,
        run: |context| Box::pin(deploy::runtime::run(context.cluster())),
        on_failure: OnFailure::GoOn,
    }
}

/// From installed content to a running cluster.
pub fn deploy<C: HasCluster>() -> Vec<Phase<C>> {
    vec![
        Phase {
            name: "certificates",
            title: "Make certificates",
            help: "make or reuse the authorities, certificates and kubeconfigs on this machine",
            run_if: |_| true,
            run: |context| Box::pin(deploy::certificates::run(context.cluster())),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "prejoin",
            title: "Run prejoin hooks",
            help: "run the scripts with the schedule prejoin",
            run_if: |context| deploy::hooks::any(context.cluster(), Schedule::Prejoin),
            run: |context| Box::pin(deploy::hooks::run(context.cluster(), Schedule::Prejoin)),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "etcd",
            title: "Start etcd",
            help: "start the members one by one, each healthy before the next",
            run_if: |context| context.cluster().config.etcd.external.is_none(),
            run: |context| Box::pin(deploy::etcd::run(context.cluster())),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "load-balancer",
            title: "Start the load balancer",
            help: "nginx before the apiservers",
            run_if: |context| context.cluster().config.load_balancer_port.is_some(),
            run: |context| Box::pin(deploy::load_balancer::run(context.cluster())),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "control-plane",
            title: "Start the control plane",
            help: "apiserver, controller-manager and scheduler: the first master, then the others one by one",
            run_if: |_| true,
            run: |context| Box::pin(deploy::control_plane::run(context.cluster())),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "workers",
            title: "Join workers",
            help: "kubelet and kube-proxy, all workers at once",
            run_if: |_| true,
            run: |context| Box::pin(deploy::workers::run(context.cluster())),
            on_failure: OnFailure::GoOn,
        },
        Phase {
            name: "labels",
            title: "Label and taint masters",
            help: "label and taint the masters that are workers too",
            run_if: |context| {
                let cluster = context.cluster();
                cluster.config.with_role(Role::Master).any(|host| host.has(Role::Worker))
            },
            run: |context| Box::pin(deploy::labels::run(context.cluster())),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "dns",
            title: "Start DNS",
            help: "coredns as a service on the masters, or as pods",
            run_if: |_| true,
            run: |context| Box::pin(deploy::dns::run(context.cluster())),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "addons",
            title: "Apply addons",
            help: "apply the manifests of the bundle in order, and wait until they work",
            run_if: |_| true,
            run: |context| Box::pin(deploy::addons::run(context.cluster())),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "kubelet-serving",
            title: "Approve kubelet-serving certificates",
            help: "approve what the kubelets of this cluster ask for",
            run_if: |context| context.cluster().config.kubelet_serving,
            run: |context| Box::pin(deploy::serving::run(context.cluster())),
            on_failure: OnFailure::GoOn,
        },
        Phase {
            name: "postjoin",
            title: "Run postjoin hooks",
            help: "run the scripts with the schedule postjoin",
            run_if: |context| deploy::hooks::any(context.cluster(), Schedule::Postjoin),
            run: |context| Box::pin(deploy::hooks::run(context.cluster(), Schedule::Postjoin)),
            on_failure: OnFailure::GoOn,
        },
        Phase {
            name: "ready",
            title: "Wait until all nodes are ready",
            help: "every node Ready, DNS rolled out",
            run_if: |_| true,
            run: |context| Box::pin(deploy::ready::run(context.cluster())),
            on_failure: OnFailure::GoOn,
        },
    ]
}
