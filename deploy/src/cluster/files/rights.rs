//! What kubelets may do beyond what Kubernetes itself lets them.

use serde_json::{Value, json};

/// A node may renew its own client certificate: the cluster approves that by itself.
pub fn of_kubelets() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "eggo:kubelet-renewal" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes" }],
    })
}
