//! etcd. How a member finds the others for the first time is in its environment file, which
//! is written once: these flags stay the same for the whole life of a member.

use super::{Flag, client_url, flag, paths, peer_url, text};

pub(super) const TABLE: &[Flag] = &[
    flag("advertise-client-urls", |scope| Some(client_url(scope.host))),
    flag("cert-file", |_| Some(paths::etcd_pki("server.crt"))),
    flag("client-cert-auth", |_| text("true")),
    flag("data-dir", |_| text(paths::ETCD_DATA)),
    flag("initial-advertise-peer-urls", |scope| Some(peer_url(scope.host))),
    flag("key-file", |_| Some(paths::etcd_pki("server.key"))),
    flag("listen-client-urls", |scope| Some(format!("https://127.0.0.1:2379,{}", client_url(scope.host)))),
    flag("listen-metrics-urls", |_| text("http://127.0.0.1:2381")),
    flag("listen-peer-urls", |scope| Some(peer_url(scope.host))),
    flag("name", |scope| Some(scope.host.name.clone())),
    flag("peer-cert-file", |_| Some(paths::etcd_pki("peer.crt"))),
    flag("peer-client-cert-auth", |_| text("true")),
    flag("peer-key-file", |_| Some(paths::etcd_pki("peer.key"))),
    flag("peer-trusted-ca-file", |_| Some(paths::etcd_pki("ca.crt"))),
    flag("snapshot-count", |_| text("10000")),
    flag("trusted-ca-file", |_| Some(paths::etcd_pki("ca.crt"))),
];
