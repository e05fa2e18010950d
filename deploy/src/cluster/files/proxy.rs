//! kube-proxy's configuration file.
//!
//! Once it is given a file, kube-proxy ignores nearly all of its flags. So the flags that
//! deploy.yaml adds for it become fields.

use crate::cluster::flags::Scope;
use crate::cluster::{paths, yaml};
use crate::config::Component;
use crate::config::proxy::{Kind, field_of};
use serde_json::{Value, json};

/// Lets the node itself reach services in a network without a default route.
pub const SERVICE_ROUTE: &str = include_str!("service_route.sh");

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

#[cfg(test)]
mod tests {
    use super::SERVICE_ROUTE;
    use crate::remote::sandbox::Sandbox;
    use crate::undo;

    const NETWORK: &str = "\
set -eu
ip link set lo up
ip link add v0 type veth peer name v1
ip addr add 192.168.7.2/24 dev v0
ip link set v0 up
ip link set v1 up
# As kube-proxy does for a service of one pod.
iptables -t nat -A OUTPUT -d 10.32.0.1 -p tcp --dport 443 -j DNAT --to 192.168.7.2:6443
ip route add 10.33.0.0/16 dev lo
python3 ask.py
for time in 1 2; do sh route.sh 10.32.0.1 10.32.0.0/16 192.168.7.2 235; done
python3 ask.py
sh -eu undo.sh
ip route | grep -v v0
";

    /// What serves is there before anything asks.
    const ASK: &str = "\
import socket
server = socket.create_server(('192.168.7.2', 6443))
try:
    client = socket.create_connection(('10.32.0.1', 443), 5)
    print('from', server.accept()[1][0])
except OSError as error:
    print(error.strerror)
";

    #[test]
    fn a_node_without_a_default_route_reaches_services() {
        let sandbox = Sandbox::new();
        let can = "unshare -n true && command -v ip && command -v iptables && command -v python3";
        if !sandbox.run(can).done {
            println!("skipped: needs root, ip, iptables and python3");
            return;
        }
        sandbox.write("network.sh", NETWORK);
        sandbox.write("ask.py", ASK);
        sandbox.write("route.sh", SERVICE_ROUTE);
        let undo = ["10.32.0.0/16", "10.33.0.0/16"].map(|network| ["remove_service_route", network]);
        let script = undo.into_iter().fold(undo::library(), |script, words| script.then(words));
        sandbox.write("undo.sh", &script.to_string());
        let said = sandbox.does("unshare -n sh network.sh");
        let said: Vec<&str> = said.lines().map(str::trim_end).collect();
        assert_eq!(said, ["Network is unreachable", "from 192.168.7.2", "10.33.0.0/16 dev lo scope link"]);
    }
}
