//! The guide of the README, command by command, on real hosts: a bundle for both archs, a cluster with docker, an upgrade
//! with a delta, an arm64 worker that joins and leaves; pods, services and DNS across both archs; a cleanup without traces.

use eggo_tests::lab::{Kind, Lab};
use eggo_tests::readme::{Line, commands, page, section};
use eggo_tests::ready;
use eggo_tests::site::{DEBIANS, Site, downloads, run, succeed};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What cleanup must leave as it was. A package that was there in an older version keeps the newer one.
const TRACES: &str = "\
{ dpkg-query -W -f '${Package}\\n'; systemctl list-unit-files --no-legend | awk '{print $1}'; \
find /etc /usr/bin /usr/local /opt /var/lib -xdev -newer /root/before -type f 2>/dev/null | grep -vE \
'^/etc/hosts$|^/(var/lib/(dpkg|apt|systemd|ucf|pam)|etc/(ld.so.cache|mtab|group|passwd|shadow|gshadow|subuid|subgid|machine-id|.*-$))|^/etc/(group|passwd|shadow|gshadow|subuid|subgid)-'; \
grep -v '^#' /etc/hosts; awk '{print $2}' /proc/mounts; ip -o link | awk -F'[:@] *' '{print $2}'; iptables-save 2>/dev/null | grep -v '^#' | grep -E 'KUBE|CNI'; } | sort";

/// Commands that ask before they change something.
const ASKING: [&str; 5] = ["k8s.tar.gz", "upgrade", "join", "delete", "cleanup"];

#[test]
fn the_guide_leads_to_a_cluster_of_both_archs() {
    let hosts = [("m1", Kind::DebAmd64), ("w1", Kind::DebAmd64), ("w2", Kind::DebArm64)];
    let Some(lab) = Lab::take(&hosts) else { return };
    let Some(site) = Site::new(lab, "k8s-cluster", DEBIANS, "debian-docker") else { return };
    fs::create_dir_all(site.path("home/.cache")).unwrap();
    std::os::unix::fs::symlink(downloads(), site.path("home/.cache/eggo")).unwrap();
    site.write_manifest(&manifest(&site));
    site.host("w1").exec("touch /root/before");
    let before = site.host("w1").exec(TRACES);

    let mut did = BTreeSet::new();
    for mut line in commands(section(&page(), "From a manifest to a cluster")) {
        fit(&site, &mut line);
        // What only the shell does needs nothing from us.
        let verb = if line.is_ours() { line.words[1].clone() } else { String::new() };
        match verb.as_str() {
            "lock" if did.contains("lock") => change_the_addon(&site),
            "join" => set_workers(&site, &["w1", "w2", "m1"]),
            _ => {}
        }
        let output = run(typed(&site, &line));
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(line.exit), "{:?}: {told}", line.words);
        match verb.as_str() {
            "template" => fit_into_the_lab(&site),
            "k8s.tar.gz" => {
                assert_ready(&site, 2);
                let again = succeed(typed(&site, &line));
                assert!(again.contains("nothing to do"), "{again}");
            }
            "upgrade" => {
                let round = "get daemonset web -o jsonpath='{.metadata.annotations.round}'";
                assert_eq!(site.kubectl("m1", round), "second");
                assert_ready(&site, 2);
            }
            "join" => {
                assert_ready(&site, 3);
                pods_of_both_archs_work_together(&site);
                secrets_are_roots_alone(&site);
            }
            "delete" => assert_ready(&site, 2),
            _ => {}
        }
        did.insert(verb);
    }
    for verb in ["keygen", "build", "check", "split", "verify", "plan", "status", "certs", "etcd", "cleanup"]
    {
        assert!(did.contains(verb), "the guide has no `{verb}`");
    }

    let after = site.host("w1").exec(TRACES);
    let lines = |text: &str| text.lines().map(str::to_string).collect::<BTreeSet<String>>();
    let differing: Vec<String> = lines(&before).symmetric_difference(&lines(&after)).cloned().collect();
    assert!(differing.is_empty(), "cleanup leaves traces: {differing:?}");
    assert_eq!(site.host("m1").exec("ls -d /run/eggo /var/lib/eggo 2>/dev/null || true"), "");
    let told = run(site.install(&["status"]));
    assert_eq!(told.status.code(), Some(1), "no cluster any more");
}

fn manifest(site: &Site) -> PathBuf {
    site.path("manifests/debian-k8s-1.36.yaml")
}

/// The lab's addresses; somebody who says yes; images go with the rest.
fn fit(site: &Site, line: &mut Line) {
    for word in &mut line.words {
        for (host, last) in site.lab.hosts().iter().zip(1..) {
            *word = word.replace(&format!("192.168.7.{last}"), host.address());
        }
    }
    if line.words[0] == "eggo-install" && ASKING.contains(&line.words[1].as_str()) {
        line.words.push("--yes".into());
    }
    if line.words[1] == "cleanup" {
        line.words.push("--images".into());
    }
}

/// As typed in the site's folder.
fn typed(site: &Site, line: &Line) -> Command {
    let mut command = line.command();
    command.current_dir(site.path("")).env("HOME", site.path("home")).env_remove("SSH_AUTH_SOCK");
    command.env("EGGO_KEY_PASSWORD", "secret").env("EGGO_STATE_DIR", site.path("state")).stdin(Stdio::null());
    command
}

/// deploy.yaml as the template made it, for the lab's hosts; the arm64 worker comes later.
fn fit_into_the_lab(site: &Site) {
    let mut deploy = ready::parse(&fs::read_to_string(site.path("deploy.yaml")).unwrap());
    site.settle(&mut deploy);
    deploy["runtime"] = json!("docker");
    fs::write(site.path("deploy.yaml"), deploy.to_string()).unwrap();
    fs::copy(site.path("deploy.yaml"), site.path("all.yaml")).unwrap();
    set_workers(site, &["w1", "m1"]);
}

fn set_workers(site: &Site, names: &[&str]) {
    let mut deploy = ready::parse(&fs::read_to_string(site.path("all.yaml")).unwrap());
    ready::list(&mut deploy, "workers").retain(|node| names.iter().any(|name| node["name"] == *name));
    assert_eq!(ready::list(&mut deploy, "workers").len(), names.len());
    fs::write(site.path("deploy.yaml"), deploy.to_string()).unwrap();
}

fn change_the_addon(site: &Site) {
    let path = site.path("manifests/web.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let changed = text.replacen("{name: web,", "{name: web, annotations: {round: second},", 1);
    assert_ne!(text, changed);
    fs::write(path, changed).unwrap();
}

fn assert_ready(site: &Site, count: usize) {
    let nodes = site.kubectl("m1", "get nodes --no-headers");
    assert_eq!(nodes.matches(" Ready ").count(), count, "{nodes}");
    assert_eq!(nodes.lines().count(), count, "{nodes}");
}

fn pods_of_both_archs_work_together(site: &Site) {
    let pods = site.kubectl("m1", "get pods -o wide --no-headers");
    assert_eq!(pods.matches("Running").count(), 3, "{pods}");
    let pod_on = |node: &str| {
        let selector = format!("get pods -l app=web --field-selector spec.nodeName={node} -o name");
        site.kubectl("m1", &selector).trim().to_string()
    };
    for (node, machine) in [("w1", "x86_64"), ("w2", "aarch64")] {
        let said = site.kubectl("m1", &format!("exec {} -- cat /www/index.html", pod_on(node)));
        assert_eq!(said.trim(), machine);
    }
    // From a pod: the name of a service by the cluster's DNS, answered by the pods of both nodes.
    let pod = pod_on("w1");
    // (The static busybox can neither resolve names in wget nor keep a time limit.)
    let name = site.kubectl("m1", &format!("exec {pod} -- nslookup web.default.svc.cluster.local"));
    let ip = site.kubectl("m1", "get svc web -o jsonpath='{.spec.clusterIP}'");
    assert!(name.contains(ip.trim()), "{name}");
    let ask =
        format!("sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do wget -qO- http://{}/; done'", ip.trim());
    let answers = site.kubectl("m1", &format!("exec {pod} -- {ask}"));
    assert!(answers.contains("x86_64") && answers.contains("aarch64"), "{answers}");
}

/// And the administrator's kubeconfig is nowhere.
fn secrets_are_roots_alone(site: &Site) {
    for host in ["m1", "w1"] {
        let open = site.host(host).exec(
            "find /etc/kubernetes /var/lib/eggo /run/eggo -type f \\( -name '*.key' -o -name '*.conf' -o -name '*kubeconfig*' \\) -perm /077 -size +0; \
             grep -rls kubernetes-admin /etc/kubernetes /root /run/eggo 2>/dev/null || true",
        );
        assert_eq!(open.trim(), "", "{host}");
    }
}
