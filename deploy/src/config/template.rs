//! A first deploy.yaml, with comments, from a few words on the command line.

use super::defaults;
use crate::runtimes::RuntimeKind;
use eggo_bundles::Arch;
use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::str::FromStr;

/// What the file is made of. Empty lists get example addresses.
#[derive(Debug, Clone)]
pub struct Template {
    pub cluster_id: String,
    pub user: String,
    pub password: Option<String>,
    pub private_key: Option<String>,
    pub masters: Vec<HostWord>,
    pub workers: Vec<HostWord>,
    pub etcds: Vec<HostWord>,
    pub load_balancer: Option<HostWord>,
    pub runtime: RuntimeKind,
    pub pause_image: String,
    /// For hosts that do not say.
    pub arch: Arch,
}

/// A host in one word: `IP`, `NAME@IP`, `NAME@IP:ARCH`, `IP:ARCH:PORT`; IPv6 in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostWord {
    pub name: Option<String>,
    pub ip: IpAddr,
    pub arch: Option<Arch>,
    pub port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a host: write IP, NAME@IP or NAME@IP:ARCH, such as node1@192.168.7.1:arm64")]
pub struct BadHostWord(String);

impl FromStr for HostWord {
    type Err = BadHostWord;

    fn from_str(text: &str) -> Result<Self, BadHostWord> {
        let bad = || BadHostWord(text.to_string());
        let (name, rest) = match text.split_once('@') {
            Some((name, rest)) => (Some(name.to_string()), rest),
            None => (None, text),
        };
        if name.as_deref().is_some_and(|name| !super::address::is_subdomain(name)) {
            return Err(bad());
        }
        let (ip, words) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']').ok_or_else(bad)?,
            None if rest.parse::<IpAddr>().is_ok() => (rest, ""),
            None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        let mut host = Self { name, ip: ip.parse().map_err(|_| bad())?, arch: None, port: None };
        for word in words.split(':').skip(1) {
            match (word.parse::<Arch>(), word.parse::<std::num::NonZeroU16>()) {
                (Ok(arch), _) if host.arch.is_none() => host.arch = Some(arch),
                (_, Ok(port)) if host.port.is_none() => host.port = Some(port.into()),
                _ => return Err(bad()),
            }
        }
        if !words.is_empty() && !words.starts_with(':') {
            return Err(bad());
        }
        Ok(host)
    }
}

/// Hosts that were already written, so that one address keeps its name in every list.
struct Names<'a> {
    template: &'a Template,
    known: Vec<(IpAddr, String)>,
}

impl Names<'_> {
    fn line(&mut self, word: &HostWord, role: &str, number: usize) -> String {
        let Template { masters, workers, etcds, load_balancer, arch, .. } = self.template;
        let all = || masters.iter().chain(workers).chain(etcds).chain(load_balancer);
        let same = || all().filter(|other| other.ip == word.ip);
        let given = same().find_map(|other| other.name.clone());
        let known = self.known.iter().find(|(ip, _)| *ip == word.ip).map(|(_, name)| name.clone());
        let name = given.or(known).unwrap_or_else(|| {
            let taken = |name: &str| {
                all().any(|other| other.name.as_deref() == Some(name))
                    || self.known.iter().any(|(_, n)| n == name)
            };
            let candidates = (number..).map(|n| format!("{role}{n}"));
            candidates.into_iter().find(|name| !taken(name)).unwrap_or_else(|| role.to_string())
        });
        if !self.known.iter().any(|(ip, _)| *ip == word.ip) {
            self.known.push((word.ip, name.clone()));
        }
        let arch = same().find_map(|other| other.arch).unwrap_or(*arch);
        let port = same().find_map(|other| other.port).unwrap_or(defaults::SSH_PORT);
        format!("{{name: {name}, ip: {}, port: {port}, arch: {arch}", quoted_ip(word.ip))
    }

    fn list(&mut self, text: &mut String, key: &str, role: &str, hosts: &[HostWord]) {
        let _ = writeln!(text, "{key}:");
        for (i, word) in hosts.iter().enumerate() {
            let line = self.line(word, role, i + 1);
            let _ = writeln!(text, "- {line}}}");
        }
    }
}

/// A colon at the end of an address would read as a key.
fn quoted_ip(ip: IpAddr) -> String {
    if ip.is_ipv6() { format!("\"{ip}\"") } else { ip.to_string() }
}

impl Template {
    /// The workers, and the masters that are not among them.
    fn with_masters(&self) -> Vec<HostWord> {
        let absent =
            self.masters.iter().filter(|master| self.workers.iter().all(|worker| worker.ip != master.ip));
        self.workers.iter().chain(absent).cloned().collect()
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let example = |text: &str| vec![text.parse().expect("an example")];
        let mut template = self.clone();
        let note = match (self.masters.is_empty(), self.workers.is_empty()) {
            (false, false) => "",
            _ => "# The addresses below are examples: put in your own.\n",
        };
        if template.masters.is_empty() {
            template.masters = example("192.168.0.2");
        }
        if template.workers.is_empty() {
            template.workers = example("192.168.0.3");
        }
        template.workers = template.with_masters();
        let mut names = Names { template: &template, known: Vec::new() };
        let mut hosts = String::new();
        names.list(&mut hosts, "masters", "master", &template.masters);
        hosts.push_str(
            "# The nodes with a kubelet. Masters are listed here, too: without it their API servers cannot reach webhooks and\n\
             # other APIs that run in pods. Where there are other workers, ordinary pods stay away from masters (a taint).\n",
        );
        names.list(&mut hosts, "workers", "worker", &template.workers);
        hosts.push_str("# The etcd members; without this list every master is one. Use an odd number.\n");
        if template.etcds.is_empty() {
            hosts.push_str("# etcds:\n# - {name: etcd1, ip: 192.168.0.4, port: 22, arch: amd64}\n");
        } else {
            names.list(&mut hosts, "etcds", "etcd", &template.etcds);
        }
        hosts.push_str("# A load balancer (nginx) before several masters.\n");
        match &template.load_balancer {
            None => hosts.push_str(
                "# loadbalance: {name: loadbalance, ip: 192.168.0.5, port: 22, arch: amd64, bind-port: 8443}\n",
            ),
            Some(word) => {
                let line = names.line(word, "loadbalance", 1);
                let _ = writeln!(hosts, "loadbalance: {line}, bind-port: {}}}", defaults::BIND_PORT);
            }
        }
        let password = match &self.password {
            Some(password) => {
                format!(
                    "# In plain text: keep this file to yourself, or use a key.\npassword: {}\n",
                    quoted(password)
                )
            }
            None => "# Not needed with a key or an agent; in plain text, so rather not.\n# password: \"\"\n"
                .to_string(),
        };
        let key = match &self.private_key {
            Some(path) => format!("private-key-path: {}\n", quoted(path)),
            None => "# private-key-path: ~/.ssh/id_ed25519\n".to_string(),
        };
        let (cluster, user, runtime) = (quoted(&self.cluster_id), quoted(&self.user), self.runtime);
        write!(
            f,
            "# What eggo-install deploys. Check it with: eggo-install validate -f FILE\n\
             {note}\
             # The name of the cluster.\n\
             cluster-id: {cluster}\n\
             \n\
             # Who logs in on every node: root, or a user with sudo.\n\
             username: {user}\n\
             {password}{key}\
             # Any node may have its own username, private-key-path and host-key (the one key that it may show).\n\
             # A host that the connections go through; keys and agents only, no password is sent to it.\n\
             # jump: {{address: bastion.example.org, port: 22, username: ops}}\n\
             \n\
             # The control plane. arch: amd64 (= x86_64) or arm64 (= aarch64).\n\
             {hosts}\
             \n\
             # The networks of services and of pods: apart from each other and from the nodes.\n\
             service:\n  cidr: {service}\n  dnsaddr: 10.32.0.10\n  gateway: 10.32.0.1\n\
             network:\n  podcidr: {pods}\n  # plugin: calico          # an addon of this name must come along; it is adapted to podcidr\n\
             \n\
             # Where clients find the API; without it the load balancer, else the first master.\n\
             # apiserver-endpoint: api.example.org:6443\n\
             # apiserver-cert-sans: {{dnsnames: [], ips: []}}\n\
             \n\
             # {known}.\n\
             runtime: {runtime}\n\
             pause-image: {pause}\n\
             # registry-mirrors: []\n\
             # insecure-registries: []\n\
             \n\
             # More flags for etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, kubelet.\n\
             # config-extra-args:\n\
             # - name: kubelet\n\
             #   extra-args: {{\"--max-pods\": 200}}\n\
             \n\
             # Ports to open beyond those of Kubernetes itself, by role.\n\
             # open-ports:\n\
             #   worker: [{{port: 179, protocol: tcp}}]\n\
             \n\
             # Everything comes from the bundle, by the roles of its items. To choose, list names by section\n\
             # instead: etcd, kubernetes-master, kubernetes-worker, container, network, image, dns, loadbalance,\n\
             # addition.\n\
             install:\n  package-source: {{type: bundle}}\n",
            known = RuntimeKind::names(),
            service = defaults::SERVICE_CIDR,
            pods = defaults::POD_CIDR,
            pause = quoted(&self.pause_image),
        )
    }
}

/// A YAML scalar that always reads back as this text. JSON strings are YAML's double-quoted ones.
fn quoted(text: &str) -> String {
    // (No text that ends with a colon, which would be a key.)
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '~' | ':');
    let word =
        text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(plain) && !text.ends_with(':');
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text);
    if word && !reserved { text.to_string() } else { serde_json::Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use eggo_bundles::Role;
    use proptest::prelude::*;

    fn template() -> Template {
        Template {
            cluster_id: defaults::CLUSTER_ID.into(),
            user: defaults::USER.into(),
            password: None,
            private_key: None,
            masters: Vec::new(),
            workers: Vec::new(),
            etcds: Vec::new(),
            load_balancer: None,
            runtime: "containerd".parse().unwrap(),
            pause_image: defaults::PAUSE_IMAGE.into(),
            arch: Arch::Amd64,
        }
    }

    #[test]
    fn host_words() {
        let host: HostWord = "w1@10.0.0.1:aarch64:2222".parse().unwrap();
        assert_eq!(host.name.as_deref(), Some("w1"));
        assert_eq!((host.arch, host.port), (Some(Arch::Arm64), Some(2222)));
        let host: HostWord = "[fd00::1]:arm64".parse().unwrap();
        assert_eq!(host.ip, "fd00::1".parse::<IpAddr>().unwrap());
        assert_eq!("fd00::1".parse::<HostWord>().unwrap().arch, None);
        for bad in [
            "",
            "x",
            "a@",
            "A@10.0.0.1",
            "10.0.0.1:mips",
            "10.0.0.1:",
            "[fd00::1",
            "[fd00::1]x",
            "10.0.0.1:0",
        ] {
            assert!(bad.parse::<HostWord>().is_err(), "{bad}");
        }
    }

    #[test]
    fn one_address_keeps_its_name_in_every_list() {
        let word = |text: &str| text.parse::<HostWord>().unwrap();
        let text = Template {
            masters: vec![word("192.168.7.1"), word("worker1@192.168.7.2")],
            workers: vec![word("first@192.168.7.1:arm64"), word("192.168.7.3")],
            load_balancer: Some(word("192.168.7.2")),
            ..template()
        }
        .to_string();
        let config =
            parse("t", text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}\n{text}")).config;
        let names: Vec<&str> = config.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["first", "worker1", "worker2"]);
        assert!(config.hosts.iter().all(|host| host.has(Role::Worker)), "every master has a kubelet");
        assert_eq!(config.hosts[0].arch, Arch::Arm64);
        assert!(config.hosts[1].has(Role::Loadbalance) && config.hosts[1].has(Role::Master));
    }

    fn host() -> impl Strategy<Value = HostWord> {
        let name = proptest::option::of("[a-z][a-z0-9]{0,8}");
        // A name belongs to one address, and the other way round: that much the user must know.
        (name, 1..40u8, proptest::option::of(prop_oneof![Just(Arch::Amd64), Just(Arch::Arm64)])).prop_map(
            |(name, last, arch)| HostWord {
                name: name.map(|name| format!("{name}-{last}")),
                ip: [192, 168, 7, last].into(),
                arch,
                port: None,
            },
        )
    }

    fn hosts() -> impl Strategy<Value = Vec<HostWord>> {
        proptest::collection::vec(host(), 0..6).prop_map(|mut hosts| {
            let mut seen = std::collections::HashSet::new();
            hosts.retain(|host| seen.insert(host.ip));
            hosts
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn whatever_it_writes_is_accepted(
            masters in hosts(), workers in hosts(), etcds in hosts(),
            load_balancer in proptest::option::of(host()), password in proptest::option::of("\\PC{1,12}"),
        ) {
            let template = Template { masters, workers, etcds, load_balancer, password, ..template() };
            let text = template.to_string();
            let loaded = parse("t", text.as_bytes());
            prop_assert!(loaded.is_ok(), "{}\n{text}", loaded.unwrap_err());
            let loaded = loaded.unwrap();
            prop_assert!(!loaded.warnings.to_string().contains("webhooks"), "{}", loaded.warnings);
            let config = loaded.config;
            prop_assert_eq!(config.login.password.as_ref().map(|p| p.reveal().to_string()), template.password);
        }
    }
}
