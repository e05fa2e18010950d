//! Every key of deploy.yaml, once: the reference page and the schema for editors follow from
//! this table. Old spellings that are still read stand with the key they mean.

use eggo_yaml::{Key, Shape, key, required};

const PORT: Shape = Shape::Number { min: 1, max: 65535 };
const TEXTS: Shape = Shape::List(&Shape::Text);
const ARCHS: Shape = Shape::Words(&["amd64", "x86_64", "arm64", "aarch64"]);

const PRIVATE_KEY: &str = "private-key-path";
const HOST_KEY: Key = key(
    "host-key",
    Shape::Text,
    None,
    "The only key that it may show, as in its /etc/ssh/ssh_host_ed25519_key.pub: `ssh-ed25519 AAAA…`; otherwise \
     known_hosts decides",
);

const JUMP: &[Key] = &[
    required("address", Shape::Text, "Its name or address, as seen from this machine"),
    key("port", PORT, Some("22"), "The port that its sshd listens on"),
    key("username", Shape::Text, None, "Who logs in there; otherwise the `username` of all nodes")
        .or(&["user"]),
    key(
        PRIVATE_KEY,
        Shape::Text,
        None,
        "The private key for it; otherwise that of all nodes, an agent's or those in `~/.ssh`. Passwords are never sent \
         to a jump host",
    ),
    HOST_KEY,
];

const OWN_USER: Key =
    key("username", Shape::Text, None, "Who logs in on this node; otherwise the `username` of all nodes")
        .or(&["user"]);
const OWN_PRIVATE_KEY: Key =
    key(PRIVATE_KEY, Shape::Text, None, "The private key for this node; otherwise that of all nodes");
const OWN_JUMP: Key = key(
    "jump",
    Shape::Either(&[Shape::Boolean, Shape::Mapping(JUMP)]),
    None,
    "The jump host of this node; `false`: none, although the others have one",
);

const HOST: &[Key] = &[
    key(
        "name",
        Shape::Text,
        None,
        "The node's name in the cluster: RFC 1123, unique; else called after cluster and list: `k8s-cluster-master-0`",
    ),
    required("ip", Shape::Address, "Its address; the same one may be in several lists, with equal entries"),
    key("port", PORT, Some("22"), "Where its sshd listens"),
    key("arch", ARCHS, Some("amd64"), "Its architecture"),
    OWN_USER,
    OWN_PRIVATE_KEY,
    HOST_KEY,
    OWN_JUMP,
];

const LOAD_BALANCER: &[Key] = &[
    key("name", Shape::Text, None, "The node's name; else `k8s-cluster-loadbalance`"),
    required("ip", Shape::Address, "Its address"),
    key("port", PORT, Some("22"), "Where its sshd listens"),
    key("arch", ARCHS, Some("amd64"), "Its architecture"),
    OWN_USER,
    OWN_PRIVATE_KEY,
    HOST_KEY,
    OWN_JUMP,
    key("bind-port", PORT, Some("8443"), "Where it listens for clients of the API server"),
];

const HOSTS: Shape = Shape::List(&Shape::Mapping(HOST));

const ITEM: &[Key] = &[
    required("name", Shape::Text, "One name or several: `etcd,etcdctl` or `{etcd,etcdctl}`"),
    required(
        "type",
        Shape::Words(&["pkg", "repo", "bin", "binary", "file", "dir", "image", "yaml", "shell"]),
        "What it is: a package, a package of the node's own repositories, a program, a file, a folder, an image, \
         a manifest to apply, a script to run",
    ),
    key("dst", Shape::Text, None, "The folder on the node, for bin, file and dir; must be in the whitelist")
        .or(&["dstpath", "distpath"]),
    key(
        "schedule",
        Shape::Words(&["prejoin", "postjoin", "precleanup", "postcleanup"]),
        None,
        "When a script runs; required for `shell`",
    ),
    key("timeout", Shape::Duration, Some("30s"), "After how long a script is stopped")
        .or(&["TimeOut", "Timeout"]),
];

const ITEMS: Shape = Shape::List(&Shape::Mapping(ITEM));

const SOURCE: &[Key] = &[
    key(
        "type",
        Shape::Words(&["tar.gz", "bundle"]),
        Some("tar.gz"),
        "`bundle`: everything comes from the bundle on the command line, by its items' roles, and no lists are \
         needed. `tar.gz`: the lists below decide",
    ),
    key("dstpath", Shape::Text, None, "Not used: content goes to the node's store").or(&["dst", "distpath"]),
    key(
        "srcpath",
        Shape::Free(&Shape::Text),
        None,
        "Per arch, eggo's unsigned tarball, for an install without a bundle",
    ),
    key("armsrc", Shape::Text, None, "Generations 1 and 2: `srcpath.arm64`"),
    key("x86src", Shape::Text, None, "Generations 1 and 2: `srcpath.amd64`"),
];

const BY_ROLE: &[Key] = &[
    key("master", ITEMS, None, "For masters"),
    key("worker", ITEMS, None, "For workers").or(&["node"]),
    key("etcd", ITEMS, None, "For etcd members"),
    key("loadbalance", ITEMS, None, "For the load balancer"),
];

const INSTALL: &[Key] = &[
    key("package-source", Shape::Mapping(SOURCE), None, "Where the content comes from").or(&["package-src"]),
    key("kubernetes-master", ITEMS, None, "For masters; must not be empty"),
    key("kubernetes-worker", ITEMS, None, "For workers; must not be empty"),
    key("network", ITEMS, None, "CNI programs, for workers"),
    key("etcd", ITEMS, None, "For etcd members; must not be empty"),
    key("loadbalance", ITEMS, None, "For the load balancer; must not be empty if there is one"),
    key("container", ITEMS, None, "The runtime, for workers"),
    key("image", ITEMS, None, "Images, for workers: references, or names of archives"),
    key("dns", ITEMS, None, "coredns as a service, for masters"),
    key("addition", Shape::Mapping(BY_ROLE), None, "Anything else, by role"),
];

const PORTS: Shape = Shape::List(&Shape::Mapping(&[
    required("port", PORT, "The port"),
    key("protocol", Shape::Words(&["tcp", "udp", "TCP", "UDP"]), Some("tcp"), "Its protocol"),
]));

/// The keys at the top of the file.
pub const KEYS: &[Key] = &[
    key("cluster-id", Shape::Text, Some("k8s-cluster"), "The cluster's name, and that of its state folder"),
    key("username", Shape::Text, Some("root"), "Who logs in on every node: root, or a user with sudo"),
    key(
        "password",
        Shape::Text,
        None,
        "Its password; a key or an agent is safer. Never saved by the program",
    ),
    key(
        PRIVATE_KEY,
        Shape::Text,
        None,
        "Its private key, in any of OpenSSH's formats; without it and a password, those of an agent and in `~/.ssh`",
    ),
    key(
        "jump",
        Shape::Either(&[Shape::Boolean, Shape::Mapping(JUMP)]),
        None,
        "A host that the connections to all nodes go through, as with `ssh -J`; its host key is checked, too",
    ),
    required("masters", HOSTS, "The nodes of the control plane"),
    required("workers", HOSTS, "The nodes with a kubelet: those that run pods, and the masters, whose API servers reach webhooks and other APIs in pods only so (they are tainted, if there are other workers)").or(&["nodes"]),
    key("etcds", HOSTS, None, "The etcd members; empty: every master is one"),
    key("loadbalance", Shape::Mapping(LOAD_BALANCER), None, "A load balancer before the API servers")
        .or(&["loadbalancer"]),
    key("external-ca", Shape::Boolean, Some("false"), "Use a given CA in place of a new one"),
    key("external-ca-path", Shape::Text, None, "The folder with that CA"),
    key(
        "service",
        Shape::Mapping(&[
            key("cidr", Shape::Network, Some("10.32.0.0/16"), "The network of services"),
            key(
                "dnsaddr",
                Shape::Address,
                Some("10.32.0.10"),
                "The address of the DNS service; inside `cidr`",
            ),
            key(
                "gateway",
                Shape::Address,
                Some("10.32.0.1"),
                "The address of the API's service: Kubernetes takes the first of `cidr`, whatever is set here",
            ),
            key(
                "dns",
                Shape::Mapping(&[
                    key("corednstype", Shape::Words(&["binary", "pod"]), Some("binary"), "How coredns runs"),
                    key("imageversion", Shape::Text, Some("1.8.4"), "The version of its image, for `pod`"),
                    key(
                        "replicas",
                        Shape::Number { min: 1, max: 1000 },
                        Some("2"),
                        "How many of it, for `pod`",
                    ),
                ]),
                None,
                "The cluster's DNS",
            ),
        ]),
        None,
        "Services",
    ),
    key(
        "network",
        Shape::Mapping(&[
            key(
                "podcidr",
                Shape::Network,
                Some("10.244.0.0/16"),
                "The network of pods; apart from `service.cidr`",
            ),
            key(
                "plugin",
                Shape::Text,
                None,
                "Which addon provides the pods' network (calico, flannel…); the plan says so if none has this name",
            ),
            key("plugin-args", Shape::Free(&Shape::Text), None, "Its settings").or(&["pluginargs"]),
        ]),
        None,
        "Pods",
    ),
    key(
        "apiserver-endpoint",
        Shape::Text,
        None,
        "HOST:PORT that clients use; else the load balancer, else the first master",
    ),
    key(
        "apiserver-cert-sans",
        Shape::Mapping(&[
            key("dnsnames", TEXTS, None, "Domains"),
            key("ips", Shape::List(&Shape::Address), None, "Addresses"),
        ]),
        None,
        "More names for the API server's certificate",
    ),
    key(
        "apiserver-timeout",
        Shape::Duration,
        Some("120s"),
        "After how long the API server gives up on a request (`--request-timeout`)",
    ),
    key(
        "etcd-external",
        Shape::Either(&[
            Shape::Boolean,
            Shape::Mapping(&[
                required("endpoints", TEXTS, "`https://HOST:2379` of each member"),
                required("ca", Shape::Text, "The file of its CA"),
                required("cert", Shape::Text, "The file of the client's certificate"),
                required("key", Shape::Text, "The file of the client's key"),
            ]),
        ]),
        Some("false"),
        "An etcd that already exists",
    ),
    key("etcd-token", Shape::Text, Some("etcd-cluster"), "The token of the etcd cluster"),
    key("dns-vip", Shape::Address, None, "The same as `service.dnsaddr`"),
    key("dns-domain", Shape::Text, Some("cluster.local"), "The domain of services"),
    key("pause-image", Shape::Text, Some("k8s.gcr.io/pause:3.2"), "The image of every pod's first container"),
    key("network-plugin", Shape::Words(&["cni"]), Some("cni"), "Nothing else is known"),
    key(
        "cni-bin-dir",
        Shape::Text,
        Some("/opt/cni/bin"),
        "Where CNI programs are: one folder, or several separated by commas",
    ),
    key("runtime", Shape::Words(crate::runtimes::WORDS), Some("docker"), "The container runtime"),
    key("runtime-endpoint", Shape::Text, None, "Its socket: `unix:///PATH`; else its usual one"),
    key(
        "runtime-settings",
        Shape::Anything,
        None,
        "Your own settings, merged into its configuration: keys of daemon.json (docker, iSulad) or a string of TOML \
         (containerd)",
    ),
    key("registry-mirrors", TEXTS, None, "Mirrors of registries"),
    key("insecure-registries", TEXTS, None, "Registries without TLS"),
    key(
        "enable-kubelet-serving",
        Shape::Boolean,
        Some("false"),
        "Kubelets get serving certificates of the CA",
    ),
    key(
        "config-extra-args",
        Shape::List(&Shape::Mapping(&[
            required(
                "name",
                Shape::Words(&[
                    "etcd",
                    "kube-apiserver",
                    "kube-controller-manager",
                    "kube-scheduler",
                    "kube-proxy",
                    "kubelet",
                ]),
                "The component",
            ),
            key("extra-args", Shape::Free(&Shape::Text), None, "Flags and their values: `--v: 2`"),
        ])),
        None,
        "More flags for components",
    ),
    key(
        "open-ports",
        Shape::Mapping(&[
            key("master", PORTS, None, "On masters"),
            key("worker", PORTS, None, "On workers").or(&["node"]),
            key("etcd", PORTS, None, "On etcd members"),
            key("loadbalance", PORTS, None, "On the load balancer"),
        ]),
        None,
        "Ports to open beyond those of Kubernetes itself",
    ),
    key("install", Shape::Mapping(INSTALL), None, "What is installed, and from where"),
    key(
        "addons",
        Shape::List(&Shape::Mapping(&[
            key("type", Shape::Words(&["file"]), Some("file"), "Nothing else is known"),
            required("filename", Shape::Text, "The manifest's file").or(&["name"]),
        ])),
        None,
        "Generation 1: manifests to apply. Later: items of type `yaml` in `install.addition.master`",
    ),
    key("package-src", Shape::Mapping(SOURCE), None, "Generation 1: `install.package-source`")
        .or(&["package-source"]),
    key("packages", Shape::Mapping(BY_ROLE), None, "Generation 1: package lists by role").or(&["pacakges"]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::defaults;

    #[test]
    fn the_table_knows_the_defaults() {
        let schema = eggo_yaml::json_schema("deploy.yaml", KEYS);
        let default = |path: &str| schema.pointer(path).and_then(|key| key.get("default")).cloned();
        assert_eq!(default("/properties/cluster-id"), Some(defaults::CLUSTER_ID.into()));
        assert_eq!(default("/properties/pause-image"), Some(defaults::PAUSE_IMAGE.into()));
        assert_eq!(default("/properties/cni-bin-dir"), Some(defaults::CNI_BIN_DIR.into()));
        assert_eq!(default("/properties/service/properties/cidr"), Some(defaults::SERVICE_CIDR.into()));
        assert_eq!(default("/properties/network/properties/podcidr"), Some(defaults::POD_CIDR.into()));
        assert_eq!(default("/properties/loadbalance/properties/bind-port"), Some(defaults::BIND_PORT.into()));
        assert_eq!(default("/properties/dns-domain"), Some(defaults::DNS_DOMAIN.into()));
    }
}
