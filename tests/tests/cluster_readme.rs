//! One master, one amd64 and one arm64 worker, with docker: pods on both archs, services, DNS, an addon;
//! a second run, a look, a cleanup, and the same hosts once more.

use eggo_tests::lab::{Kind, Lab};
use eggo_tests::site::{DEBIANS, Place, Site, run, succeed};
use std::collections::BTreeSet;

const PLACES: [Place<'_>; 3] = [
    Place { host: "m", lists: &["masters"] },
    Place { host: "w", lists: &["workers"] },
    Place { host: "a", lists: &["workers"] },
];

/// What cleanup must leave as it was. A package that was there in an older version keeps the newer one.
const TRACES: &str = "\
{ dpkg-query -W -f '${Package}\\n'; systemctl list-unit-files --no-legend | awk '{print $1}'; \
find /etc /usr/bin /usr/local /opt /var/lib -xdev -newer /root/before -type f 2>/dev/null | grep -vE \
'^/etc/hosts$|^/(var/lib/(dpkg|apt|systemd|ucf|pam)|etc/(ld.so.cache|mtab|group|passwd|shadow|gshadow|subuid|subgid|machine-id|.*-$))|^/etc/(group|passwd|shadow|gshadow|subuid|subgid)-'; \
grep -v '^#' /etc/hosts; awk '{print $2}' /proc/mounts; ip -o link | awk -F'[:@] *' '{print $2}'; iptables-save 2>/dev/null | grep -v '^#' | grep -E 'KUBE|CNI'; } | sort";

#[test]
fn amd64_and_arm64_workers_in_one_cluster() {
    let hosts = [("m", Kind::DebAmd64), ("w", Kind::DebAmd64), ("a", Kind::DebArm64)];
    let Some(lab) = Lab::take(&hosts) else { return };
    let Some(site) = Site::new(lab, "mixed", DEBIANS) else { return };
    let bundle = site.build(&["docker.io", "containerd"]);
    site.describe(&PLACES, "runtime: docker\n");
    site.host("w").exec("touch /root/before");
    let before = site.host("w").exec(TRACES);

    succeed(site.deploy(&bundle));
    let nodes = site.kubectl("m", "get nodes --no-headers -L kubernetes.io/arch");
    assert_eq!(nodes.matches(" Ready ").count(), 2, "{nodes}");
    let pods = site.kubectl("m", "get pods -o wide --no-headers");
    assert_eq!(pods.matches("Running").count(), 2, "{pods}");
    for (node, machine) in [("w", "x86_64"), ("a", "aarch64")] {
        let selector = format!("get pods -l app=web --field-selector spec.nodeName={node} -o name");
        let pod = site.kubectl("m", &selector);
        let said = site.kubectl("m", &format!("exec {} -- cat /www/index.html", pod.trim()));
        assert_eq!(said.trim(), machine);
    }
    // From a pod: the name of a service by the cluster's DNS, answered by the pods of both nodes.
    let pod = site.kubectl("m", "get pods -l app=web --field-selector spec.nodeName=w -o name");
    // (The static busybox can neither resolve names in wget nor keep a time limit.)
    let name = site.kubectl("m", &format!("exec {} -- nslookup web.default.svc.cluster.local", pod.trim()));
    let ip = site.kubectl("m", "get svc web -o jsonpath='{.spec.clusterIP}'");
    assert!(name.contains(ip.trim()), "{name}");
    let ask =
        format!("sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do wget -qO- http://{}/; done'", ip.trim());
    let answers = site.kubectl("m", &format!("exec {} -- {ask}", pod.trim()));
    assert!(answers.contains("x86_64") && answers.contains("aarch64"), "{answers}");

    let again = succeed(site.deploy(&bundle));
    assert!(again.contains("nothing to do"), "{again}");
    succeed(site.install(&["status"]));
    // Secrets are root's alone, and the administrator's kubeconfig is nowhere.
    for host in ["m", "w"] {
        let open = site.host(host).exec(
            "find /etc/kubernetes /var/lib/eggo /run/eggo -type f \\( -name '*.key' -o -name '*.conf' -o -name '*kubeconfig*' \\) -perm /077 -size +0; \
             grep -rls kubernetes-admin /etc/kubernetes /root /run/eggo 2>/dev/null || true",
        );
        assert_eq!(open.trim(), "", "{host}");
    }

    succeed({
        let mut command = site.install(&["cleanup"]);
        command.args(["--yes", "--images"]);
        command
    });
    let after = site.host("w").exec(TRACES);
    let lines = |text: &str| text.lines().map(str::to_string).collect::<BTreeSet<String>>();
    let differing: Vec<String> = lines(&before).symmetric_difference(&lines(&after)).cloned().collect();
    assert!(differing.is_empty(), "cleanup leaves traces: {differing:?}");
    let told = run(site.install(&["status"]));
    assert_eq!(told.status.code(), Some(1), "no cluster any more");
}
