//! What a key means when it is not there. The same values as eggo's.

use eggo_bundles::Arch;
use std::time::Duration;

pub const CLUSTER_ID: &str = "k8s-cluster";
pub const USER: &str = "root";
pub const SSH_PORT: u16 = 22;
pub const ARCH: Arch = Arch::Amd64;
pub const API_PORT: u16 = 6443;
pub const BIND_PORT: u16 = 8443;
pub const SERVICE_CIDR: &str = "10.32.0.0/16";
pub const POD_CIDR: &str = "10.244.0.0/16";
/// Counted within the service network.
pub const GATEWAY: u32 = 1;
pub const DNS: u32 = 10;
pub const DNS_DOMAIN: &str = "cluster.local";
pub const COREDNS_VERSION: &str = "1.8.4";
pub const COREDNS_REPLICAS: u32 = 2;
pub const API_TIMEOUT: Duration = Duration::from_secs(120);
pub const PAUSE_IMAGE: &str = "k8s.gcr.io/pause:3.2";
pub use crate::runtimes::CNI_BIN_DIR;
pub const ETCD_TOKEN: &str = "etcd-cluster";
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(30);
