//! kube-controller-manager.

use super::{Flag, flag, paths, text, until};

pub(super) const TABLE: &[Flag] = &[
    flag("allocate-node-cidrs", |_| text("true")),
    flag("authentication-kubeconfig", |_| text(paths::CONTROLLER_MANAGER)),
    flag("authorization-kubeconfig", |_| text(paths::CONTROLLER_MANAGER)),
    flag("bind-address", |_| text("127.0.0.1")),
    flag("client-ca-file", |_| Some(paths::pki("ca.crt"))),
    flag("cluster-cidr", |scope| Some(scope.config.network.pod_cidr.to_string())),
    flag("cluster-name", |scope| Some(scope.config.cluster_id.clone())),
    flag("cluster-signing-cert-file", |_| Some(paths::pki("ca.crt"))),
    flag("cluster-signing-key-file", |_| Some(paths::pki("ca.key"))),
    flag("controllers", |_| text("*,bootstrapsigner,tokencleaner")),
    flag("kubeconfig", |_| text(paths::CONTROLLER_MANAGER)),
    flag("leader-elect", |_| text("true")),
    until(24, "port", |_| text("0")),
    flag("profiling", |_| text("false")),
    flag("requestheader-client-ca-file", |_| Some(paths::pki("front-proxy-ca.crt"))),
    flag("root-ca-file", |_| Some(paths::pki("ca.crt"))),
    flag("service-account-private-key-file", |_| Some(paths::pki("sa.key"))),
    flag("service-cluster-ip-range", |scope| Some(scope.config.service.cidr.to_string())),
    flag("terminated-pod-gc-threshold", |_| text("1000")),
    flag("use-service-account-credentials", |_| text("true")),
];
