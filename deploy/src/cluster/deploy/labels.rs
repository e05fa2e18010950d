//! Masters that run a kubelet are marked as such, and kept free of ordinary pods.

use crate::cluster::Cluster;
use crate::cluster::files::kubelet::taint;
use crate::cluster::kubectl::call;
use crate::phases::PhaseError;
use crate::remote::Script;
use crate::run::{Outcome, Step};
use eggo_bundles::Role;

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    let kubectl = cluster.kubectl().await.map_err(PhaseError::Whole)?;
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
        if let Some(key) = taint(&cluster.config, &node.host, minor) {
            script =
                script.then(call(&["taint", "--overwrite", "node", name, &format!("{key}=:NoSchedule")]));
        }
        let step = Step::new("labels", "label and taint").fingerprint(script.to_string());
        let work = async |permit| {
            kubectl.run(kubectl.change(permit, "label and taint masters", script)).await?;
            Ok(Outcome::Changed)
        };
        cluster.run.step(name, step, work).await.map_err(PhaseError::Whole)?;
    }
    Ok(())
}
