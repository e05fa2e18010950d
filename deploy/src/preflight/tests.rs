use super::*;
use crate::config;
use crate::facts::{Facts, Mount, Port, Protocol};
use crate::node::{Node, Surveyed};
use crate::plan::NodePlan;
use crate::remote::fake::Fake;
use eggo_bundles::Kind;
use std::collections::BTreeMap;
use std::sync::Arc;

const DEPLOY: &str = "\
cluster-id: one
username: root
password: x
masters:
- {name: m, ip: 10.0.0.1, port: 22, arch: amd64}
workers:
- {name: w, ip: 10.0.0.2, port: 22, arch: arm64}
install: {package-source: {type: bundle}}
";

fn config() -> Config {
    crate::config::parse("deploy.yaml", DEPLOY.as_bytes()).unwrap().config
}

/// A node with which nothing is wrong.
fn fit(name: &str, arch: eggo_bundles::Arch) -> Facts {
    let mount = |path: &str| Mount { path: path.into(), size: 100 << 30, free: 50 << 30, read_only: false };
    Facts {
        node: name.into(),
        arch: Some(arch),
        machine: arch.machine().into(),
        hostname: name.into(),
        memory: 4 << 30,
        init: "systemd".into(),
        cgroup: Some(crate::facts::Cgroup::V2),
        mounts: vec![mount("/"), mount("/var")],
        modules: BTreeMap::from([("br_netfilter".into(), crate::facts::Module::Loadable)]),
        tools: crate::facts::tools().into_iter().map(str::to_string).collect(),
        ..Facts::default()
    }
}

struct Nodes {
    config: Config,
    facts: Vec<Facts>,
    plans: Vec<NodePlan>,
    heads: Heads,
    this_machine: Option<&'static str>,
    state: &'static str,
    take_over: bool,
}

impl Nodes {
    fn new() -> Self {
        let config = config();
        let facts = config.hosts.iter().map(|host| fit(&host.name, host.arch)).collect();
        let plan = |host: &config::Host| NodePlan {
            name: host.name.clone(),
            ip: host.ip,
            arch: host.arch,
            roles: host.roles.iter().copied().collect(),
            bytes: 0,
            bytes_to_send: 0,
            items: Vec::new(),
            images: Vec::new(),
            packages: None,
            repo_packages: Vec::new(),
            hooks: Vec::new(),
            steps: Vec::new(),
            expects: Vec::new(),
        };
        let plans = config.hosts.iter().map(plan).collect();
        let (heads, state) = (Heads::default(), "/etc/eggo/one");
        Self { config, facts, plans, heads, this_machine: None, state, take_over: false }
    }

    async fn verdict(&self, ours: bool, ignore: &[&str]) -> Verdict {
        let nodes: Vec<Surveyed> = (self.config.hosts.iter().zip(&self.facts))
            .map(|(host, facts)| Node {
                host: host.clone(),
                remote: Arc::new(Fake::new(host.name.clone())),
                facts: facts.clone(),
            })
            .collect();
        let planned: Vec<_> =
            nodes.iter().zip(&self.plans).map(|(node, plan)| Planned { node, plan }).collect();
        let names = nodes.iter().map(|node| node.host.name.clone());
        let claimed = self.facts.iter().filter(|facts| !ours && facts.claim.is_some());
        let foreign = claimed.map(|facts| facts.node.clone()).collect();
        let ours = names.filter(|_| ours).collect();
        let this_machine = self.this_machine.into_iter().map(str::to_string).collect();
        let (state, heads) = (Path::new(self.state), &self.heads);
        let kubernetes = Some(crate::version::Version::new(1, 20, 2));
        let (config, limits) = (&self.config, &Limits::default());
        let circumstances = Circumstances {
            config,
            state,
            heads,
            ours,
            foreign,
            take_over: self.take_over,
            this_machine,
            limits,
            kubernetes,
        };
        check(&circumstances, &planned, &parse_checks(ignore).unwrap()).await
    }
}

#[tokio::test]
async fn fit_nodes_have_no_findings() {
    let nodes = Nodes::new();
    let verdict = nodes.verdict(false, &[]).await;
    assert_eq!(verdict.findings, []);
    verdict.decide().unwrap();
}

#[tokio::test]
async fn each_check_finds_its_own_and_can_be_ignored() {
    type Spoil = fn(&mut Facts);
    let cases: [(&str, Spoil, &str); 14] = [
        ("arch", |f| f.arch = None, "it is aarch64, deploy.yaml says arm64"),
        ("systemd", |f| f.init = "sh".into(), "the init is `sh`, not systemd"),
        ("tools", |f| assert!(f.tools.remove("tar")), "not found: tar"),
        ("tools", |f| assert!(f.tools.remove("awk")), "not found: awk"),
        ("clock", |f| f.clock_skew = -90, "its clock is 90 s behind"),
        ("memory", |f| f.memory = 256 << 20, "256.0 MiB of memory, the minimum is 600.0 MiB"),
        ("swap", |f| f.swap = 1 << 30, "1.0 GiB of swap is on"),
        (
            "modules",
            |f| f.modules = BTreeMap::from([("br_netfilter".into(), crate::facts::Module::Missing)]),
            "the kernel has no `br_netfilter`",
        ),
        ("cgroups", |f| f.cgroup = None, "no control groups are mounted"),
        ("read-only", |f| f.mounts[1].read_only = true, "`/var` is mounted read-only"),
        (
            "ports",
            |f| {
                let address = "0.0.0.0".parse().unwrap();
                f.ports.insert(Port { protocol: Protocol::Tcp, port: 10250, address });
            },
            "something listens on 10250/tcp already",
        ),
        ("leftovers", |f| assert!(f.services.insert("kubelet".into())), "a Kubernetes runs here: kubelet"),
        (
            "hostname",
            |f| assert!(f.addresses.insert("10.0.0.1".parse().unwrap())),
            "it has the address 10.0.0.1 of `m` too",
        ),
        (
            "version",
            |f| runs_kubernetes(f, 21),
            "running Kubernetes 1.21.0, but the bundle contains 1.20.2; use eggo-install upgrade to change versions",
        ),
    ];
    for (name, spoil, message) in cases {
        let mut nodes = Nodes::new();
        spoil(&mut nodes.facts[1]);
        let ours = name == "version";
        let verdict = nodes.verdict(ours, &[]).await;
        let found: Vec<(&str, &str, Level)> =
            verdict.findings.iter().map(|f| (f.check.as_str(), f.message.as_str(), f.level)).collect();
        assert_eq!(found, [(name, message, Level::Error)]);
        let unfit = verdict.decide().unwrap_err();
        assert_eq!(
            unfit.hint().unwrap(),
            format!("fix them; or, if you know better: --ignore-preflight {name}")
        );
        nodes.verdict(ours, &[name]).await.decide().unwrap();
    }
}

#[tokio::test]
async fn a_node_that_another_holds_is_refused_or_taken_over() {
    let mut nodes = Nodes::new();
    let lines = ["0a", "cluster one", "holder ops@desk:/srv/one", "since 2026-11-19T10:00:00Z"];
    nodes.facts[1].claim = crate::claim::Claim::parse(&lines);
    let held = "held by ops@desk:/srv/one since 2026-11-19T10:00:00Z, for the cluster `one`";
    let found = |verdict: Verdict| {
        let [finding] = verdict.findings.as_slice() else { panic!("{verdict:?}") };
        assert_eq!((finding.node.as_str(), finding.check.as_str()), ("w", "claim"));
        (finding.level, finding.message.clone())
    };
    let verdict = nodes.verdict(false, &[]).await;
    let unfit = verdict.decide().unwrap_err();
    assert_eq!(unfit.lines, [format!("w: claim: {held}")]);
    let hint = unfit.hint().unwrap();
    assert!(hint.contains("`--take-over`") && !hint.contains("--ignore-preflight"), "{hint}");
    assert_eq!(found(verdict), (Level::Error, held.into()));
    assert_eq!(nodes.verdict(true, &[]).await.findings, [], "our own is no finding");
    nodes.facts[1].swap = 1 << 30;
    let hint = nodes.verdict(false, &[]).await.decide().unwrap_err().hint().unwrap();
    assert!(hint.contains("`--take-over`") && hint.ends_with("--ignore-preflight swap"), "{hint}");
    (nodes.facts[1].swap, nodes.take_over) = (0, true);
    let verdict = nodes.verdict(false, &[]).await;
    verdict.decide().unwrap();
    assert_eq!(found(verdict), (Level::Ignored, format!("{held}; it is taken over")));
}

fn runs_kubernetes(facts: &mut Facts, minor: u16) {
    let version = Some(crate::version::Version::new(1, minor, 0));
    facts.services.insert("kube-apiserver".into());
    let program = crate::facts::Program { path: "/usr/bin/kube-apiserver".into(), version };
    facts.programs.insert("kube-apiserver".into(), program);
}

#[tokio::test]
async fn what_we_left_there_ourselves_is_no_leftover() {
    let mut nodes = Nodes::new();
    nodes.facts[1].services.insert("kubelet".into());
    nodes.facts[1].leftovers.push("/etc/kubernetes/pki/ca.crt".into());
    assert_eq!(nodes.verdict(true, &[]).await.findings, []);
    assert_eq!(nodes.verdict(false, &[]).await.errors(), 2);
}

#[tokio::test]
async fn a_web_server_of_the_users_does_not_become_the_load_balancer() {
    let mut nodes = Nodes::new();
    nodes.facts[1].services.insert("nginx".into());
    assert_eq!(nodes.verdict(false, &[]).await.findings, [], "a worker may have one");
    nodes.config.hosts[1].roles.insert(eggo_bundles::Role::Loadbalance);
    nodes.config.load_balancer_port = Some(8443);
    assert_eq!(nodes.verdict(true, &[]).await.findings, [], "that is ours");
    for state in ["nginx runs here already, ", "nginx is enabled here already, "] {
        let verdict = nodes.verdict(false, &[]).await;
        let [finding] = verdict.findings.as_slice() else { panic!("{verdict:?}") };
        assert_eq!((finding.check.as_str(), finding.level), ("load-balancer", Level::Error));
        assert!(finding.message.starts_with(state), "{}", finding.message);
        nodes.verdict(false, &["load-balancer"]).await.decide().unwrap();
        nodes.facts[1].services.clear();
        nodes.facts[1].enabled_services.insert("nginx".into());
    }
}

/// One item each.
#[test]
fn no_two_checks_have_one_name() {
    let names: BTreeSet<&str> = Check::all().map(Check::as_str).collect();
    assert_eq!(names.len(), TABLE.len());
}

#[test]
fn an_unknown_check_is_refused_with_the_known_ones() {
    let error = parse_checks(["clok"]).unwrap_err();
    assert!(error.hint().unwrap().contains("clock"));
}

#[tokio::test]
async fn a_node_that_is_this_machine_is_told_what_that_means() {
    let mut nodes = Nodes::new();
    nodes.this_machine = Some("m");
    nodes.facts[0].hostname = "desk".into();
    let verdict = nodes.verdict(false, &[]).await;
    let [finding] = verdict.findings.as_slice() else { panic!("{verdict:?}") };
    assert_eq!((finding.node.as_str(), finding.level), ("m", Level::Warning));
    assert!(finding.message.starts_with("it is this machine: its name becomes `m`,"), "{}", finding.message);
    assert!(finding.message.contains("`/etc/eggo/one`"), "{}", finding.message);

    nodes.state = "/var/lib/eggo/state/one";
    nodes.config.hosts[0].ip = "127.0.0.1".parse().unwrap();
    let verdict = nodes.verdict(false, &[]).await;
    assert_eq!(verdict.errors(), 2, "{verdict:?}");
    nodes.verdict(false, &["this-machine"]).await.decide().unwrap();
}

#[tokio::test]
async fn room_is_reckoned_from_the_plan() {
    let mut nodes = Nodes::new();
    let item = |kind, name: &str, size| {
        let sha256 = eggo_bundles::Digest::of(name.as_bytes());
        eggo_bundles::Item::new(eggo_bundles::Arch::Amd64, kind, name, sha256, size)
    };
    let (known, silent) = (item(Kind::Pkg, "a.deb", 10 << 20), item(Kind::Pkg, "b.deb", 1 << 20));
    let program = item(Kind::Bin, "p", 5 << 20);
    nodes.heads = [(known.sha256, 30 << 20)].into();
    for (item, dst) in [(known, None), (silent, None), (program, Some("/usr/bin".to_string()))] {
        nodes.plans[0].items.push(crate::plan::Wanted { item: Arc::new(item), dst });
    }
    let runtime = nodes.config.runtime.kind;
    let needs = |nodes: &Nodes| -> Vec<(String, u64)> {
        let needs = budget(&nodes.facts[0], &nodes.plans[0], runtime, &nodes.heads);
        needs.into_iter().map(|need| (need.mount, (need.needed >> 20) - 64)).collect()
    };
    assert_eq!(needs(&nodes), [("/".into(), 30 + 4 + 5), ("/var".into(), 16)]);
    // What is there already needs no room; a package in the store is not installed yet.
    for wanted in &nodes.plans[0].items {
        nodes.facts[0].store.whole.insert(wanted.item.sha256, wanted.item.size);
    }
    assert_eq!(needs(&nodes), [("/".into(), 30 + 4)]);
}

/// A bundle with one package that cannot be read, for one reason or another.
struct Unreadable(fn() -> eggo_bundles::Error);

impl crate::distribute::Source for Unreadable {
    fn read(&self, _: &eggo_bundles::Item) -> std::io::Result<Box<dyn std::io::Read + Send>> {
        Err(std::io::Error::other((self.0)()))
    }
}

/// A plan that brings one item to one node.
fn plan_with(kind: &str, path: &str) -> crate::plan::Plan {
    let item: eggo_bundles::Item = serde_json::from_value(serde_json::json!({
        "path": path, "arch": "amd64", "kind": kind, "name": "a", "version": "1",
        "size": 1, "sha256": eggo_bundles::Digest::of(b"a"),
    }))
    .unwrap();
    let mut node = Nodes::new().plans.remove(0);
    node.items = vec![crate::plan::Wanted { item: Arc::new(item), dst: None }];
    crate::plan::Plan {
        cluster: "one".into(),
        nodes: vec![node],
        addons: Vec::new(),
        network_without_addon: None,
    }
}

/// A bundle with nothing but the front of a program for this machine.
struct Program(u8);

impl crate::distribute::Source for Program {
    fn read(&self, _: &eggo_bundles::Item) -> std::io::Result<Box<dyn std::io::Read + Send>> {
        let mut front = b"\x7fELF\x02\x01\x01".to_vec();
        front.resize(64, 0);
        (front[16], front[18]) = (2, self.0);
        Ok(Box::new(std::io::Cursor::new(front)))
    }
}

#[test]
fn content_for_another_arch_refuses_the_bundle_before_any_node_is_asked() {
    const AMD64: u8 = 62;
    const ARM64: u8 = 183;
    for (kind, path) in [("bin", "amd64/bin/kubelet"), ("dir", "amd64/dir/cni/bridge")] {
        let plan = plan_with(kind, path);
        check_archs(&plan, &Program(AMD64)).unwrap();
        let report = eggo_errors::Report::from(check_archs(&plan, &Program(ARM64)).unwrap_err());
        assert_eq!(report.exit, eggo_errors::Exit::Untrusted);
        assert!(report.message.contains(path) && report.message.contains("for arm64"), "{}", report.message);
    }
    check_archs(&plan_with("file", "amd64/file/firmware"), &Program(ARM64)).unwrap();
}

#[test]
fn a_damaged_package_refuses_the_bundle_before_any_node_is_asked() {
    let plan = plan_with("pkg", "amd64/pkg/a_1.deb");
    let damaged = Unreadable(|| eggo_bundles::Error::NotABundle { path: "b.tar.gz".into() });
    let report = eggo_errors::Report::from(Heads::read(&plan, &damaged).unwrap_err());
    assert_eq!(report.exit, eggo_errors::Exit::Untrusted);
    assert!(report.message.contains("`amd64/pkg/a_1.deb`"), "{}", report.message);
    let elsewhere = Unreadable(|| eggo_bundles::Error::NeedsBase {
        path: "b.tar.gz".into(),
        entry: "a".into(),
        parent: eggo_bundles::Digest::of(b"parent"),
    });
    Heads::read(&plan, &elsewhere).unwrap();
}

#[test]
fn a_verdict_is_written_and_read_back() {
    let levels = [Level::Error, Level::Warning, Level::Ignored];
    let findings = Check::all().zip(levels.into_iter().cycle()).map(|(check, level)| Finding {
        node: "m".into(),
        check,
        level,
        message: check.help().into(),
    });
    let verdict = Verdict { nodes: 1, findings: findings.collect() };
    let text = serde_json::to_string(&verdict).unwrap();
    assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
    assert!(Check::all().all(|check| text.contains(&format!("\"{}\"", check.as_str()))), "{text}");
}
