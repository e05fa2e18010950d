//! Where the files of a cluster are on a node. No other module spells these out. What is below the installer's own is in [`crate::store`], those of
//! container runtimes in [`crate::runtimes`].

use std::path::{Path, PathBuf};

/// The installer's own folder.
pub const ROOT: &str = "/var/lib/eggo";
pub const KUBERNETES: &str = "/etc/kubernetes";
pub const PKI: &str = "/etc/kubernetes/pki";
pub const ENCRYPTION: &str = "/etc/kubernetes/encryption-config.yaml";
pub const AUDIT_POLICY: &str = "/etc/kubernetes/audit-policy.yaml";
pub const AUDIT_LOG: &str = "/var/log/kubernetes/audit/audit.log";
pub const CONTROLLER_MANAGER: &str = "/etc/kubernetes/controller-manager.conf";
pub const SCHEDULER: &str = "/etc/kubernetes/scheduler.conf";
/// Earlier versions let kubelets join with a token in it.
pub const KUBELET_BOOTSTRAP: &str = "/etc/kubernetes/kubelet-bootstrap.kubeconfig";
pub const KUBELET: &str = "/etc/kubernetes/kubelet.kubeconfig";
/// The kubelet's own certificates with their keys.
pub const KUBELET_PKI: &str = "/var/lib/kubelet/pki";
/// A link to the one by which it talks to the API; it renews it itself.
pub const KUBELET_CLIENT: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";
pub const KUBELET_CONFIG: &str = "/etc/kubernetes/kubelet_config.yaml";
pub const KUBE_PROXY: &str = "/etc/kubernetes/kube-proxy.conf";
pub const KUBE_PROXY_CONFIG: &str = "/etc/kubernetes/kube-proxy-config.yaml";
/// What lets a node itself reach services.
pub const SERVICE_ROUTE: &str = "/etc/kubernetes/service-route.sh";
pub const NGINX: &str = "/etc/kubernetes/kube-nginx.conf";
pub const ETCD: &str = "/etc/etcd";
/// The certificates and keys that etcd reads as its own user; in the folder of the others all belongs to root.
pub const ETCD_PKI: &str = "/etc/etcd/pki";
/// The user and the group that etcd runs as.
pub const ETCD_USER: &str = "etcd";
pub const ETCD_OWNER: &str = "etcd:etcd";
pub const ETCD_CONFIG: &str = "/etc/etcd/etcd.conf";
pub const ETCD_DATA: &str = "/var/lib/etcd/default.etcd";
pub const COREDNS: &str = "/etc/kubernetes/coredns.conf";
pub const COREFILE: &str = "/etc/dns/Corefile";
/// kubectl's, while it runs, and what it remembers.
pub const KUBECTL: &str = "/run/eggo";
/// Units that an administrator adds go here; they come before a package's own of the same name,
/// whose file stays as the package manager knows it.
pub const UNITS: &str = "/etc/systemd/system";
pub const SYSCTL_KUBELET: &str = "/etc/sysctl.d/90-eggo-kubelet.conf";

/// `/etc/kubernetes/pki/NAME`
pub fn pki(name: &str) -> String {
    format!("{PKI}/{name}")
}

pub fn etcd_pki(name: &str) -> String {
    format!("{ETCD_PKI}/{name}")
}

pub fn unit(name: &str) -> String {
    format!("{UNITS}/{name}.service")
}

/// The one way to write a path: without `//`, `/./` and a slash at the end.
pub fn plain(path: &str) -> String {
    Path::new(path).components().collect::<PathBuf>().to_string_lossy().into_owned()
}
