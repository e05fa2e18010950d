//! Masters that run a kubelet are marked as such, and kept free of ordinary pods.

use crate::cluster::Cluster;
use crate::cluster::kubectl::call;
use crate::phases::PhaseError;
use crate::remote::Script;
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
        let role = |name: &str| format!("node-role.kubernetes.io/{name}=");
        let label = |name| call(&["label", "--overwrite", "node", &node.host.name, &role(name)]);
        let mut script = Script::new([]).then(label("control-plane"));
        if minor < 24 {
            script = script.then(label("master"));
        }
        if taint {
            // The old name of the taint went with 1.25.
            let key = role(if minor < 24 { "master" } else { "control-plane" }) + ":NoSchedule";
            script = script.then(call(&["taint", "--overwrite", "node", name, &key]));
        }
        let step = Step::new("labels", "label and taint").fingerprint(script.to_string());
        let work = || async {
            kubectl.run("label and taint masters", script).await?;
            Ok(Outcome::Changed)
        };
        cluster.run.step(name, step, work).await.map_err(PhaseError::Whole)?;
    }
    Ok(())
}
