//! The content of every file that a component reads. Pure: config and facts in, text out.

pub mod addons;
pub mod control_plane;
pub mod coredns;
pub mod etcd;
pub mod kubeconfig;
pub mod kubelet;
pub mod nginx;
pub mod proxy;
pub mod rights;
pub mod runtime;
pub mod unit;
