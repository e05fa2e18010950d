//! deploy.yaml of every generation, the files that people really have, and hostile ones.

use eggo_bundles::{Arch, Role};
use eggo_deploy::config::{self, Choice, Component, DnsKind, ItemKind, Section};
use eggo_errors::Report;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/deploy").join(name)
}

fn load(name: &str) -> config::Loaded {
    let bytes = std::fs::read(fixture(name)).unwrap();
    config::parse(name, &bytes).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A folder of third-party files beside the project; absent outside of its workplace.
fn data(name: &str) -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let root = std::env::var_os("EGGO_TEST_DATA").map_or(shared, PathBuf::from);
    let path = root.join(name);
    if !path.exists() {
        println!("skipped: no test data");
        return None;
    }
    Some(path)
}

/// The configuration as the state folder would keep it, for review.
fn kept(name: &str) -> String {
    let loaded = load(name);
    let text = serde_json::to_string_pretty(&loaded.config).unwrap();
    let back: config::Config = serde_json::from_str(&text).unwrap();
    let mut without = loaded.config;
    without.login.password = None;
    assert_eq!(back, without, "what is kept reads back, without the password");
    text
}

#[test]
fn the_first_generation_loads() {
    insta::assert_snapshot!("first", kept("first.yaml"));
    let config = load("first.yaml").config;
    assert_eq!(config.hosts.len(), 3);
    assert_eq!(config.hosts[0].roles, [Role::Etcd, Role::Master, Role::Worker].into());
    assert_eq!(config.login.password.as_ref().unwrap().reveal(), "123456");
    assert_eq!(config.content.items[0].names, ["etcd", "etcdctl"]);
    assert_eq!(config.content.items[1].names, ["kubernetes-client", "kubernetes-master"]);
    assert_eq!(config.content.tarballs[&Arch::Arm64], Path::new("/root/packages/packages-arm.tar.gz"));
    assert_eq!(config.addons[0].name, "calico.yaml");
    assert!(config.content.items.iter().any(|item| item.section == Section::Image));
}

#[test]
fn an_arch_without_a_tarball_is_named_with_its_nodes() {
    let text = std::fs::read_to_string(fixture("second.yaml")).unwrap();
    let complete = load("second.yaml");
    assert_eq!(complete.lacking.list, []);
    let tarball = text.lines().find(|line| line.trim_start().starts_with("armsrc")).unwrap();
    let loaded = config::parse("d.yaml", text.replace(tarball, "").as_bytes()).unwrap();
    let arm: Vec<_> = complete.config.hosts.iter().filter(|host| host.arch == Arch::Arm64).collect();
    let told = loaded.lacking.to_string();
    assert!(!arm.is_empty() && told.contains("the package source names no tarball for arm64"), "{told}");
    assert!(arm.iter().all(|host| told.contains(&host.name)), "{told}");
    // With other content, nothing is lacking.
    let none = text
        .replace(tarball, "")
        .lines()
        .filter(|line| !line.contains("x86src"))
        .collect::<Vec<_>>()
        .join("\n");
    assert_eq!(config::parse("d.yaml", none.as_bytes()).unwrap().lacking.list, []);
}

#[test]
fn the_second_generation_loads() {
    insta::assert_snapshot!("second", kept("second.yaml"));
    let loaded = load("second.yaml");
    assert_eq!(
        loaded.warnings.to_string(),
        "second.yaml:6:3: no kubelet on `m1`, `m2`, `m3`: an API server reaches pods only through its own node, so admission \
         webhooks, metrics-server and other aggregated APIs will not work (list every master under `workers`, too; ordinary \
         pods stay away from masters (a taint))"
    );
    let config = loaded.config;
    assert_eq!(config.runtime.kind.name, "iSulad");
    assert_eq!(config.api.endpoint.to_string(), "api.example.org:6443");
    assert_eq!(config.api.endpoint.ip(), None);
    assert_eq!(config.with_role(Role::Etcd).count(), 1);
    assert_eq!(config.hooks[0].timeout, Duration::from_secs(45));
    assert_eq!(config.hooks[1].timeout, Duration::from_secs(30));
}

#[test]
fn the_third_generation_loads() {
    insta::assert_snapshot!("third", kept("third.yaml"));
    let config = load("third.yaml").config;
    let DnsKind::Pod { replicas: 3, .. } = &config.dns.kind else { panic!("{:?}", config.dns) };
    let arguments: Vec<_> = config.extra_args(Component::KubeApiserver).collect();
    assert_eq!(arguments, [("audit-log-path", "/var/log/audit.log"), ("v", "2")]);
    assert!(!format!("{config:?}").contains("s3cret"), "a debug print tells no password");
}

#[test]
fn defaults_are_those_of_eggo() {
    let text = b"masters: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                 workers: [{name: a, ip: 192.168.7.1, arch: amd64}]\n\
                 install: {package-source: {type: bundle}}\n";
    let config = config::parse("d.yaml", text).unwrap().config;
    assert_eq!(config.content.choice, Choice::ByRole);
    insta::assert_snapshot!("defaults", serde_json::to_string_pretty(&config).unwrap());
}

#[test]
fn every_problem_is_reported_at_once_with_its_place() {
    let bytes = std::fs::read(fixture("wrong.yaml")).unwrap();
    insta::assert_snapshot!("wrong", config::parse("wrong.yaml", &bytes).unwrap_err().to_string());
}

#[test]
fn a_misspelt_list_hides_no_problem() {
    let text = "masers: [{name: a, ip: 192.168.7, arch: amd64}]\n\
                workers: [{name: b, ip: 192.168.7.2, arch: arm64}, {nmae: C_, ip: 192.168.7.2, arch: arm64}]\n\
                instal: {package-sourc: {type: bundle}, adition: {master: [{name: x, type: pgk}]}}\n\
                servce: {cidr: 10.244.0.0/24}\n";
    insta::assert_snapshot!("misspelt", config::parse("d.yaml", text.as_bytes()).unwrap_err().to_string());
}

/// The smallest file that loads, with `more` at its end.
fn minimal(more: &str) -> String {
    format!(
        "masters: [{{name: a, ip: 192.168.7.1, arch: amd64}}]\n\
         workers: [{{name: b, ip: 192.168.7.2, arch: arm64}}]\n\
         install: {{package-source: {{type: bundle}}}}\n{more}"
    )
}

#[test]
fn each_of_these_is_refused_for_its_reason() {
    let cases = [
        ("a: 1\na: 2\n", "d.yaml:2:1: key `a` is listed a second time; the first is on line 1"),
        ("masters:\n\t- x\n", "use spaces"),
        ("a: 1\n---\nb: 2\n", "2 documents in one file"),
        ("", "the file is empty"),
        ("just text\n", "must be a mapping, found a value"),
        (&minimal("cluster-id: x // mine\n"), "d.yaml:4:13: `// mine` is part of the value here"),
        (&minimal("enable-kubelet-serving: on\n"), "expected true or false (write `true`)"),
        (&minimal("cluster-name: x\n"), "unknown key `cluster-name`"),
        (&minimal("dns_domain: x\n"), "unknown key `dns_domain` (did you mean `dns-domain`?)"),
        (
            &minimal("service: {cidr: 10.244.0.0/24}\n"),
            "`service.cidr` 10.244.0.0/24 and `network.podcidr` 10.244.0.0/16 overlap",
        ),
        (
            &minimal("service: {dnsaddr: 10.33.0.10}\n"),
            "the DNS address 10.33.0.10 is outside of `service.cidr` 10.32.0.0/16",
        ),
        (&minimal("service: {gateway: 10.33.0.1}\n"), "`service.gateway` 10.33.0.1 is outside of"),
        (
            &minimal("service: {gateway: 10.32.0.2, dnsaddr: 10.32.0.1}\n"),
            "the DNS address 10.32.0.1 is that of the API's own service",
        ),
        (
            &minimal("network: {podcidr: 192.168.0.0/16}\n"),
            "node `a` (192.168.7.1) is inside of `network.podcidr`",
        ),
        (
            &minimal("dns-vip: 10.32.0.9\nservice: {dnsaddr: 10.32.0.10}\n"),
            "`dns-vip` is 10.32.0.9, but `service.dnsaddr` is 10.32.0.10",
        ),
        (&minimal("nodes: []\nloadbalance: {}\nworkes: []\n"), "did you mean `workers`?"),
        (
            &minimal("nodes: [{name: c, ip: 192.168.7.3, arch: amd64}]\n"),
            "`workers` and `nodes` mean the same; keep one",
        ),
        (
            &minimal("etcds: [{name: x, ip: 192.168.7.1, arch: amd64}]\n"),
            "`etcds[0].name` is `x`, but `masters[0]` says `a` for 192.168.7.1",
        ),
        (
            &minimal("etcds: [{name: a, ip: 192.168.7.1, arch: arm64}]\n"),
            "`etcds[0].arch` is `arm64`, but `masters[0]` says `amd64`",
        ),
        (
            &minimal("etcds: [{name: a, ip: 192.168.7.9, arch: arm64}]\n"),
            "which is already `masters[0]` with address 192.168.7.1",
        ),
        (
            &minimal("loadbalance: {name: a, ip: 192.168.7.1, arch: amd64, bind-port: 6443}\n"),
            "is taken by the API server of the same host",
        ),
        (&minimal("runtime-settings: {a: 1}\nruntime: containerd\n"), "for containerd is a string of TOML"),
        (
            &minimal("etcd-external: {endpoints: [\"http://x:1\"], ca: /a, cert: /b}\n"),
            "`etcd-external.key` is missing",
        ),
        ("masters: []\nworkers: [{name: b, ip: 192.168.7.2, arch: arm64}]\n", "`masters` is empty"),
        ("masters: [{name: b, ip: 192.168.7.2, arch: arm64}]\n", "`workers` is missing"),
        (
            "masters: [{name: a, ip: 192.168.7.2, arch: arm64}]\nworkers: [{name: a, ip: 192.168.7.2, arch: arm64}]\n",
            "no package lists: eggo took that as an install from the internet",
        ),
        (
            "masters: [{name: a, ip: 192.168.7.2, arch: arm64}]\nworkers: [{name: a, ip: 192.168.7.2, arch: arm64}]\ninstall: {etcd: [{name: e, type: pkg}], kubernetes-master: [{name: e, type: pkg}]}\n",
            "`install.kubernetes-worker` is empty",
        ),
    ];
    for (text, reason) in cases {
        let problems = config::parse("d.yaml", text.as_bytes()).expect_err(text).to_string();
        assert!(problems.contains(reason), "for\n{text}\nexpected `{reason}`, found\n{problems}");
    }
}

#[test]
fn odd_things_are_warned_about_and_load() {
    let cases = [
        (
            "etcds: [{name: c, ip: 192.168.7.3, arch: amd64}, {name: d, ip: 192.168.7.4, arch: amd64}]\n",
            "2 etcd members survive the loss of 0, no more than 1 do (use an odd number)",
        ),
        ("runtime-endpoint: unix:///run/isulad.sock\n", "is iSulad's socket, but the runtime is docker"),
        ("cni-bin-dir: /srv/cni\n", "where no item can be installed"),
        (
            "config-extra-args: [{name: kube-proxy, extra-args: {healthz-port: \"1\", v: \"2\", feature-gates: A=true}}]\n",
            "d.yaml:4:67: kube-proxy reads `--healthz-port` only without a file, and it gets one",
        ),
        (
            "service: {gateway: 10.32.0.254}\n",
            "d.yaml:4:20: `service.gateway` is 10.32.0.254, but the API's service gets 10.32.0.1",
        ),
        (
            "network: {podcidr: 10.244.64.0/16}\n",
            "`10.244.64.0/16` has bits beyond its prefix; the network is 10.244.0.0/16, which is used",
        ),
    ];
    for (text, reason) in cases {
        let warnings = config::parse("d.yaml", minimal(text).as_bytes()).expect(text).warnings.to_string();
        assert!(warnings.contains(reason), "for\n{text}\nexpected `{reason}`, found\n{warnings}");
    }
    let usual = minimal("cni-bin-dir: /usr/lib/cni,/opt/cni/bin\n");
    let warnings = config::parse("d.yaml", usual.as_bytes()).unwrap().warnings.to_string();
    assert!(!warnings.contains("cni-bin-dir"), "{warnings}");
}

#[test]
fn hosts_without_name_or_arch_are_as_with_eggo() {
    let text = "cluster-id: My_one\n\
        masters: [{ip: 192.168.7.1, arch: arm64}, {name: \"\", ip: 192.168.7.2}]\n\
        workers: [{name: b, ip: 192.168.7.2}, {ip: 192.168.7.1}, {ip: 192.168.7.3}]\n\
        etcds: [{ip: 192.168.7.4, arch: x86_64}]\n\
        loadbalance: {ip: 192.168.7.5}\ninstall: {package-source: {type: bundle}}\n";
    let loaded = config::parse("d.yaml", text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}"));
    let hosts: Vec<String> =
        loaded.config.hosts.iter().map(|host| format!("{} {} {}", host.name, host.ip, host.arch)).collect();
    assert_eq!(
        hosts,
        [
            "my-one-master-0 192.168.7.1 arm64",
            "b 192.168.7.2 amd64",
            "my-one-worker-2 192.168.7.3 amd64",
            "my-one-etcd-0 192.168.7.4 amd64",
            "my-one-loadbalance 192.168.7.5 amd64"
        ]
    );
    assert_eq!(
        loaded.warnings.to_string(),
        "d.yaml:2:11: `masters[0].name` is missing; the node is called `my-one-master-0`\n\
         d.yaml:2:43: `masters[1].arch` is missing; it is taken for amd64\n\
         d.yaml:3:58: `workers[2].arch` is missing; it is taken for amd64\n\
         d.yaml:3:58: `workers[2].name` is missing; the node is called `my-one-worker-2`\n\
         d.yaml:4:9: `etcds[0].name` is missing; the node is called `my-one-etcd-0`\n\
         d.yaml:5:14: `loadbalance.arch` is missing; it is taken for amd64\n\
         d.yaml:5:14: `loadbalance.name` is missing; the node is called `my-one-loadbalance`"
    );
    let taken = "masters: [{ip: 192.168.7.1}]\nworkers: [{name: k8s-cluster-master-0, ip: 192.168.7.2}]\n";
    let problems = config::parse("d.yaml", taken.as_bytes()).unwrap_err().to_string();
    assert!(problems.contains("which is already `workers[0]` with address 192.168.7.2"), "{problems}");
}

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

#[test]
fn a_host_may_be_reached_in_its_own_way() {
    let text = format!(
        "username: ops\njump: {{address: bastion.example, user: hop, private-key-path: ~/hop, host-key: '{KEY} root@b'}}\n\
         masters: [{{name: a, ip: 192.168.7.1, arch: amd64, username: admin, private-key-path: ~/a, host-key: '{KEY}'}}]\n\
         workers:\n- {{name: a, ip: 192.168.7.1, arch: amd64}}\n- {{name: b, ip: 192.168.7.2, arch: amd64, jump: false}}\n\
         - {{name: c, ip: 192.168.7.3, arch: amd64, jump: {{address: '::1', port: 2222}}}}\n\
         install: {{package-source: {{type: bundle}}}}\n"
    );
    let loaded = config::parse("d.yaml", text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(loaded.warnings.list, []);
    let [a, b, c] = loaded.config.hosts.as_slice() else { panic!("{:?}", loaded.config.hosts) };
    assert_eq!(a.user.as_deref(), Some("admin"));
    assert_eq!(a.private_key.as_deref(), Some(Path::new("~/a")));
    assert_eq!(a.host_key.as_ref().unwrap().to_string(), KEY);
    let jump = a.jump.as_ref().unwrap();
    assert_eq!((jump.to_string().as_str(), jump.user.as_deref()), ("bastion.example", Some("hop")));
    assert_eq!(jump.host_key, a.host_key, "a comment is no part of a key");
    assert_eq!((&b.user, &b.jump), (&None, &None));
    assert_eq!((c.jump.as_ref().unwrap().address.as_str(), c.jump.as_ref().unwrap().port), ("::1", 2222));
    let places: Vec<String> =
        loaded.private_keys.iter().map(|place| format!("{}: {}", place.line, place.key)).collect();
    assert_eq!(places, ["2: jump.private-key-path", "3: masters[0].private-key-path"]);
    let kept = serde_json::to_string(&loaded.config).unwrap();
    assert_eq!(serde_json::from_str::<config::Config>(&kept).unwrap(), loaded.config);
}

#[test]
fn what_is_wrong_with_the_way_to_a_host_is_said() {
    let text = format!(
        "jump: {{address: ops@bastion, hostkey: x}}\n\
         masters: [{{name: a, ip: 192.168.7.1, arch: amd64, user: -x, host-key: nonsense}}]\n\
         workers: [{{name: b, ip: 192.168.7.2, arch: amd64, user: one, jump: true}}]\n\
         etcds: [{{name: b, ip: 192.168.7.2, arch: amd64, user: two, host-key: '{KEY}'}}]\n\
         install: {{package-source: {{type: bundle}}}}\n"
    );
    let problems = config::parse("d.yaml", text.as_bytes()).unwrap_err().to_string();
    for expected in [
        "d.yaml:1:17: `jump.address` is `ops@bastion`, which is neither a name nor an address",
        "unknown key `jump.hostkey`",
        "`masters[0].user` is `-x`, which is not a login name",
        "`masters[0].host-key` is not a public key",
        "`workers[0].jump` is `true`, which names no host",
        "`etcds[0].username` is `two`, but `workers[0]` says `one` for 192.168.7.2",
    ] {
        assert!(problems.contains(expected), "{expected}\n{problems}");
    }
}

#[test]
fn empty_texts_mean_the_default() {
    let empty = minimal(
        "cluster-id: \"\"\ndns-domain: \"\"\ndns-vip: ''\netcd-token: \"\"\napiserver-timeout: \"\"\ncni-bin-dir: \"\"\n\
         service: {cidr: \"\", dnsaddr: \"\", gateway: \"\", dns: {corednstype: \"\", imageversion: \"\", replicas: \"\"}}\n\
         network: {podcidr: \"\", plugin: \"\"}\nexternal-ca: \"\"\netcd-external: \"\"\nloadbalance: {name: \"\", ip: \"\"}\n",
    );
    let loaded = config::parse("d.yaml", empty.as_bytes()).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(loaded.config, config::parse("d.yaml", minimal("").as_bytes()).unwrap().config);
}

#[test]
fn bom_crlf_and_quotes_load() {
    let text = format!("\u{feff}{}", minimal("password: \"a // b\"\n")).replace('\n', "\r\n");
    let config = config::parse("d.yaml", text.as_bytes()).unwrap().config;
    assert_eq!(config.login.password.unwrap().reveal(), "a // b");
}

#[test]
fn the_files_people_have_load_or_say_why_not() {
    let Some(folder) = data("deploy") else { return };
    let outcome =
        |name: &str| config::load(&folder.join(name)).map_err(|error| Report::from(error).to_string());
    for name in ["all_offline_install.config.yaml", "centos.config.yaml", "example-doc-cleaned.yaml"] {
        outcome(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let error = outcome("example-doc-verbatim-slash-comments.yaml").unwrap_err();
    assert!(error.contains(":1:35: `//` does not start a comment in YAML"), "{error}");
    let error = outcome("all_online_install.config.yaml").unwrap_err();
    assert!(error.contains("would be fetched from the network"), "{error}");
    let error = outcome("openEuler.config.yaml").unwrap_err();
    assert!(
        error.contains("`install.etcd`, `install.kubernetes-master`, `install.kubernetes-worker` are empty"),
        "{error}"
    );

    let config = outcome("example-doc-cleaned.yaml").unwrap().config;
    let kinds: Vec<ItemKind> = config.content.items.iter().map(|item| item.kind).collect();
    assert!(kinds.contains(&ItemKind::Pkg) && kinds.contains(&ItemKind::Image));
    assert_eq!(config.hooks.len(), 2);
}

#[test]
fn hostile_files_are_refused_quickly() {
    let Some(folder) = data("hostile") else { return };
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.file_name().unwrap().to_string_lossy().starts_with("yaml-") {
            continue;
        }
        let begin = Instant::now();
        assert!(config::load(&path).is_err(), "{}", path.display());
        // A bomb would take for ever; a busy machine takes a while.
        assert!(begin.elapsed() < Duration::from_secs(10), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 6);
}
