//! The load balancer: nginx passing TCP on to the apiservers.

use crate::cluster::flags::bracketed;
use crate::config::{Config, defaults::API_PORT};
use crate::facts::Facts;
use eggo_bundles::Role;

/// A backend that does not accept a connection is left alone for a while; the connection
/// goes to the next one at once.
pub fn config(config: &Config, port: u16, facts: &Facts) -> String {
    let mut text = String::from("# Written by eggo-install.\n");
    if let Some(module) = &facts.stream_module {
        text.push_str(&format!("load_module {module};\n"));
    }
    text.push_str(
        "worker_processes auto;\nerror_log stderr warn;\npid /run/kube-nginx.pid;\n\
         events {\n    worker_connections 8192;\n}\n\
         stream {\n    upstream kube-apiserver {\n        least_conn;\n",
    );
    for master in config.with_role(Role::Master) {
        let address = bracketed(master);
        text.push_str(&format!("        server {address}:{API_PORT} max_fails=2 fail_timeout=5s;\n"));
    }
    text.push_str(&format!(
        "    }}\n    server {{\n        listen {port};\n        proxy_pass kube-apiserver;\n        \
         proxy_connect_timeout 2s;\n        proxy_timeout 1h;\n        proxy_socket_keepalive on;\n    }}\n}}\n"
    ));
    text
}

/// The unit. Not the package's, which would serve web pages besides.
pub fn unit(program: &str) -> String {
    format!(
        "# Written by eggo-install.\n[Unit]\nDescription=Load balancer of the Kubernetes API\n\
         Wants=network-online.target\nAfter=network-online.target\n\n[Service]\nType=simple\n\
         ExecStartPre={program} -t -q -c {conf}\nExecStart={program} -c {conf} -g 'daemon off;'\n\
         ExecReload=/bin/kill -HUP $MAINPID\nKillSignal=SIGQUIT\nTimeoutStopSec=5\nRestart=always\nRestartSec=2\n\
         LimitNOFILE=65536\n\n[Install]\nWantedBy=multi-user.target\n",
        conf = crate::cluster::paths::NGINX,
    )
}
