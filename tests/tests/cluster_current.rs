//! A current Kubernetes with containerd and DNS as pods; where flannel is built, with flannel from an addon whose network
//! becomes deploy.yaml's.

use eggo_tests::lab::{Kind, Lab};
use eggo_tests::site::{CURRENT, Place, Site, built, succeed};

#[test]
fn a_current_kubernetes_with_flannel() {
    let Some(lab) = Lab::take(&["m", "w", "x"].map(|name| (name, Kind::DebAmd64))) else { return };
    let Some(mut site) = Site::new(lab, "current", CURRENT, "debian") else { return };
    let registry = site.lab.upstream().registry;
    let flannel_is_built = |(name, version)| built(name, version, &["amd64"]).is_some();
    site.bridge = ![("flanneld", "0.26.7"), ("flannel", "0.9.1")].into_iter().all(flannel_is_built);
    site.images = vec![format!("{registry}/coredns/coredns:{}", CURRENT.coredns)];
    let mut more = format!("service: {{dns: {{corednstype: pod, imageversion: {}}}}}\n", CURRENT.coredns);
    if !site.bridge {
        site.addons = vec![("flannel.yaml", flannel(&registry))];
        more.push_str("network: {podcidr: 10.99.0.0/16, plugin: flannel}\n");
    }
    let pods_network = if site.bridge { "10.244." } else { "10.99." };
    let bundle = site.build();
    let places = [
        Place { host: "m", lists: &["masters"] },
        Place { host: "w", lists: &["workers"] },
        Place { host: "x", lists: &["workers"] },
    ];
    site.describe("three-nodes", &places, &more);
    succeed(site.deploy(&bundle));

    let nodes = site.kubectl("m", "get nodes --no-headers");
    assert_eq!(nodes.matches(" Ready ").count(), 2, "{nodes}");
    assert_eq!(nodes.matches(CURRENT.kubernetes).count(), 2, "{nodes}");
    let pods = site.kubectl("m", "get pods -A -o wide --no-headers");
    assert!(pods.lines().all(|line| line.contains(" Running ")), "{pods}");
    let web = site.kubectl("m", "get pods -l app=web -o jsonpath='{.items[*].status.podIP}'");
    assert!(web.split_whitespace().all(|ip| ip.starts_with(pods_network)), "{web}");

    // Across nodes, and by name.
    let pod = site.kubectl("m", "get pods -l app=web --field-selector spec.nodeName=w -o name");
    let inside = |words: &str| site.kubectl("m", &format!("exec {} -- {words}", pod.trim()));
    for ip in web.split_whitespace() {
        assert_eq!(inside(&format!("wget -qO- http://{ip}:8080/")).trim(), "x86_64");
    }
    let service = site.kubectl("m", "get svc web -o jsonpath='{.spec.clusterIP}'");
    assert!(inside("nslookup web.default.svc.cluster.local").contains(service.trim()));
    assert_eq!(inside(&format!("wget -qO- http://{}/", service.trim())).trim(), "x86_64");

    let again = succeed(site.deploy(&bundle));
    assert!(again.contains("nothing to do"), "{again}");
    succeed(site.install(&["status"]));
}

/// flannel by routes between hosts, with a network that is not the cluster's: the installer sets it.
fn flannel(registry: &str) -> String {
    format!(
        r#"apiVersion: v1
kind: Namespace
metadata: {{name: kube-flannel}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: flannel, namespace: kube-flannel}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: flannel}}
rules:
- {{apiGroups: [""], resources: [pods], verbs: [get]}}
- {{apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}}
- {{apiGroups: [""], resources: [nodes/status], verbs: [patch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: flannel}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: flannel}}
subjects: [{{kind: ServiceAccount, name: flannel, namespace: kube-flannel}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: flannel, namespace: kube-flannel}}
data:
  cni-conf.json: |
    {{"name": "cbr0", "cniVersion": "0.3.1", "plugins": [
     {{"type": "flannel", "delegate": {{"hairpinMode": true, "isDefaultGateway": true}}}},
     {{"type": "portmap", "capabilities": {{"portMappings": true}}}}]}}
  net-conf.json: |
    {{"Network": "172.31.0.0/16", "Backend": {{"Type": "host-gw"}}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: flannel, namespace: kube-flannel}}
spec:
  selector: {{matchLabels: {{app: flannel}}}}
  template:
    metadata: {{labels: {{app: flannel}}}}
    spec:
      hostNetwork: true
      priorityClassName: system-node-critical
      serviceAccountName: flannel
      terminationGracePeriodSeconds: 1
      tolerations: [{{operator: Exists}}]
      initContainers:
      - name: plugin
        image: {registry}/flannel/flannel-cni-plugin:v0.9.1
        command: [cp, /flannel, /plugins/flannel]
        volumeMounts: [{{name: plugins, mountPath: /plugins}}]
      - name: configuration
        image: {registry}/flannel/flannel:v0.26.7
        command: [cp, /configuration/cni-conf.json, /net.d/10-flannel.conflist]
        volumeMounts: [{{name: net-d, mountPath: /net.d}}, {{name: configuration, mountPath: /configuration}}]
      containers:
      - name: flannel
        image: {registry}/flannel/flannel:v0.26.7
        args: [--kube-subnet-mgr, --iptables-forward-rules=false]
        env:
        - {{name: POD_NAME, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
        - {{name: POD_NAMESPACE, valueFrom: {{fieldRef: {{fieldPath: metadata.namespace}}}}}}
        securityContext: {{capabilities: {{add: [NET_ADMIN, NET_RAW]}}}}
        volumeMounts:
        - {{name: run, mountPath: /run/flannel}}
        - {{name: configuration, mountPath: /etc/kube-flannel}}
      volumes:
      - {{name: run, hostPath: {{path: /run/flannel}}}}
      - {{name: plugins, hostPath: {{path: /opt/cni/bin}}}}
      - {{name: net-d, hostPath: {{path: /etc/cni/net.d}}}}
      - {{name: configuration, configMap: {{name: flannel}}}}
"#
    )
}
