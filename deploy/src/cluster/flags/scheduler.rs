//! kube-scheduler.

use super::{Flag, flag, paths, text, until};

pub(super) const TABLE: &[Flag] = &[
    flag("authentication-kubeconfig", |_| text(paths::SCHEDULER)),
    flag("authorization-kubeconfig", |_| text(paths::SCHEDULER)),
    flag("bind-address", |_| text("127.0.0.1")),
    flag("kubeconfig", |_| text(paths::SCHEDULER)),
    flag("leader-elect", |_| text("true")),
    until(24, "port", |_| text("0")),
    flag("profiling", |_| text("false")),
];
