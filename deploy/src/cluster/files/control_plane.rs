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

/// Who did what, without the content of requests; the noise of the components' own watching is left out.
pub fn audit_policy() -> String {
    yaml::write(&json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            { "level": "None", "verbs": ["get", "list", "watch"] },
            { "level": "None", "resources": [{ "group": "coordination.k8s.io", "resources": ["leases"] }] },
            { "level": "None", "resources": [{ "group": "", "resources": ["events"] }] },
            { "level": "None", "userGroups": ["system:nodes"], "resources": [{ "group": "", "resources": ["nodes/status", "pods/status"] }] },
            { "level": "Metadata" },
        ],
    }))
}
