//! Networks of containers that a node had before the cluster came: they are the user's, and stay so.

use super::{KEPT, quote, settle, words};

/// Links that the cluster's network makes under these names.
const LINKS: [&str; 7] =
    ["cni0", "flannel.1", "flannel-v6.1", "kube-ipvs0", "kube-bridge", "vxlan.calico", "tunl0"];

/// Where a node notes them: `link NAME`, `netns NAME`, `data` if CNI plugins have some, `chains` if
/// they have rules.
fn noted() -> String {
    format!("{KEPT}/users-networks")
}

/// Shell: makes that note, once.
pub fn note() -> String {
    let noted = noted();
    let settle = settle(&format!("{noted}.new"));
    format!(
        "[ -e {noted} ] || {{ mkdir -p {KEPT}; {{ sed -n 's/^ *\\([^ :]*\\):.*/link \\1/p' /proc/net/dev | sort\n\
         ls /run/netns 2>/dev/null | sed 's/^/netns /'\n\
         if [ -n \"$(ls -A /var/lib/cni 2>/dev/null)\" ]; then echo data; fi\n\
         for t in iptables ip6tables; do if command -v $t-save >/dev/null; then $t-save 2>/dev/null || :; fi; done | \
         awk '/^:CNI-/ {{ found = 1 }} END {{ if (found) print \"chains\" }}'; }} > {noted}.new\n\
         {settle}; mv -f {noted}.new {noted}; }}"
    )
}

/// Shell: succeeds if CNI plugins had data of the user's.
pub fn has_users_data() -> String {
    format!("grep -qsx data {}", noted())
}

/// Shell: succeeds if CNI plugins had rules of the user's.
pub fn has_users_chains() -> String {
    format!("grep -qsx chains {}", noted())
}

/// Shell: removes the links and name spaces of pods. A pod's link leads into a name space that a CNI runtime
/// made, or hangs on our bridge; on a bridge of the user's, or podman's, it is none of a pod. Links of which
/// neither can be told go with their pods. The bridges come last: without them nothing hangs on any.
pub fn remove() -> String {
    let program = r#"
FILENAME == noted { before[$0]; next }
{
  link = $2; sub(/[@:].*/, "", link); master = netns = ""
  for (i = 3; i < NF; i++) { if ($i == "master") master = $(i + 1); if ($i == "link-netns") netns = $(i + 1) }
  if (("link " link) in before) next
  foreign = master != "" && (("link " master) in before || master ~ /^cni-podman/)
  if (foreign && netns != "") print "users", netns
  if (foreign) next
  if (link ~ /^cali/ || link ~ /^veth/ && (netns ~ /^cni-/ || master ~ /^(cni0|kube-bridge)$/)) print "pods", link
}"#;
    format!(
        "if command -v ip >/dev/null; then noted={noted}; [ -e $noted ] || noted=/dev/null\n\
         links=$(ip -o link 2>/dev/null | awk -v noted=$noted {program} $noted - || :)\n\
         for i in $(echo \"$links\" | sed -n 's/^pods //p'); do ip link delete \"$i\" 2>/dev/null || :; done\n\
         for n in $(ip netns list 2>/dev/null | awk '/^cni-/ {{ print $1 }}'); do\n\
         if ! grep -qsx \"netns $n\" $noted && ! echo \"$links\" | grep -qx \"users $n\"; then ip netns delete \"$n\" 2>/dev/null || :; fi; done\n\
         for i in {links}; do grep -qsx \"link $i\" $noted || ip link delete $i 2>/dev/null || :; done\nfi",
        noted = noted(),
        program = quote(program),
        links = words(LINKS),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// Runs a script on a node with such links (as `ip` tells them), name spaces and chains; what `ip` was told.
    fn run(folder: &Path, links: &[&str], spaces: &[&str], chains: &str, script: &str) -> (bool, String) {
        let at = |name: &str| folder.join(name).display().to_string();
        let name = |link: &&str| link.split(['@', ':', ' ']).next().unwrap().to_string();
        let devices: String = links.iter().map(|link| format!("{:>6}: 0 0\n", name(link))).collect();
        std::fs::write(at("devices"), format!("Inter-| Receive\n face |bytes\n{devices}")).unwrap();
        let _ = std::fs::remove_dir_all(at("netns"));
        for space in spaces {
            std::fs::create_dir_all(format!("{}/{}", at("netns"), name(space))).unwrap();
        }
        let told: String = links.iter().map(|link| format!("3: {link} link/ether 52:8c\n")).collect();
        let spaces: String = spaces.iter().map(|name| format!("{name} (id: 0)\n")).collect();
        std::fs::write(at("links"), told).unwrap();
        std::fs::write(at("spaces"), spaces).unwrap();
        let fakes = format!(
            "ip() {{ case $* in '-o link') cat {} ;; 'netns list') cat {} ;; *) echo \"$@\" ;; esac; }}\n\
             tables() {{ printf '{chains}'; }}",
            at("links"),
            at("spaces")
        );
        let script = script.replace("iptables ip6tables", "x").replace("$t-save", "tables");
        let script = script.replace(KEPT, &at("kept")).replace("/var/lib/cni", &at("cni"));
        let script = script.replace("/proc/net/dev", &at("devices")).replace("/run/netns", &at("netns"));
        let output =
            Command::new("sh").args(["-c", &format!("set -eu\n{fakes}\n{script}")]).output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    }

    /// What goes on a node that had some links and name spaces, and has more now; the links by name only if
    /// they are no pod's.
    fn removed(before: (&[&str], &[&str]), now: (&[&str], &[&str])) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(run(folder.path(), before.0, before.1, "", &note()), (true, String::new()));
        let (done, told) = run(folder.path(), now.0, now.1, "", &remove());
        assert!(done);
        told.lines().map(str::to_string).collect()
    }

    fn bridges() -> Vec<String> {
        LINKS.map(|name| format!("link delete {name}")).into()
    }

    #[test]
    fn links_of_pods_go_and_those_of_other_containers_stay() {
        let users =
            ["lo: mtu 1", "docker0: mtu 1", "veth1@if2: mtu 1 master docker0 state UP link-netnsid 0"];
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
        expected.extend(bridges());
        assert_eq!(removed((&users, &["cni-0"]), (&now, &spaces)), expected);
    }

    #[test]
    fn a_bridge_that_was_there_keeps_what_hangs_on_it() {
        let users = ["cni0: mtu 1", "veth1@if2: mtu 1 master cni0 link-netns cni-1"];
        let now = [users[0], users[1], "veth2@if2: mtu 1 master cni0 link-netns cni-2"];
        let spaces = ["cni-1", "cni-2"];
        assert_eq!(removed((&users, &["cni-1"]), (&now, &spaces)), bridges()[1..]);
    }

    #[test]
    fn without_a_note_all_pods_go() {
        let folder = tempfile::tempdir().unwrap();
        let (_, told) = run(folder.path(), &["veth1@if2: mtu 1 master cni0"], &["cni-1"], "", &remove());
        assert!(told.starts_with("link delete veth1\nnetns delete cni-1\nlink delete cni0\n"), "{told}");
    }

    #[test]
    fn data_and_rules_of_before_are_noted_once() {
        for (chains, users) in [(":KUBE-X - [0:0]\\n", false), ("*nat\\n:CNI-X - [0:0]\\n", true)] {
            let folder = tempfile::tempdir().unwrap();
            let data = folder.path().join("cni");
            std::fs::create_dir(&data).unwrap();
            if users {
                std::fs::write(data.join("last_reserved_ip"), "").unwrap();
            }
            let run = |chains: &str, script: &str| run(folder.path(), &[], &[], chains, script).0;
            assert!(!run("", &has_users_data()), "there is no note yet");
            assert!(run(chains, &note()));
            std::fs::write(data.join("ours"), "").unwrap();
            assert!(run(":CNI-OURS - [0:0]\\n", &note()));
            assert_eq!((run("", &has_users_data()), run("", &has_users_chains())), (users, users));
        }
    }
}
