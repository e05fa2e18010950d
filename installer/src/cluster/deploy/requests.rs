//! Certificate signing requests: which are ours to approve.
//!
//! A token lets its bearer ask for any node's name, so nothing is approved by the cluster itself:
//! a request must come from the token of this run (or from the node itself), and ask for exactly
//! what a node of deploy.yaml would ask for.

use crate::config::{Config, Host};
use crate::pki::Request;
use base64::Engine as _;
use eggo_bundles::Role;
use serde_json::Value;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";

/// A request that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub name: String,
    pub signer: String,
    pub user: String,
    pub request: Vec<u8>,
}

/// What is to be done about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is this node's.
    Approve(String),
    /// It is somebody else's business.
    Leave(String),
}

/// The requests in `kubectl get csr -o json` that have neither been approved nor denied.
pub fn pending(list: &Value) -> Vec<Pending> {
    let items = list["items"].as_array().into_iter().flatten();
    let waiting = items.filter(|item| item["status"]["conditions"].as_array().is_none_or(Vec::is_empty));
    waiting
        .filter_map(|item| {
            let text = |value: &Value| value.as_str().map(str::to_string);
            let request = text(&item["spec"]["request"])?;
            Some(Pending {
                name: text(&item["metadata"]["name"])?,
                signer: text(&item["spec"]["signerName"])?,
                user: text(&item["spec"]["username"])?,
                request: base64::engine::general_purpose::STANDARD.decode(request).ok()?,
            })
        })
        .collect()
}

/// A kubelet's first certificate: asked for with the token, for a worker of this cluster.
pub fn judge_client(config: &Config, token_user: &str, pending: &Pending) -> Verdict {
    let leave = |reason: &str| Verdict::Leave(format!("{}: {reason}", pending.name));
    if pending.signer != CLIENT {
        return leave("it is not for a kubelet's client certificate");
    }
    if pending.user != token_user {
        return leave("it does not come with the token of this run");
    }
    let (host, request) = match node_of(config, pending) {
        Ok(found) => found,
        Err(reason) => return leave(&reason),
    };
    if !request.dns.is_empty() || !request.ips.is_empty() || request.other_names {
        return leave("a client certificate has no alternative names");
    }
    Verdict::Approve(host.name.clone())
}

/// A kubelet's serving certificate: asked for by the node itself, for its own name and address.
pub fn judge_serving(config: &Config, pending: &Pending) -> Verdict {
    let leave = |reason: &str| Verdict::Leave(format!("{}: {reason}", pending.name));
    if pending.signer != SERVING {
        return leave("it is not for a kubelet's serving certificate");
    }
    let (host, request) = match node_of(config, pending) {
        Ok(found) => found,
        Err(reason) => return leave(&reason),
    };
    if pending.user != format!("system:node:{}", host.name) {
        return leave("it comes from another than the node it is for");
    }
    let own =
        request.dns.iter().all(|name| *name == host.name) && request.ips.iter().all(|ip| *ip == host.ip);
    if !own || request.other_names || (request.dns.is_empty() && request.ips.is_empty()) {
        return leave("it asks for names or addresses that are not the node's");
    }
    Verdict::Approve(host.name.clone())
}

fn node_of<'a>(config: &'a Config, pending: &Pending) -> Result<(&'a Host, Request), String> {
    let request = Request::parse(&pending.name, &pending.request).map_err(|error| error.to_string())?;
    if request.organisations != ["system:nodes"] {
        return Err("it does not ask for the group system:nodes".to_string());
    }
    let name = request.common_name.strip_prefix("system:node:").unwrap_or_default().to_string();
    let host = config.with_role(Role::Worker).find(|host| host.name == name);
    match host {
        Some(host) => Ok((host, request)),
        None => Err(format!("`{}` is no node of this cluster", request.common_name)),
    }
}
