//! kube-apiserver.

use super::{Flag, etcd_endpoints, flag, paths, text, until};
use crate::config::defaults;
use std::time::Duration;

pub(super) const TABLE: &[Flag] = &[
    flag("advertise-address", |scope| Some(scope.host.ip.to_string())),
    flag("allow-privileged", |_| text("true")),
    flag("anonymous-auth", |_| text("false")),
    flag("audit-log-maxage", |_| text("30")),
    flag("audit-log-maxbackup", |_| text("10")),
    flag("audit-log-maxsize", |_| text("100")),
    flag("audit-log-path", |_| text(paths::AUDIT_LOG)),
    flag("audit-policy-file", |_| text(paths::AUDIT_POLICY)),
    flag("authorization-mode", |_| text("Node,RBAC")),
    flag("client-ca-file", |_| Some(paths::pki("ca.crt"))),
    flag("enable-admission-plugins", |_| text("NodeRestriction")),
    flag("enable-bootstrap-token-auth", |_| text("true")),
    flag("encryption-provider-config", |_| text(paths::ENCRYPTION)),
    flag("etcd-cafile", |_| Some(paths::pki("etcd/ca.crt"))),
    flag("etcd-certfile", |_| Some(paths::pki("apiserver-etcd-client.crt"))),
    flag("etcd-keyfile", |_| Some(paths::pki("apiserver-etcd-client.key"))),
    flag("etcd-servers", |scope| Some(etcd_endpoints(scope.config).join(","))),
    until(24, "insecure-port", |_| text("0")),
    flag("kubelet-certificate-authority", |_| Some(paths::pki("ca.crt"))),
    flag("kubelet-client-certificate", |_| Some(paths::pki("apiserver-kubelet-client.crt"))),
    flag("kubelet-client-key", |_| Some(paths::pki("apiserver-kubelet-client.key"))),
    flag("kubelet-preferred-address-types", |_| text("InternalIP,ExternalIP,Hostname")),
    flag("profiling", |_| text("false")),
    flag("proxy-client-cert-file", |_| Some(paths::pki("front-proxy-client.crt"))),
    flag("proxy-client-key-file", |_| Some(paths::pki("front-proxy-client.key"))),
    flag("request-timeout", |scope| Some(span(scope.config.api.timeout))),
    flag("requestheader-allowed-names", |_| text("front-proxy-client")),
    flag("requestheader-client-ca-file", |_| Some(paths::pki("front-proxy-ca.crt"))),
    flag("requestheader-extra-headers-prefix", |_| text("X-Remote-Extra-")),
    flag("requestheader-group-headers", |_| text("X-Remote-Group")),
    flag("requestheader-username-headers", |_| text("X-Remote-User")),
    flag("secure-port", |_| Some(defaults::API_PORT.to_string())),
    flag("service-account-issuer", |scope| {
        Some(format!("https://kubernetes.default.svc.{}", scope.config.dns.domain))
    }),
    flag("service-account-key-file", |_| Some(paths::pki("sa.pub"))),
    flag("service-account-lookup", |_| text("true")),
    flag("service-account-signing-key-file", |_| Some(paths::pki("sa.key"))),
    flag("service-cluster-ip-range", |scope| Some(scope.config.service.cidr.to_string())),
    flag("tls-cert-file", |_| Some(paths::pki("apiserver.crt"))),
    flag("tls-min-version", |_| text("VersionTLS12")),
    flag("tls-private-key-file", |_| Some(paths::pki("apiserver.key"))),
];

/// As Go reads it.
fn span(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}
