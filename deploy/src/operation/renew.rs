//! New certificates for a cluster that runs, or has stopped because all have expired.

use super::life::LifeRequest;
use super::whole::whole;
use crate::cluster::certs::Renewal;
use crate::events::Operation;
use crate::phases::{Applies, Context, OnFailure, Phase, Scene, Selection, run_list};
use eggo_bundles::Role;
use eggo_errors::Report;

/// A renewal of certificates.
pub fn phases() -> Vec<Phase<Renewal>> {
    vec![
        Phase {
            name: "look",
            title: "Look at the nodes",
            help: "find out which nodes can be reached; the others are left out",
            applies: Applies::EVERYWHERE,
            needs: &[],
            run: |context| Box::pin(context.look()),
            on_failure: OnFailure::GoOn,
        },
        Phase {
            name: "backup",
            title: "Back up etcd",
            help: "keep a snapshot of etcd on this machine, or a copy of its data if it does not answer",
            applies: Applies::Cluster(|config| config.etcd.external.is_none()),
            needs: &["look"],
            run: |context| Box::pin(context.back_up()),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "certificates",
            title: "Make certificates",
            help: "make new certificates on this machine",
            applies: Applies::ALWAYS,
            needs: &["look"],
            run: |context| Box::pin(context.make()),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "etcd",
            title: "Renew etcd's certificates",
            help: "members of etcd, one after the other, those that do not work first",
            applies: Applies::Hosts(|config, host| config.etcd.external.is_none() && host.has(Role::Etcd)),
            needs: &["look", "certificates"],
            run: |context| Box::pin(context.etcd()),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "control-plane",
            title: "Renew the control plane's certificates",
            help: "masters, one after the other, and the administrator's kubeconfig",
            applies: Applies::Hosts(|_, host| host.has(Role::Master)),
            needs: &["look", "certificates"],
            run: |context| Box::pin(context.masters()),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "workers",
            title: "Renew the workers' certificates",
            help: "workers, one after the other",
            applies: Applies::Hosts(|_, host| host.has(Role::Worker)),
            needs: &["look", "certificates"],
            run: |context| Box::pin(context.workers()),
            on_failure: OnFailure::GoOn,
        },
        Phase {
            name: "kubelet-serving",
            title: "Approve kubelet-serving certificates",
            help: "approve what the kubelets of this cluster ask for",
            applies: Applies::Hosts(|config, host| config.kubelet_serving && host.has(Role::Worker)),
            needs: &["look"],
            run: |context| Box::pin(context.approve()),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "ready",
            title: "Wait until all nodes are ready",
            help: "every node Ready again",
            applies: Applies::Hosts(|_, host| host.has(Role::Worker)),
            needs: &["look"],
            run: |context| Box::pin(context.ready()),
            on_failure: OnFailure::GoOn,
        },
    ]
}

/// Renews the certificates of `nodes`, or of all where none is named.
pub async fn renew(request: LifeRequest, nodes: &[String], selection: &Selection) -> Result<(), Report> {
    let work = async |request: LifeRequest| {
        selection.check(&phases())?;
        let cluster = request.cluster().await?;
        let names = cluster.config.named(nodes)?;
        run_list(&phases(), selection, &Renewal::new(cluster, names)).await
    };
    whole(Operation::Renew, request, work).await
}

impl Context for Renewal {
    fn scene(&self) -> Scene<'_> {
        self.cluster.scene()
    }
}
