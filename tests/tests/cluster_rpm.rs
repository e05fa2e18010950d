//! Kubernetes out of RPMs, as openEuler packages it, on a host that rpm and dnf own: with docker, as eggo's users have it.

use eggo_tests::lab::{Kind, Lab};
use eggo_tests::site::{DEBIANS, Place, Site, succeed};

#[test]
fn all_of_a_cluster_comes_out_of_rpms() {
    let Some(lab) = Lab::take(&[("m", Kind::RpmAmd64)]) else { return };
    let Some(site) = Site::new(lab, "rpm", DEBIANS, "openeuler") else { return };
    let bundle = site.build();
    site.describe("one-node", &[Place { host: "m", lists: &["masters", "workers"] }], "runtime: docker\n");
    let host = site.host("m");
    // (A package that was there in an older version keeps the newer one.)
    let before = host.exec("rpm -qa --qf '%{NAME}\\n' | sort");

    succeed(site.deploy(&bundle));
    assert!(site.kubectl("m", "get nodes --no-headers").contains(" Ready "));
    let pod = site.kubectl("m", "get pods -l app=web -o name");
    let said = site.kubectl("m", &format!("exec {} -- cat /www/index.html", pod.trim()));
    assert_eq!(said.trim(), "x86_64");
    for program in ["etcd", "kube-apiserver", "kubelet", "kube-proxy", "dockerd", "coredns"] {
        host.exec(&format!("rpm -qf --quiet $(command -v {program})"));
    }
    let again = succeed(site.deploy(&bundle));
    assert!(again.contains("nothing to do"), "{again}");

    let mut cleanup = site.install(&["cleanup"]);
    cleanup.args(["--yes", "--images"]);
    succeed(cleanup);
    assert_eq!(host.exec("rpm -qa --qf '%{NAME}\\n' | sort"), before);
}
