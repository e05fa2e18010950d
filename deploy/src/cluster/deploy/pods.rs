//! Why pods do not run, in the API's own words: what the scheduler, the kubelet and events say of them.

use crate::cluster::files::addons::Object;
use eggo_errors::Count;
use serde_json::Value;

/// Pods that are named.
const MOST: usize = 5;

/// Those that make pods.
pub(super) fn makers(objects: &[Object]) -> impl Iterator<Item = &Object> {
    objects
        .iter()
        .filter(|object| ["Deployment", "DaemonSet", "StatefulSet", "Job"].contains(&object.kind.as_str()))
}

/// A line for each pod of `objects` that does not work, and for each object that has no pod. `listed` are lists of the
/// pods and events of their namespaces.
pub(super) fn reasons(objects: &[Object], listed: &[Value]) -> Vec<String> {
    let items: Vec<&Value> = listed.iter().filter_map(|list| list["items"].as_array()).flatten().collect();
    let (mut lines, mut more) = (Vec::new(), 0);
    for object in makers(objects) {
        let pods: Vec<&Value> = items.iter().filter(|item| is_pod_of(item, object)).copied().collect();
        if pods.is_empty() {
            let place = format!("{}/{}", object.place(), object.name);
            let why = last_warning(&items, object.place(), &object.name);
            lines.push(format!(
                "{place} has no pods{}",
                why.map(|why| format!(": {why}")).unwrap_or_default()
            ));
        }
        for pod in pods.into_iter().filter(|pod| !works(pod)) {
            match lines.len() < MOST {
                true => lines.push(reason(pod, &items)),
                false => more += 1,
            }
        }
    }
    if more > 0 {
        lines.push(format!("and {}", Count(more, "more pod", "more pods")));
    }
    lines
}

fn is_pod_of(item: &Value, object: &Object) -> bool {
    let name = item["metadata"]["name"].as_str().unwrap_or_default();
    let end = name.strip_prefix(&object.name).and_then(|end| end.strip_prefix('-'));
    item["kind"] == "Pod" && item["metadata"]["namespace"] == object.place() && end.is_some()
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    pod["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn works(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded"
        || condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// `kube-system/coredns-1 on w1: ImagePullBackOff: …; Failed: …`
fn reason(pod: &Value, items: &[&Value]) -> String {
    let (name, place) = (word(pod, "name"), word(pod, "namespace"));
    let node = pod["spec"]["nodeName"].as_str().map(|node| format!(" on {node}")).unwrap_or_default();
    let unscheduled = condition(pod, "PodScheduled").filter(|condition| condition["status"] == "False");
    let mut parts: Vec<String> = unscheduled.into_iter().chain(waiting(pod)).map(said).collect();
    parts.extend(last_warning(items, place, name).filter(|_| unscheduled.is_none()));
    if parts.is_empty() {
        parts.push(format!("is {}", pod["status"]["phase"].as_str().unwrap_or("not ready")));
    }
    parts.dedup();
    format!("{place}/{name}{node}: {}", parts.join("; "))
}

/// Of the first container that waits for something.
fn waiting(pod: &Value) -> Option<&Value> {
    let containers = |key: &str| pod["status"][key].as_array().into_iter().flatten();
    let mut all = containers("initContainerStatuses").chain(containers("containerStatuses"));
    // The others wait for the pod's own beginning.
    all.find_map(|container| {
        let waiting = &container["state"]["waiting"];
        let reason = waiting["reason"].as_str()?;
        (!["PodInitializing", "ContainerCreating"].contains(&reason)).then_some(waiting)
    })
}

/// The last warning about something of this name, or about what it has made and is gone.
fn last_warning(items: &[&Value], namespace: &str, name: &str) -> Option<String> {
    let about = |event: &&&Value| {
        let of = &event["involvedObject"];
        let named = of["name"].as_str().is_some_and(|found| {
            found.strip_prefix(name).is_some_and(|end| end.is_empty() || end.starts_with('-'))
        });
        event["kind"] == "Event" && event["type"] == "Warning" && of["namespace"] == namespace && named
    };
    let time = |event: &&&Value| {
        let times = [&event["lastTimestamp"], &event["eventTime"], &event["metadata"]["creationTimestamp"]];
        times.into_iter().find_map(Value::as_str).unwrap_or_default().to_string()
    };
    items.iter().filter(about).max_by_key(time).map(|event| said(event))
}

/// `REASON: MESSAGE`, as far as either is there.
fn said(of: &Value) -> String {
    let words = [&of["reason"], &of["message"]].into_iter().filter_map(Value::as_str);
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(": ")
}

fn word<'a>(item: &'a Value, key: &str) -> &'a str {
    item["metadata"][key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(kind: &str, name: &str) -> Object {
        Object { kind: kind.into(), name: name.into(), namespace: Some("net".into()) }
    }

    fn pod(name: &str, status: Value) -> Value {
        json!({"kind": "Pod", "metadata": {"name": name, "namespace": "net"}, "spec": {"nodeName": "w1"}, "status": status})
    }

    fn warning(name: &str, time: &str, reason: &str, message: &str) -> Value {
        json!({"kind": "Event", "type": "Warning", "lastTimestamp": time, "reason": reason, "message": message,
               "involvedObject": {"name": name, "namespace": "net"}})
    }

    #[test]
    fn taints_image_pulls_and_the_last_event_are_named() {
        let mut tainted = pod(
            "agent-a",
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "0/1 nodes are available: 1 had untolerated taint {a: b}"}]}),
        );
        tainted["spec"] = json!({});
        let waiting = json!({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling agent:1"}}});
        let list = json!({"items": [
            tainted,
            pod("agent-b", json!({"phase": "Pending", "containerStatuses": [waiting]})),
            pod("agent-c", json!({"phase": "Pending", "containerStatuses": [
                {"state": {"waiting": {"reason": "ContainerCreating"}}}]})),
            pod("agent-d", json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})),
            pod("other-e", json!({"phase": "Pending"})),
            warning("agent-c", "2026-01-01T00:00:02Z", "FailedMount", "no such volume"),
            warning("agent-c", "2026-01-01T00:00:01Z", "Failed", "older"),
            warning("made", "2026-01-01T00:00:01Z", "FailedCreate", "quota exceeded"),
        ]});
        let objects =
            [object("DaemonSet", "agent"), object("Deployment", "made"), object("ConfigMap", "other")];
        assert_eq!(
            reasons(&objects, &[list]),
            [
                "net/agent-a: Unschedulable: 0/1 nodes are available: 1 had untolerated taint {a: b}",
                "net/agent-b on w1: ImagePullBackOff: Back-off pulling agent:1",
                "net/agent-c on w1: FailedMount: no such volume",
                "net/made has no pods: FailedCreate: quota exceeded",
            ]
        );
    }

    #[test]
    fn of_many_pods_a_few_are_named() {
        let pods: Vec<Value> =
            (0..9).map(|n| pod(&format!("agent-{n}"), json!({"phase": "Pending"}))).collect();
        let lines = reasons(&[object("DaemonSet", "agent")], &[json!({"items": pods})]);
        assert_eq!(lines.len(), MOST + 1);
        assert_eq!(
            (lines[0].as_str(), lines[MOST].as_str()),
            ("net/agent-0 on w1: is Pending", "and 4 more pods")
        );
    }
}
