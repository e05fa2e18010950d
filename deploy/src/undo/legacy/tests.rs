use super::*;

/// What the code of 0.1.0 (2a30c53) printed when each function that makes an undo of shell was called: for every runtime,
/// firewall and package manager, and for parameters as odd as deploy.yaml and a node could give them. A record a line.
const WRITTEN: &str = include_str!("written.jsonl");

fn read(step: &str, undo: &Value) -> Result<Vec<Undo>, String> {
    let mut record = serde_json::json!({"record": "intent", "step": step, "undo": undo});
    translate(&mut record)?;
    Ok(serde_json::from_value(record["undo"].clone()).unwrap())
}

fn script(step: &str, title: &str, script: &str) -> Result<Vec<Undo>, String> {
    read(step, &serde_json::json!([{"undo": "script", "title": title, "script": script}]))
}

fn links(into: &str, from: &[&str]) -> Undo {
    Undo::CniLinks { into: into.into(), from: from.iter().map(|folder| folder.to_string()).collect() }
}

#[test]
fn everything_that_was_written_is_an_action_today() {
    let hostname = |was: &str| vec![Undo::Hostname { was: was.into() }];
    let hosts = |cluster: &str| vec![Undo::HostsEntry { cluster: cluster.into() }];
    let ports = |firewall| vec![Undo::FirewallPorts { firewall }];
    let brought = |manager| vec![Undo::BroughtAlong { manager }];
    let settings = |noted| Undo::KernelSettings { noted };
    let rules = |program: &str| vec![Undo::KubeProxyRules { program: program.into() }];
    let [docker, isulad, containerd] =
        ["docker", "isulad", "containerd"].map(|name| name.parse::<RuntimeKind>().unwrap());
    let runtime = |runtime, link: Option<Undo>| {
        let mut undo = vec![Undo::RuntimeAsBefore { runtime }, Undo::ContainersOf { runtime }];
        undo.extend(link.into_iter().chain([Undo::folder("/etc/containerd")]));
        undo
    };
    let with_links = |folders: &[&str], links: Undo| {
        folders.iter().map(|path| Undo::folder(*path)).chain([links]).collect::<Vec<_>>()
    };
    let usual = ["/opt/cni", "/opt/cni/bin"];
    let expected = [
        hostname("node-1"),
        hostname("(none)"),
        hostname("a.b"),
        hostname("it's"),
        hosts("k8s-cluster"),
        hosts("a_b.C"),
        vec![settings(KernelNote::System)],
        ports(Firewall::Firewalld),
        ports(Firewall::Ufw),
        ports(Firewall::Nftables),
        vec![Undo::ReleaseServices],
        brought(Manager::Dpkg),
        vec![Undo::ReleaseServices],
        brought(Manager::Rpm),
        with_links(&usual, links("/opt/cni/bin", &["/usr/libexec/cni"])),
        with_links(&usual, links("/opt/cni/bin", &["/usr/libexec/cni", "/usr/lib/cni"])),
        with_links(&usual, links("/opt/cni/bin", &["/opt/a b", "/opt/it's"])),
        with_links(&["/usr/libexec/cni"; 2], links("/usr/libexec/cni", &["/opt/cni/bin"])),
        vec![links("/srv", &["/opt/cni"])],
        vec![links("/srv", &["/cni"])],
        runtime(containerd, None),
        runtime(docker, Some(Undo::RuntimeLink { runtime: docker })),
        runtime(isulad, None),
        vec![Undo::Pods, settings(KernelNote::Kubelet)],
        rules("/usr/bin/kube-proxy"),
        rules("/usr/local/bin/kube-proxy"),
    ];
    let lines: Vec<&str> = WRITTEN.lines().collect();
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.into_iter().zip(expected) {
        let written: Value = serde_json::from_str(line).unwrap();
        let undo = read(written["step"].as_str().unwrap(), &written["undo"]).unwrap();
        assert_eq!(undo, expected, "{line}");
        undo.iter().for_each(|undo| assert_eq!(undo.check(), Ok(()), "{line}"));
    }
}

#[test]
fn packages_are_known_by_their_names() {
    let packages = |names: Value| {
        read(
            "packages/repositories",
            &serde_json::json!([{"undo": "packages", "manager": "dpkg", "names": names}]),
        )
    };
    let of = |names: &[&str]| {
        let names = names.iter().map(|name| name.to_string()).collect();
        Ok(vec![Undo::Packages { manager: Manager::Dpkg, names }])
    };
    assert_eq!(
        packages(serde_json::json!(["a", "b=1.2-3", "@group", "c:amd64"])),
        of(&["a", "b", "c:amd64"])
    );
    assert_eq!(packages(serde_json::json!(["@group"])), Ok(vec![]));
}

#[test]
fn what_no_version_wrote_is_refused() {
    for (step, title, text) in [
        ("x", "anything", "reboot"),
        ("system/ports", "close ports in shorewall", "…"),
        ("service/podman", "remove docker's bridge", "…"),
        ("docker", "remove docker's bridge", "…"),
        ("", "end the containers and remove their data", "…"),
        ("system/hosts", "remove our names from /etc/hosts", "rm -f /etc/hosts"),
        ("service/containerd", "remove links to CNI programs", "rm -rf /opt/cni"),
        ("service/kube-proxy", "remove kube-proxy's rules", "iptables -F"),
    ] {
        let refused = script(step, title, text).unwrap_err();
        assert_eq!(
            refused,
            format!("no version of eggo-install wrote the script `{}`", title.escape_debug())
        );
    }
}
