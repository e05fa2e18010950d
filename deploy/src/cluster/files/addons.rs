//! Manifests of addons: the network's pool set to the cluster's, and what to wait for.

use crate::config::Cidr;
use eggo_yaml::{Node, Problems};
use regex::Regex;

/// A manifest with the pod network in it.
///
/// calico's pool is commented out or some other network in the files it is shipped as, and
/// flannel's is a line of JSON in a ConfigMap. Everything else stays as it is, byte for byte.
pub fn with_pod_network(manifest: &str, pods: &Cidr) -> String {
    let calico = Regex::new(
        r#"(?m)^(?P<indent>[ ]*)#?(?P<space>[ ]*)- name: CALICO_IPV4POOL_CIDR[ ]*\n[ ]*#?[ ]*value:[^\n]*$"#,
    )
    .expect("the pattern is valid");
    let replaced = calico.replace_all(manifest, |found: &regex::Captures<'_>| {
        // `# - name` is where `- name` would be without the comment.
        let indent = &found["indent"];
        format!("{indent}- name: CALICO_IPV4POOL_CIDR\n{indent}  value: \"{pods}\"")
    });
    if !replaced.contains("net-conf.json") {
        return replaced.into_owned();
    }
    let flannel = Regex::new(r#"("Network"\s*:\s*)"[^"]*""#).expect("the pattern is valid");
    let with_network = format!("${{1}}\"{pods}\"");
    flannel.replace(&replaced, with_network.as_str()).into_owned()
}

/// An object of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub kind: String,
    pub name: String,
    pub namespace: Option<String>,
}

/// All objects of a manifest, those inside of lists too.
pub fn objects(file: &str, manifest: &str) -> Result<Vec<Object>, Problems> {
    let documents = eggo_yaml::parse_all(file, manifest.as_bytes())?;
    let mut found = Vec::new();
    documents.iter().for_each(|document| collect(document, &mut found));
    Ok(found)
}

fn collect(node: &Node, found: &mut Vec<Object>) {
    let text = |node: Option<&Node>| node.and_then(Node::as_str).map(str::to_string);
    let Some(kind) = text(node.get("kind")) else { return };
    if kind == "List" {
        let items = node.get("items").and_then(Node::as_sequence).unwrap_or_default();
        items.iter().for_each(|item| collect(item, found));
        return;
    }
    let metadata = node.get("metadata");
    let field = |key| text(metadata.and_then(|metadata| metadata.get(key)));
    if let Some(name) = field("name") {
        found.push(Object { kind, name, namespace: field("namespace") });
    }
}

impl Object {
    /// Its namespace.
    pub fn place(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }

    /// The kubectl words that wait until it works; none for what works at once.
    pub fn wait(&self, seconds: u64) -> Option<Vec<String>> {
        let namespace = self.place().to_string();
        let name = format!("{}/{}", self.kind.to_lowercase(), self.name);
        let timeout = format!("--timeout={seconds}s");
        let words = match self.kind.as_str() {
            "Deployment" | "DaemonSet" | "StatefulSet" => {
                vec!["rollout".into(), "status".into(), name, "-n".into(), namespace, timeout]
            }
            "Job" => {
                vec!["wait".into(), "--for=condition=complete".into(), name, "-n".into(), namespace, timeout]
            }
            "CustomResourceDefinition" => {
                vec![
                    "wait".into(),
                    "--for=condition=established".into(),
                    format!("crd/{}", self.name),
                    timeout,
                ]
            }
            _ => return None,
        };
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calico_s_pool_is_set_whether_commented_or_not() {
        let pods: Cidr = "10.244.0.0/16".parse().unwrap();
        let commented = "          env:\n            # The default pool\n            # - name: CALICO_IPV4POOL_CIDR\n            #   value: \"192.168.0.0/16\"\n            - name: X\n";
        let expected = "          env:\n            # The default pool\n            - name: CALICO_IPV4POOL_CIDR\n              value: \"10.244.0.0/16\"\n            - name: X\n";
        assert_eq!(with_pod_network(commented, &pods), expected);
        let plain = expected.replace("10.244.0.0/16", "172.16.0.0/12");
        assert_eq!(with_pod_network(&plain, &pods), expected);
        assert_eq!(with_pod_network("kind: X\n", &pods), "kind: X\n");
    }

    #[test]
    fn flannel_s_network_is_set() {
        let pods: Cidr = "10.99.0.0/16".parse().unwrap();
        let text = "data:\n  net-conf.json: |\n    {\n      \"Network\": \"10.244.0.0/16\",\n      \"Backend\": {}\n    }\n";
        assert!(with_pod_network(text, &pods).contains("\"Network\": \"10.99.0.0/16\",\n"));
    }

    #[test]
    fn objects_and_what_to_wait_for() {
        let manifest = "kind: List\nitems:\n- {kind: Deployment, metadata: {name: a, namespace: b}}\n---\n\
                        kind: ConfigMap\nmetadata: {name: c}\n---\n";
        let found = objects("x.yaml", manifest).unwrap();
        assert_eq!(found.len(), 2);
        let words = found[0].wait(60).unwrap().join(" ");
        assert_eq!(words, "rollout status deployment/a -n b --timeout=60s");
        assert_eq!(found[1].wait(60), None);
    }
}
