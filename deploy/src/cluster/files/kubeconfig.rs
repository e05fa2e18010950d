//! Kubeconfigs: who talks to which API server, with which certificate.

use crate::cluster::yaml;
use crate::pki::Leaf;
use base64::Engine as _;
use serde_json::{Value, json};
use zeroize::Zeroizing;

/// How the user of a kubeconfig proves who they are.
pub enum Credentials<'a> {
    Certificate(&'a Leaf),
    /// A file on the node, with the certificate and its key.
    File(&'a str),
}

pub struct Kubeconfig<'a> {
    pub cluster: &'a str,
    /// `https://HOST:PORT`
    pub server: &'a str,
    /// The authority's certificate, in PEM form.
    pub authority: &'a str,
    pub user: &'a str,
    pub credentials: Credentials<'a>,
}

impl Kubeconfig<'_> {
    pub fn write(&self) -> Zeroizing<String> {
        let user: Value = match &self.credentials {
            Credentials::Certificate(leaf) => json!({
                "client-certificate-data": encode(&leaf.certificate),
                "client-key-data": encode(&leaf.key),
            }),
            Credentials::File(path) => json!({ "client-certificate": path, "client-key": path }),
        };
        let context = format!("{}@{}", self.user, self.cluster);
        Zeroizing::new(yaml::write(&json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": self.cluster,
                "cluster": { "server": self.server, "certificate-authority-data": encode(self.authority) },
            }],
            "users": [{ "name": self.user, "user": user }],
            "contexts": [{ "name": context, "context": { "cluster": self.cluster, "user": self.user } }],
            "current-context": context,
        })))
    }
}

fn encode(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}
