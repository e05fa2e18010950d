//! Certificate signing requests: which are ours to approve.
//!
//! Kubelets ask for their serving certificates. Whoever has a node's certificate can ask for any name, so nothing is
//! approved by the cluster itself: a request must come from the node that it is for, and ask for exactly its own name
//! and address.

use crate::cluster::kubectl::REPEAT;
use crate::config::{Config, Host};
use crate::pki::Request;
use crate::remote::Script;
use base64::Engine as _;
use eggo_bundles::Role;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// In shell.
const FUNCTIONS: &str = include_str!("requests.sh");
pub const SERVING: &str = "kubernetes.io/kubelet-serving";

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

/// Waits until requests to `signer` wait for an answer, besides those that were `left` alone; not longer than the limit.
pub fn wait_for_others(signer: &str, left: &BTreeSet<String>, limit: Duration) -> Script {
    let words = ["wait_for_others".to_string(), limit.as_secs().to_string(), signer.to_string()];
    Script::new([REPEAT, FUNCTIONS]).then(words.into_iter().chain(left.iter().cloned()))
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
        return leave("it comes from another node than the one it is for");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::sandbox::Sandbox;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    fn config() -> Config {
        let text = "masters: [{name: m, ip: 192.168.7.1, arch: amd64}]\n\
                    workers: [{name: w, ip: 192.168.7.2, arch: amd64}, {name: v, ip: 192.168.7.3, arch: amd64}]\n\
                    install: {package-source: {type: bundle}}\n";
        crate::config::parse("deploy.yaml", text.as_bytes()).unwrap().config
    }

    fn request(signer: &str, user: &str, subject: (&str, &str), names: &[SanType]) -> Pending {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, subject.0);
        params.distinguished_name.push(DnType::CommonName, subject.1);
        params.subject_alt_names = names.to_vec();
        let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        Pending { name: "csr-1".into(), signer: signer.into(), user: user.into(), request: request.into() }
    }

    fn dns(name: &str) -> SanType {
        SanType::DnsName(name.try_into().unwrap())
    }

    fn ip(address: &str) -> SanType {
        SanType::IpAddress(address.parse().unwrap())
    }

    const W: (&str, &str) = ("system:nodes", "system:node:w");

    #[test]
    fn a_serving_certificate_is_for_the_node_s_own_name_and_address() {
        let judge_for = |subject, signer, user, names: &[SanType]| {
            judge_serving(&config(), &request(signer, user, subject, names))
        };
        let judge = |signer, user, names: &[SanType]| judge_for(W, signer, user, names);
        let own = [dns("w"), ip("192.168.7.2")];
        let node = "system:node:w";
        assert_eq!(judge(SERVING, node, &own), Verdict::Approve("w".into()));
        let foreign = "it asks for names or addresses that are not the node's";
        let uri = SanType::URI("https://example.com".try_into().unwrap());
        let cases = [
            (
                judge("kubernetes.io/kube-apiserver-client-kubelet", node, &own),
                "it is not for a kubelet's serving certificate",
            ),
            (judge(SERVING, "system:node:v", &own), "it comes from another node than the one it is for"),
            (
                judge(SERVING, "system:bootstrap:abcdef", &own),
                "it comes from another node than the one it is for",
            ),
            (judge(SERVING, node, &[dns("w"), dns("kubernetes.default")]), foreign),
            (judge(SERVING, node, &[dns("w"), ip("192.168.7.3")]), foreign),
            (judge(SERVING, node, &[dns("w"), uri]), foreign),
            (judge(SERVING, node, &[]), foreign),
            (
                judge_for(("system:masters", "system:node:w"), SERVING, node, &own),
                "it does not ask for the group system:nodes",
            ),
            (
                judge_for(("system:nodes", "system:node:m"), SERVING, "system:node:m", &own),
                "`system:node:m` is no node of this cluster",
            ),
            (judge_for(("system:nodes", "w"), SERVING, node, &own), "`w` is no node of this cluster"),
        ];
        for (verdict, reason) in cases {
            assert_eq!(verdict, Verdict::Leave(format!("csr-1: {reason}")));
        }
        let broken = Pending { request: b"no request".to_vec(), ..request(SERVING, node, W, &own) };
        assert!(matches!(judge_serving(&config(), &broken), Verdict::Leave(_)));
    }

    #[test]
    fn requests_wait_until_they_are_answered() {
        let item = |name: &str, conditions: Value| {
            serde_json::json!({
                "metadata": {"name": name}, "status": {"conditions": conditions},
                "spec": {"signerName": SERVING, "username": "u", "request": "cmVxdWVzdA=="},
            })
        };
        let answered = serde_json::json!([{"type": "Denied"}]);
        let list = serde_json::json!({"items": [item("a", Value::Null), item("b", answered), item("c", serde_json::json!([]))]});
        let names: Vec<String> = pending(&list).into_iter().map(|request| request.name).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(pending(&list)[0].request, b"request");
    }

    /// What was left alone once does not end the wait for the next.
    #[test]
    fn a_wait_looks_past_what_was_left_alone() {
        let waits = |left: &[&str]| {
            let table = "csr-a 1m kubernetes.io/kubelet-serving system:node:w Pending\n\
                         csr-b 1m kubernetes.io/kubelet-serving system:node:w Approved,Issued\n\
                         csr-c 1m kubernetes.io/legacy-unknown u Pending";
            let words = ["others_wait", SERVING].into_iter().chain(left.iter().copied());
            let script = Script::new([FUNCTIONS]).then(words);
            let sandbox = Sandbox::new();
            sandbox.program("kubectl", &format!("echo '{table}'"));
            sandbox.run(script).done
        };
        assert!(waits(&[]));
        assert!(waits(&["csr-x"]));
        assert!(!waits(&["csr-a", "csr-x"]));
    }
}
