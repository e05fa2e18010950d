//! For which machines a pod spec is: those that its node selector and its required node affinity let in. Only
//! the labels for arch and OS are looked at; whether a node bears the others is not known here.

use eggo_bundles::Arch;
use eggo_yaml::Node;

const ARCH: [&str; 2] = ["kubernetes.io/arch", "beta.kubernetes.io/arch"];
const OS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];

/// The archs whose Linux nodes may run a pod of this spec.
pub(super) fn archs(pod_spec: &Node) -> Vec<Arch> {
    Arch::ALL.into_iter().filter(|arch| selected(pod_spec, *arch) && attracted(pod_spec, *arch)).collect()
}

fn selected(pod_spec: &Node, arch: Arch) -> bool {
    let selector = pod_spec.get("nodeSelector").and_then(Node::as_mapping).unwrap_or_default();
    selector.iter().all(|entry| match label(&entry.key, arch) {
        Some(label) => entry.node.as_str().is_none_or(|value| value == label),
        None => true,
    })
}

/// One of the terms must hold, and of a term all expressions.
fn attracted(pod_spec: &Node, arch: Arch) -> bool {
    let path =
        ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    let terms = path.iter().try_fold(pod_spec, |node, key| node.get(key)).and_then(Node::as_sequence);
    let holds = |term: &Node| {
        let expressions = term.get("matchExpressions").and_then(Node::as_sequence).unwrap_or_default();
        expressions.iter().all(|expression| fits(expression, arch))
    };
    terms.is_none_or(|terms| terms.is_empty() || terms.iter().any(holds))
}

fn fits(expression: &Node, arch: Arch) -> bool {
    let text = |key: &str| expression.get(key).and_then(Node::as_str).unwrap_or("");
    let Some(label) = label(text("key"), arch) else { return true };
    let values = expression.get("values").and_then(Node::as_sequence).unwrap_or_default();
    let named = values.iter().any(|value| value.as_str() == Some(label));
    match text("operator") {
        "In" => named,
        "NotIn" => !named,
        "DoesNotExist" => false,
        _ => true,
    }
}

/// What a node of that arch has under a label; `None` for labels that nobody can know.
fn label(key: &str, arch: Arch) -> Option<&'static str> {
    match key {
        _ if ARCH.contains(&key) => Some(arch.as_str()),
        _ if OS.contains(&key) => Some("linux"),
        _ => None,
    }
}
