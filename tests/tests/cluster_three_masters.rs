//! Three masters with stacked etcd behind nginx: one dies and comes back; certificates are renewed, a
//! worker joins and leaves, a master leaves, and the programs are upgraded, while the API answers.

use eggo_tests::lab::{Kind, Lab};
use eggo_tests::site::{KUBERNETES, Place, Site, programs, succeed};
use std::fs;

const NEXT: &str = "1.20.3";

#[test]
fn three_masters_behind_a_load_balancer() {
    let hosts = ["m", "n", "o", "w", "x"].map(|name| (name, Kind::DebAmd64));
    let Some(lab) = Lab::take(&hosts) else { return };
    let Some(site) = Site::new(lab, "three") else { return };
    let bundle = site.build("bundle", KUBERNETES, &programs(), &["containerd"]);
    let balancer = format!(
        "runtime: containerd\nenable-kubelet-serving: true\nloadbalance: {{name: w, ip: {}, port: 22, arch: amd64, bind-port: 8443}}\n",
        site.host("w").address()
    );
    let mut places = vec![
        Place { host: "m", lists: &["masters", "workers"] },
        Place { host: "n", lists: &["masters"] },
        Place { host: "o", lists: &["masters"] },
        Place { host: "w", lists: &["workers"] },
    ];
    site.describe(&places, &balancer);
    succeed(site.deploy(&bundle));
    let nodes = site.kubectl("o", "get nodes --no-headers");
    assert_eq!(nodes.matches(" Ready ").count(), 2, "{nodes}");
    assert!(site.kubectl("o", "get node m -o jsonpath='{.spec.taints}'").contains("NoSchedule"));

    // A master dies: the API answers and takes changes. It comes back and is well.
    site.host("n").crash();
    site.kubectl("o", "create configmap while-one-is-dead");
    site.host("n").boot();
    let command = format!(
        "for i in $(seq 60); do {}; done; exit 1",
        "systemctl -q is-active etcd kube-apiserver && exit 0; sleep 0.5"
    );
    site.host("n").exec(&command);

    // A worker joins.
    places.push(Place { host: "x", lists: &["workers"] });
    site.describe(&places, &balancer);
    let mut join = site.install(&["join"]);
    join.arg(&bundle).arg("--pubkey").arg(site.path("key.pub")).arg("--yes");
    succeed(join);
    assert!(site.kubectl("o", "get node x --no-headers").contains(" Ready "));

    succeed(site.install(&["certs", "renew"]));
    succeed(site.install(&["etcd", "backup"]));

    // Another version of the programs: the same ones under another name.
    for arch in ["amd64"] {
        let to = site.path("next").join(arch);
        fs::create_dir_all(&to).unwrap();
        for program in [
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubectl",
            "kubelet",
            "kube-proxy",
        ] {
            let from = programs().replace("{arch}", arch);
            let mut bytes = fs::read(format!("{from}/{program}")).unwrap();
            replace(&mut bytes, b"v1.20.2", b"v1.20.3");
            fs::write(to.join(program), bytes).unwrap();
        }
    }
    let next =
        site.build("next", NEXT, &format!("{}/{{arch}}", site.path("next").display()), &["containerd"]);
    let mut upgrade = site.install(&["upgrade"]);
    upgrade.arg(&next).arg("--pubkey").arg(site.path("key.pub")).arg("--yes");
    succeed(upgrade);
    let nodes = site.kubectl("o", "get nodes --no-headers");
    assert_eq!(nodes.matches("v1.20.3").count(), 3, "{nodes}");
    assert!(!nodes.contains("SchedulingDisabled"), "{nodes}");

    // The worker and a master leave; two members of etcd are left.
    let mut delete = site.install(&["delete", "x", "n"]);
    delete.arg("--yes");
    succeed(delete);
    let nodes = site.kubectl("o", "get nodes --no-headers");
    assert!(!nodes.contains("x "), "{nodes}");
    let left = site
        .host("x")
        .exec("ls /etc/kubernetes /usr/bin/kubelet 2>/dev/null; systemctl is-active kubelet || true");
    assert!(!left.contains("kubelet_config") && !left.contains("/usr/bin/kubelet"), "{left}");
    assert!(site.kubectl("o", "get configmap").contains("while-one-is-dead"));
}

fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(from.len()).position(|window| window == from) {
        bytes[at + found..at + found + from.len()].copy_from_slice(to);
        at += found + from.len();
    }
}
