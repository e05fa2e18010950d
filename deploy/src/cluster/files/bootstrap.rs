//! What a kubelet needs to come to the cluster: a token, and the right to ask for a certificate.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use zeroize::Zeroizing;

/// How long a token lets kubelets in, should nobody revoke it.
pub const LIFETIME: SignedDuration = SignedDuration::from_hours(2);

/// `ID.SECRET`, six and sixteen letters and digits.
pub struct Token {
    pub id: String,
    secret: Zeroizing<String>,
    pub expires: Timestamp,
}

impl Token {
    pub fn make(now: Timestamp) -> Result<Self, getrandom::Error> {
        Ok(Self { id: random_word(6)?.to_string(), secret: random_word(16)?, expires: now + LIFETIME })
    }

    pub fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{}.{}", self.id, *self.secret))
    }

    /// The user name that the API knows its bearer by.
    pub fn user(&self) -> String {
        format!("system:bootstrap:{}", self.id)
    }

    pub fn secret(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "bootstrap.kubernetes.io/token",
            "metadata": { "name": format!("bootstrap-token-{}", self.id), "namespace": "kube-system" },
            "stringData": {
                "description": "kubelets that eggo-install brings to the cluster",
                "token-id": self.id,
                "token-secret": *self.secret,
                "expiration": self.expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                "usage-bootstrap-authentication": "true",
                "usage-bootstrap-signing": "true",
            },
        })
    }
}

fn random_word(length: usize) -> Result<Zeroizing<String>, getrandom::Error> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = Zeroizing::new(vec![0; length]);
    getrandom::fill(&mut bytes)?;
    // 32 letters: every byte picks one of them evenly.
    Ok(Zeroizing::new(bytes.iter().map(|byte| LETTERS[usize::from(byte % 32)] as char).collect()))
}

/// Who bears a token may ask for a certificate; that it is for a node of this cluster is checked
/// by us, so the controller approves nothing of theirs. A node may renew its own.
pub fn rights() -> Value {
    let binding = |name: &str, role: &str, group: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group }],
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            binding("eggo:kubelet-bootstrap", "system:node-bootstrapper", "system:bootstrappers"),
            binding(
                "eggo:kubelet-renewal",
                "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
                "system:nodes",
            ),
        ],
    })
}
