//! The Kubernetes that the lab builds is a working one: its API server takes objects, those with maps in them too.

use std::path::{Path, PathBuf};
use std::process::Command;

use eggo_tests::lab::{self, Host, Kind, Lab};

const OBJECTS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web, tier: front}}
data: {colour: blue, size: "3"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {note: "a map, as every object has"}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "busybox:1.35", resources: {limits: {memory: 64Mi}}}]
"#;

#[test]
fn the_built_apiserver_takes_objects() {
    let Some(lab) = Lab::take(&[("a", Kind::DebAmd64)]) else { return };
    let versions: Vec<_> = ["1.20.2", "1.36.3"]
        .into_iter()
        .filter_map(|version| Some((version, lab::kubernetes(version, "amd64")?)))
        .collect();
    if versions.is_empty() {
        return;
    }
    lab.upstream(); // it fetches Debian's etcd, to make an RPM of it
    let host = lab.host("a");
    send(host, &etcd());
    send_account_key(host);
    for (version, programs) in &versions {
        send(host, &programs.join("kube-apiserver"));
        send(host, &programs.join("kubectl"));
        let said = host.exec("kube-apiserver --version");
        assert_eq!(said, format!("Kubernetes v{version}\n"));
        start_control_plane(host, version);
        host.write("/root/objects.yaml", OBJECTS.as_bytes());
        host.exec("kubectl apply -f /root/objects.yaml");
        let colour = host.exec("kubectl get configmap settings -o jsonpath={.data.colour}");
        assert_eq!(colour, "blue", "Kubernetes {version}");
        let label = host.exec("kubectl get deploy web -o jsonpath={.spec.selector.matchLabels.app}");
        assert_eq!(label, "web", "Kubernetes {version}");
        host.exec("systemctl stop apiserver etcd");
    }
}

#[test]
fn the_built_programs_run_on_arm64() {
    let Some(programs) = lab::kubernetes("1.20.2", "arm64") else {
        return;
    };
    let Some(lab) = Lab::take(&[("arm", Kind::DebArm64)]) else {
        return;
    };
    let host = lab.host("arm");
    for program in ["kubelet", "kube-proxy"] {
        send(host, &programs.join(program));
        let said = host.exec(&format!("{program} --version"));
        assert_eq!(said, "Kubernetes v1.20.2\n");
    }
}

fn etcd() -> PathBuf {
    let debs = lab::cache().join("upstream/debs/amd64");
    let package = std::fs::read_dir(debs)
        .expect("the upstream keeps its packages")
        .flatten()
        .find(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with("etcd-server_")
        })
        .expect("etcd is among them");
    let folder = lab::cache().join("upstream/etcd");
    let unpacked = Command::new("dpkg").arg("-x").args([&package.path(), &folder]).status();
    assert!(unpacked.is_ok_and(|status| status.success()));
    folder.join("usr/bin/etcd")
}

fn send(host: &Host, program: &Path) {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let content = std::fs::read(program).expect("what is built can be read");
    host.write(&format!("/usr/local/bin/{name}.new"), &content);
    host.exec(&format!(
        "chmod +x /usr/local/bin/{name}.new && mv /usr/local/bin/{name}.new /usr/local/bin/{name}"
    ));
}

fn send_account_key(host: &Host) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let key = folder.path().join("sa.key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f"])
        .arg(&key)
        .status();
    assert!(made.is_ok_and(|status| status.success()));
    let content = std::fs::read(&key).expect("ssh-keygen wrote it");
    host.write("/etc/lab/sa.key", &content);
    host.write("/etc/lab/tokens", b"secret,admin,1,\"system:masters\"\n");
    let config = "{apiVersion: v1, kind: Config, current-context: lab,
  clusters: [{name: lab, cluster: {server: 'https://127.0.0.1:6443', insecure-skip-tls-verify: true}}],
  users: [{name: admin, user: {token: secret}}],
  contexts: [{name: lab, context: {cluster: lab, user: admin}}]}";
    host.write("/root/.kube/config", config.as_bytes());
}

fn start_control_plane(host: &Host, version: &str) {
    let data = format!("/var/lib/etcd-{version}");
    host.exec(&format!(
        "set -e
         systemd-run --quiet --unit=etcd --service-type=notify \
           etcd --data-dir={data} --unsafe-no-fsync
         systemd-run --quiet --unit=apiserver --service-type=notify --property=TimeoutStartSec=180 \
           kube-apiserver --etcd-servers=http://127.0.0.1:2379 --cert-dir=/var/lib/apiserver-{version} \
           --token-auth-file=/etc/lab/tokens --authorization-mode=RBAC --service-cluster-ip-range=10.96.0.0/16 \
           --service-account-key-file=/etc/lab/sa.key --service-account-signing-key-file=/etc/lab/sa.key \
           --service-account-issuer=https://kubernetes.default.svc
         timeout 120 sh -c 'until kubectl get --raw /readyz >/dev/null 2>&1; do sleep 0.5; done'"
    ));
}
