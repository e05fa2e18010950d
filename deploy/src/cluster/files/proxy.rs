//! kube-proxy's configuration file.
//!
//! Once it is given a file, kube-proxy ignores nearly all of its flags. So the flags that
//! deploy.yaml adds for it become fields.

use crate::cluster::flags::Scope;
use crate::cluster::{paths, yaml};
use crate::config::Component;
use crate::config::proxy::{Kind, field_of};
use serde_json::{Value, json};

pub fn config(scope: &Scope<'_>) -> String {
    let mut file = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": { "kubeconfig": paths::KUBE_PROXY },
        "clusterCIDR": scope.config.network.pod_cidr.to_string(),
        "hostnameOverride": scope.host.name,
        "mode": "iptables",
    });
    for (flag, text) in scope.config.extra_args(Component::KubeProxy) {
        let Some((field, kind)) = field_of(flag) else { continue };
        let plain = || Value::String(text.to_string());
        let value = match kind {
            Kind::Text => plain(),
            Kind::Number | Kind::Boolean => serde_json::from_str(text).unwrap_or_else(|_| plain()),
            Kind::List => json!(text.split(',').map(str::trim).collect::<Vec<_>>()),
            Kind::Switches => switches(text),
        };
        match field.split_once('.') {
            Some((outer, inner)) => file[outer][inner] = value,
            None => file[field] = value,
        }
    }
    yaml::write(&file)
}

fn switches(text: &str) -> Value {
    let switch = |word: &str| {
        let (name, value) = word.split_once('=')?;
        let value = value.trim();
        Some((name.trim().to_string(), value.parse().map_or_else(|_| value.into(), Value::Bool)))
    };
    Value::Object(text.split(',').filter_map(switch).collect())
}
