//! Three masters with stacked etcd behind nginx: one dies and comes back; certificates are renewed, a
//! worker joins and leaves, a master leaves, and the programs are upgraded, while the API answers.

use eggo_deploy::pki::{AuthorityName, Folder, Names, Profile, Usage};
use eggo_tests::expired::{expire, old_authorities};
use eggo_tests::lab::{Kind, Lab};
use eggo_tests::site::{PROGRAMS, Place, Release, Site, run, succeed};
use jiff::{SignedDuration, Timestamp};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn three_masters_behind_a_load_balancer() {
    let hosts = ["m", "n", "o", "w", "x"].map(|name| (name, Kind::DebAmd64));
    let Some(lab) = Lab::take(&hosts) else { return };
    let Some(site) = Site::new(lab, "three", Release::wanted(), "debian") else { return };
    let bundle = site.build();
    let balancer = format!(
        "loadbalance: {{name: w, ip: {}, port: 22, arch: amd64, bind-port: 8443}}\n{}",
        site.host("w").address(),
        old_authorities(&site)
    );
    let mut places = vec![
        Place { host: "m", lists: &["masters", "workers"] },
        Place { host: "n", lists: &["masters"] },
        Place { host: "o", lists: &["masters"] },
        Place { host: "w", lists: &["workers"] },
    ];
    site.describe("ha", &places, &balancer);
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

    // A worker joins. It has a disk of its own for pods.
    site.host("x").exec("mkdir -p /var/lib/kubelet; mount -t tmpfs disk /var/lib/kubelet");
    places.push(Place { host: "x", lists: &["workers"] });
    site.describe("ha", &places, &balancer);
    let join = || {
        let mut join = site.install(&["join"]);
        join.arg(&bundle).arg("--pubkey").arg(site.path("key.pub")).arg("--yes");
        join
    };
    succeed(join());
    assert!(site.kubectl("o", "get node x --no-headers").contains(" Ready "));
    assert_eq!(site.host("x").exec("cat /run/eggo-operator").trim(), "join");

    // It was off for so long that its certificate has expired: the same command takes it in again.
    let client = "/var/lib/kubelet/pki/kubelet-client";
    let expired = expired_certificate();
    site.host("x").exec(&format!(
        "systemctl stop kubelet; rm {client}-*\ncat >{client}-old.pem <<'END'\n{expired}END\n\
         ln -s {client}-old.pem {client}-current.pem; systemctl start --no-block kubelet"
    ));
    succeed(join());
    site.host("x")
        .exec(&format!("! cmp -s {client}-old.pem {client}-current.pem; systemctl is-active kubelet"));
    assert!(!site.host("x").exec("ls /etc/kubernetes").contains("bootstrap"), "the token is gone");

    // A kubelet that asks for a new serving certificate gets it with the others.
    let serving = "/var/lib/kubelet/pki/kubelet-server";
    site.host("w").exec(&format!("rm {serving}-*; systemctl restart kubelet"));
    succeed(site.install(&["certs", "renew", "--yes"]));
    site.host("w")
        .exec(&format!("timeout 60 sh -c 'until [ -s {serving}-current.pem ]; do sleep 0.5; done'"));
    succeed(site.install(&["etcd", "backup"]));

    everything_has_expired(&site);

    // A version whose kubelet does not start: the workers go back to what they had.
    let former = bundle;
    let next = patched(&site, "next");
    let broken = patched(&site, "broken");
    fs::copy(next.join("amd64/kube-proxy"), broken.join("amd64/kubelet")).unwrap();
    let bundle = site.build_next("broken", &broken);
    let refused = run(upgrade(&site, &bundle));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{told}");
    assert!(told.contains("back on its former version, and Ready"), "{told}");
    let nodes = site.kubectl("o", "get nodes --no-headers");
    assert_eq!(nodes.matches(site.release.kubernetes).count(), 3, "{nodes}");
    assert_eq!(nodes.matches(" Ready ").count(), 3, "{nodes}");

    // The fixed one. It is killed while it works on a master and while it works on a worker, and goes on.
    let bundle = site.build_next("next", &next);
    killed_at(upgrade(&site, &bundle), "m: upgrading");
    killed_at(upgrade(&site, &bundle), "w: upgrading");
    succeed(upgrade(&site, &bundle));
    let again = run(upgrade(&site, &bundle));
    let told = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && told.contains("every node is already up to date"), "{told}");
    assert!(!told.contains(": upgrading"), "{told}");
    let nodes = site.kubectl("o", "get nodes --no-headers");
    assert_eq!(nodes.matches(site.release.next).count(), 3, "{nodes}");
    assert!(!nodes.contains("SchedulingDisabled"), "{nodes}");

    // An install never downgrades.
    let mut back = site.install(&[]);
    back.arg(&former).arg("--pubkey").arg(site.path("key.pub")).arg("--yes");
    let refused = run(back);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{told}");
    let runs = format!("version: running Kubernetes {}", site.release.next);
    assert!(told.contains(&runs) && told.contains("use eggo-install upgrade"), "{told}");

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
    site.host("x").exec("mountpoint -q /var/lib/kubelet && [ -z \"$(ls -A /var/lib/kubelet)\" ]");
    assert!(site.kubectl("o", "get configmap").contains("while-one-is-dead"));
}

/// No member of etcd works alone, and the API does not answer: one command makes all of it work again.
fn everything_has_expired(site: &Site) {
    expire(site, &["m", "n", "o", "w", "x"]);
    let status = run(site.install(&["certs", "status"]));
    let told = String::from_utf8_lossy(&status.stderr);
    assert_eq!(status.status.code(), Some(4), "{told}");
    assert!(String::from_utf8_lossy(&status.stdout).contains("  expired"), "{told}");
    assert!(told.contains("have expired") && told.contains("eggo-install certs renew"), "{told}");
    succeed(site.install(&["certs", "renew", "--yes"]));
    succeed(site.install(&["certs", "status"]));
    succeed(site.install(&["status"]));
    assert!(site.kubectl("o", "get configmap").contains("while-one-is-dead"));
    let nodes = site.kubectl("n", "get nodes --no-headers");
    assert_eq!(nodes.matches(" Ready ").count(), 3, "{nodes}");
}

/// A kubelet's certificate of more than a year ago, with its key.
fn expired_certificate() -> String {
    let then = Timestamp::now() - SignedDuration::from_hours(24 * 400);
    let folder = tempfile::tempdir().unwrap();
    let pki = Folder::prepare(folder.path(), None, then).unwrap();
    let profile = Profile {
        common_name: "system:node:x".to_string(),
        organisation: Some("system:nodes".to_string()),
        usage: Usage::Client,
        names: Names::default(),
    };
    let leaf = pki.authority(AuthorityName::Cluster).sign("kubelet", &profile, then).unwrap();
    format!("{}{}", leaf.certificate, *leaf.key)
}

/// The same programs under the name of another version, in a folder of that name.
fn patched(site: &Site, name: &str) -> PathBuf {
    let folder = site.path(name);
    fs::create_dir_all(folder.join("amd64")).unwrap();
    let from = site.release.programs("amd64");
    for program in PROGRAMS {
        let mut bytes = fs::read(from.join(program)).unwrap();
        replace(&mut bytes, site.release.kubernetes, site.release.next);
        fs::write(folder.join("amd64").join(program), bytes).unwrap();
    }
    folder
}

fn upgrade(site: &Site, bundle: &Path) -> Command {
    let mut command = site.install(&["upgrade"]);
    command.arg(bundle).arg("--pubkey").arg(site.path("key.pub")).arg("--yes");
    command
}

/// Kills it half a second after it has said this.
fn killed_at(mut command: Command, words: &str) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let told = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut lines = told.lines().map_while(Result::ok).inspect(|line| println!("{line}"));
    assert!(lines.any(|line| line.contains(words)), "it never said `{words}`");
    std::thread::sleep(Duration::from_millis(500));
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
}

fn replace(bytes: &mut [u8], from: &str, to: &str) {
    let (from, to) = (format!("v{from}"), format!("v{to}"));
    let (from, to) = (from.as_bytes(), to.as_bytes());
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(from.len()).position(|window| window == from) {
        bytes[at + found..at + found + from.len()].copy_from_slice(to);
        at += found + from.len();
    }
}
