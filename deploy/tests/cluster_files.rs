//! What the components are told: by version, by runtime, by the benchmark.

use eggo_deploy::cluster::files::{addons, coredns, kubelet, nginx, proxy, runtime, unit};
use eggo_deploy::cluster::flags::{self, Scope};
use eggo_deploy::config::{Component, Config, parse};
use eggo_deploy::facts::{Cgroup, Facts, Program};
use eggo_deploy::version::Version;
use std::path::{Path, PathBuf};
use std::process::Command;

const DEPLOY: &str = "
cluster-id: k8s-cluster
username: root
masters:
- {name: m1, ip: 192.168.0.2, port: 22, arch: arm64}
- {name: m2, ip: 192.168.0.3, port: 22, arch: amd64}
nodes:
- {name: w1, ip: 192.168.0.4, port: 22, arch: amd64}
loadbalance: {name: lb, ip: 192.168.0.5, port: 22, arch: amd64, bind-port: 8443}
service: {cidr: 10.32.0.0/16, dnsaddr: 10.32.0.10, gateway: 10.32.0.1}
network: {podcidr: 10.244.0.0/16, plugin: calico}
cni-bin-dir: /usr/libexec/cni,/opt/cni/bin
pause-image: k8s.gcr.io/pause:3.2
install: {package-source: {type: bundle}}
";

fn config(extra: &str) -> Config {
    let text = format!("{DEPLOY}{extra}");
    match parse("deploy.yaml", text.as_bytes()) {
        Ok(loaded) => loaded.config,
        Err(problems) => panic!("{problems}"),
    }
}

fn facts() -> Facts {
    let mut facts = Facts { cgroup: Some(Cgroup::V2), ..Facts::default() };
    let containerd = Program { path: "/usr/bin/containerd".into(), version: Some(Version::new(1, 6, 20)) };
    facts.programs.insert("containerd".into(), containerd);
    facts
}

fn scope<'a>(config: &'a Config, facts: &'a Facts, host: &str, minor: u16) -> Scope<'a> {
    Scope { config, host: config.host(host).unwrap(), version: Version::new(1, minor, 0), facts }
}

fn flags_of(component: Component, scope: &Scope<'_>) -> Vec<String> {
    flags::of(component, scope).into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

fn has(component: Component, minor: u16, flag: &str, extra: &str) -> bool {
    let (config, facts) = (config(extra), facts());
    let flags = flags_of(component, &scope(&config, &facts, "w1", minor));
    flags.iter().any(|found| found == flag || found.starts_with(&format!("{flag}=")))
}

/// Every flag is one that the program of that version knows.
#[test]
fn real_programs_know_the_flags() {
    let cache = std::env::var_os("EGGO_LAB_CACHE").map(PathBuf::from);
    let cache = cache.or_else(|| Some(std::env::home_dir()?.join(".cache/eggo-lab"))).unwrap();
    for (version, minor) in [("1.20.2", 20), ("1.36.3", 36)] {
        let programs = cache.join("kubernetes").join(version).join("amd64");
        if !programs.is_dir() || std::env::consts::ARCH != "x86_64" {
            println!("skipped: Kubernetes {version} is not built (scripts/lab kubernetes {version})");
            continue;
        }
        let (config, facts) = (config("runtime: containerd\nenable-kubelet-serving: true\n"), facts());
        for component in [
            Component::KubeApiserver,
            Component::KubeControllerManager,
            Component::KubeScheduler,
            Component::Kubelet,
            Component::KubeProxy,
        ] {
            for host in ["m1", "w1"] {
                // Flags are parsed before help is given, hidden and deprecated ones too.
                let flags = flags_of(component, &scope(&config, &facts, host, minor));
                let program = programs.join(component.to_string());
                let output = Command::new(program).args(&flags).arg("--help").output().unwrap();
                let told = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{component} {version}: {told}");
            }
        }
    }
}

/// What came and went: `(component, flag, first version with it, first without)`.
#[test]
fn flags_follow_the_version() {
    let containerd = "runtime: containerd\n";
    let docker = "runtime: docker\n";
    for (component, flag, extra, from, to) in [
        (Component::KubeApiserver, "--insecure-port", "", 20, 24),
        (Component::KubeControllerManager, "--port", "", 20, 24),
        (Component::KubeScheduler, "--port", "", 20, 24),
        (Component::Kubelet, "--container-runtime=remote", containerd, 20, 24),
        (Component::Kubelet, "--container-runtime=docker", docker, 20, 24),
        (Component::Kubelet, "--network-plugin", docker, 20, 24),
        (Component::Kubelet, "--container-runtime-endpoint", containerd, 20, 27),
        (Component::Kubelet, "--pod-infra-container-image", containerd, 20, 27),
        (Component::Kubelet, "--network-plugin", containerd, 99, 99),
        (Component::KubeApiserver, "--profiling=false", "", 20, 99),
        (Component::KubeApiserver, "--logtostderr", "", 99, 99),
    ] {
        for minor in 20..=36 {
            let expected = (from..to).contains(&minor);
            assert_eq!(has(component, minor, flag, extra), expected, "{component} {flag} in 1.{minor}");
        }
    }
    let (config, mut facts) = (config(containerd), facts());
    facts.cgroup = Some(Cgroup::V1);
    let text = |minor| kubelet::config(&scope(&config, &facts, "w1", minor));
    assert!(!text(26).contains("containerRuntimeEndpoint") && text(27).contains("containerRuntimeEndpoint"));
    assert!(!text(30).contains("failCgroupV1") && text(35).contains("failCgroupV1: false"));
}

/// Either they are pinned, or nothing that the kubelet does for want of disk removes images.
#[test]
fn images_of_the_bundle_stay_when_disk_gets_short() {
    let stays = |runtime: &str, version: Version, minor: u16| {
        let config = config(&format!("runtime: {runtime}\n"));
        let mut facts = facts();
        let program = Program { path: "/usr/bin/x".into(), version: Some(version) };
        facts.programs.insert(config.runtime.kind.program.into(), program);
        let file = kubelet::config(&scope(&config, &facts, "w1", minor));
        let off =
            ["imageGCHighThresholdPercent: 100\n", "nodefs.available: \"0%\"", "imagefs.available: \"0%\""];
        off.iter().all(|line| file.contains(line))
    };
    for (runtime, version, minor, thresholds) in [
        ("containerd", (1, 6, 20), 36, true),
        ("containerd", (1, 6, 22), 36, false),
        ("containerd", (1, 7, 2), 36, true),
        ("containerd", (1, 7, 3), 29, false),
        ("containerd", (2, 3, 7), 28, true),
        ("containerd", (2, 3, 7), 36, false),
        ("docker", (20, 10, 24), 20, true),
        ("iSulad", (2, 1, 4), 34, true),
    ] {
        let (major, minor_of_runtime, patch) = version;
        let found = stays(runtime, Version::new(major, minor_of_runtime, patch), minor);
        assert_eq!(found, thresholds, "{runtime} {version:?} with 1.{minor}");
    }
}

/// From the moment when the API knows it: no ordinary pod gets there first.
#[test]
fn a_master_with_a_kubelet_is_tainted_when_it_registers() {
    let facts = facts();
    let said = |more: &str, host: &str, minor: u16| {
        let config = config(&format!("runtime: containerd\n{more}"));
        let scope = scope(&config, &facts, host, minor);
        let flag = flags_of(Component::Kubelet, &scope).into_iter().find(|flag| flag.contains("taints"));
        let file = kubelet::config(&scope);
        (flag.unwrap_or_default(), file.contains("key: node-role.kubernetes.io/control-plane\n"))
    };
    let old = "--register-with-taints=node-role.kubernetes.io/master=:NoSchedule".to_string();
    assert_eq!(said("", "m1", 22), (old, false));
    assert_eq!(said("", "m1", 24), (String::new(), true));
    assert_eq!(said("", "w1", 22), (String::new(), false));
    assert_eq!(said("", "w1", 24), (String::new(), false));
}

#[test]
fn the_api_s_timeout_is_that_of_requests() {
    for (line, flag) in [
        ("", "--request-timeout=120s"),
        ("apiserver-timeout: 2m\n", "--request-timeout=120s"),
        ("apiserver-timeout: 500ms\n", "--request-timeout=500ms"),
        ("apiserver-timeout: 1s500ms\n", "--request-timeout=1500ms"),
    ] {
        assert!(has(Component::KubeApiserver, 20, flag, line), "{line}");
    }
}

#[test]
fn extra_arguments_reach_every_component() {
    let config = config(
        "config-extra-args:\n\
         - {name: kubelet, extra-args: {\"--cgroup-driver\": systemd, v: \"2\"}}\n\
         - {name: kube-apiserver, extra-args: {\"--profiling\": \"true\", \"--feature-gates\": \"A=true,B=false\"}}\n\
         - {name: kube-controller-manager, extra-args: {\"--node-cidr-mask-size\": \"25\"}}\n\
         - {name: kube-scheduler, extra-args: {\"--v\": \"4\"}}\n\
         - {name: etcd, extra-args: {\"--quota-backend-bytes\": \"8589934592\"}}\n\
         - {name: kube-proxy, extra-args: {\"--proxy-mode\": ipvs, \"--conntrack-max-per-core\": \"0\", \"--v\": \"3\", \
             \"--feature-gates\": \"A=true,B=false\", \"--ipvs-tcp-timeout\": 15m, \"--ipvs-udp-timeout\": 5m}}\n",
    );
    let mut facts = facts();
    facts.cgroup = Some(Cgroup::V1);
    let scope = scope(&config, &facts, "m1", 20);
    let flags = |component| flags_of(component, &scope);
    assert!(flags(Component::Kubelet).contains(&"--v=2".to_string()));
    let apiserver = flags(Component::KubeApiserver);
    assert!(apiserver.contains(&"--profiling=true".to_string()), "the user's value wins");
    assert_eq!(apiserver.iter().filter(|flag| flag.starts_with("--profiling")).count(), 1);
    assert!(flags(Component::KubeControllerManager).contains(&"--node-cidr-mask-size=25".to_string()));
    assert!(flags(Component::KubeScheduler).contains(&"--v=4".to_string()));
    assert!(flags(Component::Etcd).contains(&"--quota-backend-bytes=8589934592".to_string()));
    // kube-proxy reads its file, not its flags.
    let proxy_flags = flags(Component::KubeProxy);
    assert_eq!(proxy_flags, ["--config=/etc/kubernetes/kube-proxy-config.yaml", "--v=3"]);
    let file = proxy::config(&scope);
    assert!(file.contains("mode: ipvs\n") && file.contains("maxPerCore: 0\n"), "{file}");
    assert!(file.contains("featureGates:\n  A: true\n  B: false\n"), "{file}");
    assert!(file.contains("tcpTimeout: \"15m\"\n") && file.contains("udpTimeout: \"5m\"\n"), "{file}");
    // The runtime follows the kubelet's driver, although cgroup v1 would mean the other.
    assert_eq!(runtime::cgroup_driver(&config, &facts).as_str(), "systemd");
    let text = unit::write(Component::Etcd, "/usr/bin/etcd", &scope);
    assert!(text.contains("ETCD_UNSUPPORTED_ARCH=arm64"), "{text}");
}

fn shared() -> Option<PathBuf> {
    let given = std::env::var_os("EGGO_TEST_DATA").map(PathBuf::from);
    let found = given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"));
    found.join("cis/cis-1.20/master.yaml").exists().then_some(found)
}

/// The benchmark reads the flags out of the units, as they will be on the nodes.
#[test]
fn the_cis_benchmark_passes_but_for_pod_security_policies() {
    let Some(data) = shared() else {
        println!("skipped: no test data");
        return;
    };
    let (config, facts) = (config("runtime: containerd\n"), facts());
    let folder = tempfile::tempdir().unwrap();
    for (component, host) in [
        (Component::Etcd, "m1"),
        (Component::KubeApiserver, "m1"),
        (Component::KubeControllerManager, "m1"),
        (Component::KubeScheduler, "m1"),
        (Component::Kubelet, "w1"),
    ] {
        let text = unit::write(component, "/usr/bin/x", &scope(&config, &facts, host, 20));
        let flags: Vec<&str> = text.split_whitespace().filter(|word| word.starts_with("--")).collect();
        std::fs::write(folder.path().join(format!("{component}.flags")), flags.join("\n")).unwrap();
    }
    let file = kubelet::config(&scope(&config, &facts, "w1", 20));
    std::fs::write(folder.path().join("kubelet-config.yaml"), file).unwrap();
    let output = Command::new("python3").arg(data.join("../oracles/cischeck.py")).arg(folder.path()).output();
    let output = output.expect("python3 runs");
    let text = String::from_utf8(output.stdout).unwrap();
    if !output.status.success() {
        println!("skipped: the benchmark's reader does not run: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert!(text.starts_with("pass 45 fail 1\n") && text.contains("PodSecurityPolicy"), "{text}");
}

#[test]
fn containerd_s_settings_are_merged_key_by_key() {
    let config = config(
        "runtime: containerd\nregistry-mirrors: [mirror.example.com]\ninsecure-registries: [\"reg.example.com:5000\"]\n",
    );
    let mut facts = facts();
    let user = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nrestrict_oom_score_adj = true\n\
                [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nSystemdCgroup = false\nBinaryName = \"/x\"\n";
    facts.settings.insert("/etc/containerd/conf.d/mine.toml".into(), user.as_bytes().to_vec());
    facts.cni_bin_dirs = vec!["/opt/cni/bin".into()];
    let files = runtime::files(&config, &facts, Version::new(1, 20, 0)).unwrap();
    let text = String::from_utf8(files[0].content.to_vec()).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let cri = &table["plugins"]["io.containerd.grpc.v1.cri"];
    assert_eq!(cri["sandbox_image"].as_str(), Some("k8s.gcr.io/pause:3.2"));
    assert_eq!(cri["restrict_oom_score_adj"].as_bool(), Some(true));
    assert_eq!(cri["cni"]["bin_dir"].as_str(), Some("/opt/cni/bin"));
    let options = &cri["containerd"]["runtimes"]["runc"]["options"];
    assert_eq!(options["BinaryName"].as_str(), Some("/x"));
    assert_eq!(
        runtime::cgroup_driver(&config, &facts).as_str(),
        "cgroupfs",
        "the kubelet agrees with the user's file"
    );
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        paths[1..],
        [
            "/etc/containerd/certs.d/docker.io/hosts.toml",
            "/etc/containerd/certs.d/reg.example.com:5000/hosts.toml"
        ]
    );
    facts.settings.insert("/etc/containerd/conf.d/bad.toml".into(), b"x = [".to_vec());
    assert!(runtime::files(&config, &facts, Version::new(1, 20, 0)).is_err());
    facts.settings.remove("/etc/containerd/conf.d/bad.toml");
    // containerd 2 has other sections.
    for (version, folders) in [
        ((2, 0), "bin_dir = \"/opt/cni/bin\""),
        ((2, 4), "bin_dirs = [\"/usr/libexec/cni\", \"/opt/cni/bin\"]"),
    ] {
        let mut facts = facts.clone();
        facts.programs.get_mut("containerd").unwrap().version = Some(Version::new(version.0, version.1, 0));
        let refused = runtime::files(&config, &facts, Version::new(1, 20, 0)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`/etc/containerd/conf.d/mine.toml` has containerd's settings in version 2, and its containerd takes version 3"
        );
        facts.settings.clear();
        let text = String::from_utf8(
            runtime::files(&config, &facts, Version::new(1, 20, 0)).unwrap()[0].content.to_vec(),
        )
        .unwrap();
        assert!(text.contains("version = 3") && text.contains("pinned_images"), "{text}");
        assert!(text.contains(folders), "{text}");
    }
}

fn docker(config: &Config, facts: &Facts) -> Option<String> {
    let files = runtime::files(config, facts, Version::new(1, 20, 0)).ok()?;
    assert_eq!(files[0].path, "/etc/docker/daemon.json");
    String::from_utf8(files[0].content.to_vec()).ok()
}

#[test]
fn daemon_json_keeps_the_user_s_keys() {
    let config = config("runtime: docker\nregistry-mirrors: [https://a.example.com]\n");
    let mut facts = facts();
    let path = "/etc/docker/daemon.json";
    let user = r#"{"default-runtime": "mine", "exec-opts": ["native.cgroupdriver=cgroupfs"], "registry-mirrors": ["https://b.example.com"]}"#;
    facts.settings.insert(path.into(), user.as_bytes().to_vec());
    let first = docker(&config, &facts).unwrap();
    let value: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!(value["default-runtime"], "mine");
    assert_eq!(value["exec-opts"][0], "native.cgroupdriver=cgroupfs");
    assert_eq!(value["registry-mirrors"].as_array().unwrap().len(), 2);
    assert_eq!(runtime::cgroup_driver(&config, &facts).as_str(), "cgroupfs");
    // The second time our own file is there, and the user's beside it: the same comes out.
    facts.settings.insert(format!("/var/lib/eggo/kept/original{path}"), user.as_bytes().to_vec());
    facts.settings.insert(path.into(), first.clone().into_bytes());
    assert_eq!(docker(&config, &facts).unwrap(), first);
    // Docker ended with 1.23.
    let error = runtime::files(&config, &facts, Version::new(1, 24, 0)).unwrap_err();
    assert_eq!(error.to_string(), "docker is a runtime for Kubernetes up to 1.23, and this is 1.24.0");
}

/// `/etc/isulad/daemon.json` as iSulad's package brings it, where nobody has set anything yet.
#[test]
fn isulad_s_empty_settings_are_not_the_user_s() {
    let packaged = r#"{"group": "isula", "graph": "/var/lib/isulad", "registry-mirrors": ["docker.io"], "insecure-registries": [],
        "pod-sandbox-image": "", "network-plugin": "", "cni-bin-dir": "", "cni-conf-dir": "", "enable-cri-v1": false}"#;
    let mut facts = facts();
    facts.cni_bin_dirs = vec!["/opt/cni/bin".into()];
    facts.settings.insert("/etc/isulad/daemon.json".into(), packaged.into());
    let more = "runtime: iSulad\nregistry-mirrors: [https://a.example.com]\ninsecure-registries: [b.example.com:5000]\n";
    let config = config(more);
    let made = |facts: &Facts, minor| -> serde_json::Value {
        let files = runtime::files(&config, facts, Version::new(1, minor, 0)).unwrap();
        assert_eq!(files[0].path, "/etc/isulad/daemon.json");
        serde_json::from_slice(&files[0].content).unwrap()
    };
    let first = made(&facts, 34);
    for (key, value) in [
        ("pod-sandbox-image", "k8s.gcr.io/pause:3.2"),
        ("network-plugin", "cni"),
        ("cni-bin-dir", "/usr/libexec/cni;/opt/cni/bin"),
        ("cni-conf-dir", "/etc/cni/net.d"),
        ("group", "isula"),
        ("graph", "/var/lib/isulad"),
    ] {
        assert_eq!(first[key], value, "{key}");
    }
    assert_eq!(first["registry-mirrors"], serde_json::json!(["https://a.example.com", "docker.io"]));
    assert_eq!(first["insecure-registries"], serde_json::json!(["b.example.com:5000"]));
    assert_eq!(first["enable-cri-v1"], true, "a kubelet of 1.26 and later speaks no other");
    assert_eq!(made(&facts, 20)["enable-cri-v1"], false, "as it was");
    assert_eq!(first["systemd-cgroup"], true, "on cgroup v2");

    // What somebody has set stays, and the kubelet follows.
    let set = packaged.replace(
        "\"pod-sandbox-image\": \"\"",
        "\"pod-sandbox-image\": \"own/pause:1\", \"systemd-cgroup\": false",
    );
    facts.settings.insert("/etc/isulad/daemon.json".into(), set.into());
    assert_eq!(made(&facts, 34)["pod-sandbox-image"], "own/pause:1");
    assert_eq!(made(&facts, 34)["systemd-cgroup"], false);
    assert_eq!(runtime::cgroup_driver(&config, &facts).as_str(), "cgroupfs");
}

#[test]
fn a_daemon_json_of_our_own_follows_the_config() {
    let mut facts = facts();
    let path = "/etc/docker/daemon.json";
    let one =
        docker(&config("runtime: docker\nregistry-mirrors: [https://a.example.com]\n"), &facts).unwrap();
    facts.settings.insert(path.into(), one.into_bytes());
    facts.settings.insert(format!("/var/lib/eggo/kept/absent{path}"), Vec::new());
    let two = docker(&config("runtime: docker\n"), &facts).unwrap();
    assert!(!two.contains("a.example.com"), "{two}");
}

#[test]
fn nginx_passes_on_to_every_master() {
    let config = config("");
    let mut facts = facts();
    facts.stream_module = Some("/usr/lib/nginx/modules/ngx_stream_module.so".into());
    let text = nginx::config(&config, 8443, &facts);
    assert!(text.contains("load_module /usr/lib/nginx/modules/ngx_stream_module.so;"));
    assert!(text.contains("server 192.168.0.2:6443") && text.contains("server 192.168.0.3:6443"));
    assert!(text.contains("listen 8443;"));
}

#[test]
fn coredns_forwards_only_where_there_is_somewhere_to() {
    let config = config("");
    let ip = "192.168.0.2".parse().unwrap();
    assert!(!coredns::corefile(&config, ip, coredns::Upstream::None).contains("forward"));
    let text = coredns::corefile(&config, ip, coredns::Upstream::File("/etc/resolv.conf"));
    assert!(text.contains("bind 192.168.0.2\n") && text.contains("forward . /etc/resolv.conf\n"), "{text}");
    let objects = coredns::service_objects(&config).to_string();
    assert!(objects.contains("\"clusterIP\":\"10.32.0.10\"") && objects.contains("192.168.0.3"));
}

#[test]
fn real_networks_get_the_pod_network() {
    let Some(data) = shared() else {
        println!("skipped: no test data");
        return;
    };
    let config = config("");
    let calico = std::fs::read_to_string(data.join("addons/calico-v3.19.1.yaml")).unwrap();
    let patched = addons::with_pod_network(&calico, &config.network.pod_cidr);
    assert!(
        patched
            .contains("            - name: CALICO_IPV4POOL_CIDR\n              value: \"10.244.0.0/16\"\n")
    );
    let objects = addons::objects("calico.yaml", &patched).unwrap();
    assert!(objects.iter().any(|object| object.kind == "DaemonSet" && object.name == "calico-node"));
    assert_eq!(objects.len(), addons::objects("calico.yaml", &calico).unwrap().len());
    let other: Config =
        parse("deploy.yaml", DEPLOY.replace("10.244.0.0", "10.99.0.0").as_bytes()).ok().unwrap().config;
    let flannel = std::fs::read_to_string(data.join("addons/flannel-v0.28.yaml")).unwrap();
    let patched = addons::with_pod_network(&flannel, &other.network.pod_cidr);
    assert!(patched.contains("\"Network\": \"10.99.0.0/16\""), "{patched}");
}
