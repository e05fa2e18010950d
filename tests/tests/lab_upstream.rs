//! The stand-in for the internet is a real one: clients that people use pull, install and fail against it.

use std::process::{Command, Output};

use eggo_tests::lab::{self, Kind, Lab};

#[test]
fn dnf_installs_signed_kubernetes_packages() {
    if lab::kubernetes("1.20.2", "amd64").is_none() || lab::kubernetes("1.20.2", "arm64").is_none() {
        return;
    }
    let Some(lab) = Lab::take(&[("rpm", Kind::RpmAmd64)]) else {
        return;
    };
    let upstream = lab.open_upstream();
    let host = lab.host("rpm");
    let repository = format!(
        "[lab]\nname=lab\nbaseurl={}\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey={}\n",
        upstream.rpm, upstream.rpm_key
    );
    host.write("/etc/yum.repos.d/lab.repo", repository.as_bytes());
    host.exec("dnf -y install kubernetes-node-1.20.2 kubernetes-master-1.20.2 etcd containerd nginx");
    assert_eq!(host.exec("kubelet --version"), "Kubernetes v1.20.2\n");
    host.exec("rpm -q conntrack-tools socat runc kubernetes-client iptables");
    host.exec("iptables --version && conntrack --version && nginx -v && etcd --version");
    host.exec("systemctl start containerd && ctr version");
    let unmet = "rpm -i --test $(dnf repoquery --location kubernetes-node-1.20.2) 2>&1";
    host.exec(&format!("dnf -y remove conntrack-tools && ! {unmet}"));
}

#[test]
fn clients_pull_and_meet_the_faults_they_ask_for() {
    let Some(lab) = Lab::take(&[("a", Kind::DebAmd64)]) else {
        return;
    };
    let upstream = lab.upstream();
    let raw = skopeo(&["inspect", "--raw"], &format!("{}/library/busybox:1.35", upstream.registry));
    let index: serde_json::Value = serde_json::from_slice(&raw.stdout).expect("an index");
    let archs: Vec<_> = index["manifests"]
        .as_array()
        .expect("its manifests")
        .iter()
        .map(|manifest| manifest["platform"]["architecture"].clone())
        .collect();
    assert_eq!(archs, ["amd64", "arm64"]);

    let folder = tempfile::tempdir().expect("a temporary folder");
    let pull = |image: &str| {
        let target = format!("dir:{}", folder.path().display());
        Command::new("skopeo")
            .args(["--insecure-policy", "copy", "--quiet", "--all", "--src-tls-verify=false"])
            .args([&format!("docker://{image}"), &target])
            .output()
            .expect("skopeo is installed by scripts/setup")
    };
    assert!(pull(&format!("{}/pause:3.2", upstream.registry)).status.success());
    let wrong = pull(&upstream.failing_image("wrong", "library/busybox:1.35"));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("Digest did not match"));

    let path = format!("/{}", upstream.rpm_key.rsplit('/').next().unwrap_or_default());
    let whole = curl(&[&format!("{}{path}", upstream.http)]);
    assert!(whole.status.success());
    for (kind, said) in
        [("503", "503"), ("429", "429"), ("404", "404"), ("cut-50", "(18)"), ("short", "(18)")]
    {
        let failed = curl(&[&upstream.failing(kind, &path)]);
        let words = String::from_utf8_lossy(&failed.stderr);
        assert!(!failed.status.success() && words.contains(said), "{kind}: {words}");
    }
    let wrong = curl(&[&upstream.failing("wrong", &path)]);
    assert!(wrong.status.success() && wrong.stdout != whole.stdout);
    assert!(!curl(&[&upstream.failing("503-x1", &path)]).status.success(), "the first time");
    assert!(curl(&[&upstream.failing("503-x1", &path)]).status.success(), "the second time");
    let moved = curl(&[
        "--location",
        "--write-out",
        "%{url_effective}",
        "--output",
        "/dev/null",
        &upstream.failing("redirect", &path),
    ]);
    assert_eq!(String::from_utf8_lossy(&moved.stdout), format!("{}{path}", upstream.other));
    let rest = curl(&["--range", "100-", &format!("{}{path}", upstream.http)]);
    assert_eq!(rest.stdout, whole.stdout[100..]);
}

fn curl(words: &[&str]) -> Output {
    Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--max-time", "20"])
        .args(words)
        .output()
        .expect("curl is installed by scripts/setup")
}

fn skopeo(words: &[&str], image: &str) -> Output {
    Command::new("skopeo")
        .args(words)
        .args(["--tls-verify=false", &format!("docker://{image}")])
        .output()
        .expect("skopeo is installed by scripts/setup")
}
