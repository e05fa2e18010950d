//! Addons: applied in order, each working before the next.

use super::pods;
use crate::cluster::Cluster;
use crate::cluster::files::addons::{Object, objects, with_pod_network};
use crate::cluster::kubectl::{Kubectl, call};
use crate::phases::PhaseError;
use crate::remote::Script;
use crate::run::{Outcome, Permit, Step};
use eggo_errors::Report;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// A kubelet gives up on a sandbox that hangs after four minutes, and makes another one: that fits in.
const SECONDS: u64 = 600;

pub async fn run(cluster: &Cluster) -> Result<(), PhaseError> {
    let manifests = manifests(cluster).await.map_err(PhaseError::Whole)?;
    if manifests.is_empty() {
        return Ok(());
    }
    let kubectl = cluster.kubectl().await.map_err(PhaseError::Whole)?;
    for (name, text) in manifests {
        apply(cluster, &kubectl, &name, &text).await.map_err(PhaseError::Whole)?;
    }
    Ok(())
}

/// The manifests with the cluster's pod network in them: the network's first, then the others as
/// deploy.yaml lists them.
async fn manifests(cluster: &Cluster) -> Result<Vec<(String, String)>, Report> {
    let config = &cluster.config;
    let mut found: Vec<(String, String)> = Vec::new();
    if let Some(path) = config.network.plugin_args.get("NetworkYamlPath") {
        let name = path.rsplit('/').next().unwrap_or(path);
        let wanted = name.to_string();
        let text = match cluster.from_shelf(move |shelf| shelf.addon(&wanted)).await? {
            Some(text) => text,
            None => on_master(cluster, path).await?,
        };
        found.push((name.to_string(), text));
    }
    for addon in &config.addons {
        if found.iter().any(|(name, _)| *name == addon.name) {
            continue;
        }
        let wanted = addon.name.clone();
        let text = cluster.from_shelf(move |shelf| shelf.addon(&wanted)).await?.ok_or_else(|| {
            Report::new(format!("the addon `{}` is not in the bundle", addon.name))
                .note(format!("named in deploy.yaml line {}", addon.line))
        })?;
        found.push((addon.name.clone(), text));
    }
    for (_, text) in &mut found {
        *text = with_pod_network(text, &config.network.pod_cidr);
    }
    Ok(found)
}

/// A manifest that is on the first master.
async fn on_master(cluster: &Cluster, path: &str) -> Result<String, Report> {
    let masters = cluster.with_role(eggo_bundles::Role::Master);
    let first = masters.first().ok_or_else(|| Report::new("there is no master"))?;
    let bytes = first.remote.read_file(path).await?.ok_or_else(|| {
        Report::new(format!("`{path}` is neither an addon of the bundle nor a file on {}", first.host.name))
            .note("named by `NetworkYamlPath` in `network.plugin-args`")
    })?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Report::new(format!("`{path}` is not UTF-8")))
}

async fn apply(cluster: &Cluster, kubectl: &Kubectl<'_>, name: &str, text: &str) -> Result<(), Report> {
    let objects = objects(name, text).map_err(|problems| Report::new(problems.to_string()))?;
    let step = Step::new(format!("addon/{name}"), format!("apply {name}")).fingerprint_of([text]).always();
    let work = async |permit| {
        let changed = apply_twice(permit, kubectl, name, text, &objects).await?;
        let waits: Vec<Vec<String>> = objects.iter().filter_map(|object| object.wait(SECONDS)).collect();
        if !waits.is_empty() {
            let limit = Duration::from_secs(SECONDS * waits.len() as u64 + 60);
            let waited =
                kubectl.run(kubectl.look(format!("wait for {name}"), all(&waits)).timeout(limit)).await;
            if let Err(report) = waited {
                return Err(explained(kubectl, &objects, report).await);
            }
        }
        Ok(Outcome::changed_if(changed))
    };
    cluster.run.step(kubectl.host().name(), step, work).await?;
    Ok(())
}

/// A wait that failed says only for what it waited: the pods say why. Where they cannot be asked, that is all.
async fn explained(kubectl: &Kubectl<'_>, objects: &[Object], mut report: Report) -> Report {
    if !matches!(report.code.as_str(), "command-failed" | "command-timeout") {
        return report;
    }
    let namespaces: BTreeSet<&str> = pods::makers(objects).map(Object::place).collect();
    let get =
        |namespace: &&str| ["get", "pods,events", "-n", namespace, "-o", "json"].map(String::from).to_vec();
    let commands: Vec<Vec<String>> = namespaces.iter().map(get).collect();
    if let Ok(output) = kubectl.run(kubectl.look("look at pods that do not run", all(&commands))).await {
        let listed = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
        let listed: Vec<Value> = listed.map_while(Result::ok).collect();
        report.notes.extend(pods::reasons(objects, &listed));
    }
    report
}

/// Objects of a kind that the same manifest defines are refused until that definition is
/// established; the second time they are taken.
async fn apply_twice(
    permit: Permit,
    kubectl: &Kubectl<'_>,
    name: &str,
    text: &str,
    objects: &[Object],
) -> Result<bool, Report> {
    let title = format!("apply {name}");
    let definitions = objects.iter().filter(|object| object.kind == "CustomResourceDefinition");
    let definitions: Vec<Vec<String>> = definitions.filter_map(|object| object.wait(60)).collect();
    match kubectl.apply(permit, &title, text.as_bytes()).await {
        Err(_) if !definitions.is_empty() => {
            kubectl.run(kubectl.look("wait for the new kinds", all(&definitions))).await?;
            kubectl.apply(permit, &title, text.as_bytes()).await
        }
        result => result,
    }
}

/// kubectl commands, one after the other.
fn all(commands: &[Vec<String>]) -> Script {
    commands.iter().fold(Script::new([]), |script, words| script.then(call(words)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::fake::Fake;
    use zeroize::Zeroizing;

    fn report(code: &'static str) -> Report {
        Report::new("m: could not wait for flannel.yaml: exit status 1").code(code)
    }

    #[tokio::test]
    async fn a_wait_in_vain_names_the_pods_and_their_reasons_with_one_question() {
        let object = Object {
            kind: "DaemonSet".into(),
            name: "flannel".into(),
            namespace: Some("kube-flannel".into()),
        };
        let list = r#"{"items": [{"kind": "Pod",
            "metadata": {"name": "flannel-x1", "namespace": "kube-flannel"},
            "status": {"containerStatuses": [{"state": {"waiting":
                {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"flannel:1\""}}}]}}]}"#;
        let fake = Fake::new("m").on("look at pods", list);
        let kubectl = Kubectl::new(&fake, "kubectl", Zeroizing::new(String::new()));
        let told = explained(&kubectl, std::slice::from_ref(&object), report("command-failed")).await;
        assert_eq!(
            told.notes,
            ["kube-flannel/flannel-x1: ImagePullBackOff: Back-off pulling image \"flannel:1\""]
        );
        assert_eq!(told.message, report("command-failed").message);
        assert_eq!(fake.calls().len(), 1);
        let lost = explained(&kubectl, &[object], report("connection-lost")).await;
        assert_eq!((lost.notes.len(), fake.calls().len()), (0, 1), "nobody answers");
    }
}
