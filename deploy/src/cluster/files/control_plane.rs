//! Secrets at rest, and what is written to the audit log.

use crate::cluster::yaml;
use serde_json::json;
use zeroize::Zeroizing;

/// New secrets are sealed with `key`; what was written before in clear can still be read.
pub fn encryption(key: &str) -> Zeroizing<String> {
    Zeroizing::new(yaml::write(&json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{
            "resources": ["secrets"],
            "providers": [
                { "secretbox": { "keys": [{ "name": "key1", "secret": key }] } },
                { "identity": {} },
            ],
        }],
    })))
}

/// Who did what, without the content of requests. Of reads only those count that show a secret or reach into a pod: `exec`
/// and its like are reads by their verb, since they begin as WebSockets. The rest of what is only read, and what the
/// components write by themselves all the time, is left out. The first rule that fits decides.
pub fn audit_policy() -> String {
    let of = |group: &str, resources: &[&str]| json!([{ "group": group, "resources": resources }]);
    yaml::write(&json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            { "level": "Metadata", "resources": of("", &["secrets", "configmaps", "serviceaccounts/token"]) },
            { "level": "Metadata", "resources": of("authentication.k8s.io", &["tokenreviews"]) },
            { "level": "Metadata", "resources": of("", &INTO_PODS) },
            { "level": "None", "verbs": ["get", "list", "watch"] },
            { "level": "None", "resources": of("coordination.k8s.io", &["leases"]) },
            { "level": "None", "resources": of("", &["events"]) },
            { "level": "None", "resources": of("events.k8s.io", &["events"]) },
            { "level": "None", "userGroups": ["system:nodes"], "resources": of("", &["nodes/status", "pods/status"]) },
            { "level": "Metadata" },
        ],
    }))
}

/// Ways into a pod, a service or a node, whatever their verb.
const INTO_PODS: [&str; 6] =
    ["pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy"];

#[cfg(test)]
mod tests {
    use super::*;

    /// The level at which the policy logs a request, as the API server decides it: by the first rule that fits.
    fn level(verb: &str, group: &str, resource: &str, user_group: &str) -> String {
        let policy = eggo_yaml::parse("audit-policy.yaml", audit_policy().as_bytes()).unwrap();
        let names = |node: Option<&eggo_yaml::Node>| -> Option<Vec<String>> {
            let list = node?.as_sequence()?.iter();
            Some(list.filter_map(eggo_yaml::Node::as_str).map(str::to_string).collect())
        };
        let fits = |rule: &&eggo_yaml::Node| {
            let among = |key: &str, wanted: &str| {
                names(rule.get(key)).is_none_or(|list| list.iter().any(|name| name == wanted))
            };
            let resources = rule.get("resources").and_then(eggo_yaml::Node::as_sequence);
            let named = resources.is_none_or(|list| {
                list.iter().any(|entry| {
                    entry.get("group").and_then(eggo_yaml::Node::as_str) == Some(group)
                        && names(entry.get("resources")).unwrap().iter().any(|name| name == resource)
                })
            });
            among("verbs", verb) && among("userGroups", user_group) && named
        };
        let rules = policy.get("rules").and_then(eggo_yaml::Node::as_sequence).unwrap();
        let rule = rules.iter().find(fits).unwrap();
        rule.get("level").and_then(eggo_yaml::Node::as_str).unwrap().to_string()
    }

    #[test]
    fn reads_of_secrets_and_ways_into_pods_are_logged() {
        for (verb, group, resource) in [
            ("get", "", "secrets"),
            ("list", "", "secrets"),
            ("watch", "", "configmaps"),
            ("get", "", "configmaps"),
            ("create", "", "serviceaccounts/token"),
            ("create", "authentication.k8s.io", "tokenreviews"),
            ("get", "", "pods/exec"),
            ("create", "", "pods/exec"),
            ("get", "", "pods/attach"),
            ("get", "", "pods/portforward"),
            ("get", "", "pods/proxy"),
            ("get", "", "services/proxy"),
            ("get", "", "nodes/proxy"),
            ("create", "", "pods"),
            ("patch", "apps", "deployments"),
            ("delete", "rbac.authorization.k8s.io", "clusterrolebindings"),
        ] {
            assert_eq!(level(verb, group, resource, "system:authenticated"), "Metadata", "{verb} {resource}");
        }
        for (verb, group, resource, users) in [
            ("get", "", "pods", "system:authenticated"),
            ("watch", "", "services", "system:nodes"),
            ("update", "coordination.k8s.io", "leases", "system:nodes"),
            ("create", "events.k8s.io", "events", "system:authenticated"),
            ("patch", "", "pods/status", "system:nodes"),
        ] {
            assert_eq!(level(verb, group, resource, users), "None", "{verb} {resource}");
        }
        assert_eq!(level("patch", "", "pods/status", "system:authenticated"), "Metadata");
    }
}
