use super::*;

/// A node with such links (as `ip` lists them), name spaces and chains.
fn node(sandbox: &Sandbox, links: &[&str], spaces: &[&str], chains: &str) {
    let name = |link: &&str| link.split(['@', ':', ' ']).next().unwrap().to_string();
    let devices: String = links.iter().map(|link| format!("{:>6}: 0 0\n", name(link))).collect();
    sandbox.write("node/proc/net/dev", &format!("Inter-| Receive\n face |bytes\n{devices}"));
    let _ = std::fs::remove_dir_all(sandbox.path("node/run/netns"));
    spaces.iter().for_each(|space| sandbox.write(&format!("node/run/netns/{space}"), ""));
    let links: String = links.iter().map(|link| format!("3: {link} link/ether 52:8c\n")).collect();
    let spaces: String = spaces.iter().map(|name| format!("{name} (id: 0)\n")).collect();
    sandbox.write("links", &links);
    sandbox.write("spaces", &spaces);
    sandbox.program(
        "ip",
        "case $* in '-o link') cat links ;; 'netns list') cat spaces ;; *) echo \"$@\" ;; esac",
    );
    sandbox.program("iptables-save", &format!("printf '%s' '{chains}'"));
    sandbox.program("ip6tables-save", ":");
}

fn note(sandbox: &Sandbox) {
    assert_eq!(sandbox.does(call(sandbox, &["note_networks"])), "");
}

/// What goes on a node that had some links and name spaces, and has more now; the links by name only if
/// they are no pod's.
fn removed(before: (&[&str], &[&str]), now: (&[&str], &[&str])) -> Vec<String> {
    let sandbox = Sandbox::new();
    node(&sandbox, before.0, before.1, "");
    note(&sandbox);
    node(&sandbox, now.0, now.1, "");
    sandbox.does(call(&sandbox, &["remove_networks"])).lines().map(str::to_string).collect()
}

fn named() -> Vec<String> {
    let names = ["cni0", "flannel.1", "flannel-v6.1", "kube-ipvs0", "kube-bridge", "vxlan.calico", "tunl0"];
    names.map(|name| format!("link delete {name}")).into()
}

#[test]
fn links_of_pods_go_and_those_of_other_containers_stay() {
    let users = ["lo: mtu 1", "docker0: mtu 1", "veth1@if2: mtu 1 master docker0 state UP link-netnsid 0"];
    let ours = [
        "cni0: mtu 1",
        "veth2@if2: mtu 1 master cni0 state UP link-netnsid 1",
        "veth3@if2: mtu 1 master br-pods state UP link-netns cni-3",
        "veth4@if2: mtu 1 state UP link-netns cni-4",
        "cali5@if2: mtu 1 state UP link-netnsid 4",
        // Containers that came later.
        "veth6@if2: mtu 1 master docker0 state UP link-netnsid 5",
        "veth7@if2: mtu 1 master cni-podman0 state UP link-netns cni-7",
        "veth8@veth9: mtu 1 state UP",
    ];
    let now: Vec<&str> = users.into_iter().chain(ours).collect();
    let spaces = ["cni-0", "cni-3", "cni-4", "cni-7", "users"];
    let mut expected: Vec<String> =
        ["veth2", "veth3", "veth4", "cali5"].map(|name| format!("link delete {name}")).into();
    expected.extend(["cni-3", "cni-4"].map(|name| format!("netns delete {name}")));
    expected.extend(named());
    assert_eq!(removed((&users, &["cni-0"]), (&now, &spaces)), expected);
}

#[test]
fn a_bridge_that_was_there_keeps_what_hangs_on_it() {
    let users = ["cni0: mtu 1", "veth1@if2: mtu 1 master cni0 link-netns cni-1"];
    let now = [users[0], users[1], "veth2@if2: mtu 1 master cni0 link-netns cni-2"];
    let spaces = ["cni-1", "cni-2"];
    assert_eq!(removed((&users, &["cni-1"]), (&now, &spaces)), named()[1..]);
}

#[test]
fn without_a_note_all_pods_go() {
    let sandbox = Sandbox::new();
    node(&sandbox, &["veth1@if2: mtu 1 master cni0"], &["cni-1"], "");
    let said = sandbox.does(call(&sandbox, &["remove_networks"]));
    assert!(said.starts_with("link delete veth1\nnetns delete cni-1\nlink delete cni0\n"), "{said}");
}

#[test]
fn data_and_rules_of_before_are_noted_once() {
    for (chains, users) in [(":KUBE-X - [0:0]\n", false), ("*nat\n:CNI-X - [0:0]\n", true)] {
        let sandbox = Sandbox::new();
        let was_there = |line: &str| sandbox.run(call(&sandbox, &["was_there", line])).done;
        node(&sandbox, &[], &[], chains);
        if users {
            sandbox.write("node/var/lib/cni/last_reserved_ip", "");
        }
        assert!(!was_there("data"), "there is no note yet");
        note(&sandbox);
        sandbox.write("node/var/lib/cni/ours", "");
        node(&sandbox, &[], &[], ":CNI-OURS - [0:0]\n");
        note(&sandbox);
        assert_eq!((was_there("data"), was_there("chains")), (users, users));
    }
}

/// What CNI plugins noted stays where they had noted something before.
#[test]
fn data_of_other_containers_stays() {
    for users in [true, false] {
        let sandbox = Sandbox::new();
        sandbox.program("ip", ":");
        for file in ["kubelet.conf", "kubelet/pods/x", "node/var/lib/cni/x"] {
            sandbox.write(file, "");
        }
        sandbox.write("kept/users-networks", if users { "data\n" } else { "" });
        let (key, folder) = (sandbox.at("kubelet.conf"), sandbox.at("kubelet"));
        sandbox.does(call(&sandbox, &["forget_pods", &key, &folder]));
        assert!(!sandbox.has("kubelet.conf") && !sandbox.has("kubelet"));
        assert_eq!(sandbox.has("node/var/lib/cni"), users);
    }
}

#[test]
fn rules_of_pods_go_and_those_of_other_containers_stay() {
    let users = "*nat\n:PREROUTING ACCEPT [0:0]\n:DOCKER - [0:0]\n-A PREROUTING -m comment --comment \"a \\\\ b\" -j DOCKER\n";
    let plugins = ":CNI-1 - [0:0]\n-A POSTROUTING -s 10.9.0.2/32 -j CNI-1\n";
    let ours = ":KUBE-SVC - [0:0]\n:cali-nat - [0:0]\n-A PREROUTING -j KUBE-SVC\n\
                -A FORWARD -m comment --comment \"cali:x\" -j ACCEPT\n-A FORWARD -j FLANNEL-FWD\n";
    let left = |noted: &str, rules: &str, fails: &str| {
        let sandbox = Sandbox::new();
        sandbox.write("kept/users-networks", noted);
        sandbox.write("rules", rules);
        sandbox.program("iptables-save", &format!("cat rules; {fails}"));
        sandbox.program("iptables-restore", "cat > restored");
        sandbox.program("ip6tables-save", ":");
        sandbox.program("kube-proxy", "echo \"$@\" > cleaned");
        sandbox.does(call(&sandbox, &["remove_rules", &sandbox.at("bin/kube-proxy")]));
        assert_eq!(sandbox.read("cleaned"), "--cleanup\n");
        sandbox.has("restored").then(|| sandbox.read("restored"))
    };
    let all = format!("{users}{plugins}{ours}COMMIT\n");
    assert_eq!(left("", &all, ":").unwrap(), format!("{users}COMMIT\n"));
    assert_eq!(
        left("chains\n", &all, ":").unwrap(),
        format!("{users}{plugins}COMMIT\n"),
        "there were some before"
    );
    assert_eq!(left("", &format!("{users}COMMIT\n"), ":"), None, "nothing is of ours");
    assert_eq!(left("", &all, "exit 1"), None, "an incomplete list puts nothing back");
}
