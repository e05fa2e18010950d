//! Masters that run a kubelet are marked as such, and kept free of ordinary pods.

use crate::cluster::Cluster;
use crate::phases::PhaseError;
use crate::run::{Outcome, Step};
use eggo_bundles::Role;

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    let kubectl = cluster.kubectl().await.map_err(PhaseError::Whole)?;
    // With no other node to run them on, ordinary pods are welcome.
    let taint = cluster.config.with_role(Role::Worker).any(|host| !host.has(Role::Master));
    for node in cluster.with_role(Role::Master) {
        if !node.host.has(Role::Worker) || cluster.run.has_failed(&node.host.name) {
            continue;
        }
        let facts = node.facts(&cluster.config).await.map_err(PhaseError::Whole)?;
        let minor = facts.version("kube-apiserver").map_or(0, |version| version.minor);
        let name = &node.host.name;
        let mut script = format!(
            "kubectl label --overwrite node {name} node-role.kubernetes.io/control-plane= >/dev/null\n"
        );
        if minor < 24 {
            script.push_str(&format!(
                "kubectl label --overwrite node {name} node-role.kubernetes.io/master= >/dev/null\n"
            ));
        }
        if taint {
            // The old name of the taint went with 1.25.
            let key = if minor < 24 { "master" } else { "control-plane" };
            script.push_str(&format!(
                "kubectl taint --overwrite node {name} node-role.kubernetes.io/{key}=:NoSchedule >/dev/null\n"
            ));
        }
        let step = Step::new("labels", "label and taint").fingerprint(&script);
        let work = || async {
            kubectl.run("label and taint masters", &script).await?;
            Ok(Outcome::Changed)
        };
        cluster.run.step(name, step, work).await.map_err(PhaseError::Whole)?;
    }
    Ok(())
}
