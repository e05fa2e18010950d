//! A cluster whose certificates have all expired, as after more than a year in which nobody looked.
//!
//! Hosts of the lab share this machine's clock, so the certificates are made in the past: the cluster's authorities must be
//! that old, too ([`old_authorities`], before the deploy).

use crate::site::Site;
use eggo_deploy::pki::{Authority, AuthorityName, Certificate, Folder, Names, Profile, Usage};
use jiff::{SignedDuration, Timestamp};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn days_ago(days: i64) -> Timestamp {
    Timestamp::now() - SignedDuration::from_hours(24 * days)
}

/// Makes authorities that are 400 days old; the lines of deploy.yaml that use them.
pub fn old_authorities(site: &Site) -> String {
    let folder = site.path("authorities");
    Folder::prepare(&folder, None, days_ago(400)).expect("authorities");
    format!("external-ca: true\nexternal-ca-path: {}\n", folder.display())
}

/// Puts a certificate that expired two weeks ago in place of every leaf, on the hosts and on the control machine, and starts
/// all components again.
pub fn expire(site: &Site, hosts: &[&str]) {
    let pki = site.path("state").join(site.cluster).join("pki");
    for host in hosts {
        let folder = pki.join("nodes").join(host);
        let mut leaves = Vec::new();
        list(&folder, &mut leaves);
        for path in leaves {
            let name = path.strip_prefix(&folder).expect("it is below").with_extension("");
            let found = Certificate::parse("leaf", &fs::read(&path).expect("a leaf")).expect("a certificate");
            let profile = Profile {
                common_name: found.common_name,
                organisation: found.organisations.into_iter().next(),
                usage: Usage::Both,
                names: Names { dns: found.dns, ips: found.ips },
            };
            sign(&pki, authority_of(&name), &profile, &path.with_extension(""));
        }
        let kubelet = Profile {
            common_name: format!("system:node:{host}"),
            organisation: Some("system:nodes".into()),
            usage: Usage::Client,
            names: Names::default(),
        };
        let client = site.path("kubelet-client");
        sign(&pki, AuthorityName::Cluster, &kubelet, &client);
        let both = ["crt", "key"].map(|end| fs::read_to_string(client.with_extension(end)).expect("a file"));
        site.host(host).write("/run/expired.pem", both.concat().as_bytes());
        let archive =
            Command::new("tar").arg("-C").arg(&folder).args(["-c", "."]).output().expect("tar runs");
        site.host(host).write("/run/expired.tar", &archive.stdout);
        site.host(host).exec(STOP);
    }
    let admin = Profile {
        common_name: "kubernetes-admin".into(),
        organisation: Some("system:masters".into()),
        usage: Usage::Client,
        names: Names::default(),
    };
    sign(&pki, AuthorityName::Cluster, &admin, &pki.join("admin"));
    for host in hosts {
        site.host(host).exec(START);
    }
}

/// Stops everything, and puts the certificates in place.
const STOP: &str = r#"
mkdir -p /run/expired; tar -C /run/expired -xf /run/expired.tar
for unit in kubelet kube-proxy coredns kube-scheduler kube-controller-manager kube-apiserver etcd; do
  ! systemctl -q is-active $unit || { systemctl stop $unit; echo $unit >> /run/expired.units; }
done
cd /run/expired
find . -name '*.crt' -o -name '*.key' | while read -r file; do
  if [ -e "/etc/kubernetes/pki/$file" ]; then cat "$file" > "/etc/kubernetes/pki/$file"; fi
done
for name in controller-manager scheduler kube-proxy coredns; do
  conf=/etc/kubernetes/$name.conf
  [ -e $conf ] && [ -e $name.crt ] || continue
  sed -i -E "s|(client-certificate-data\"?: ).*|\1$(base64 -w0 < $name.crt)|; s|(client-key-data\"?: ).*|\1$(base64 -w0 < $name.key)|" $conf
done
current=/var/lib/kubelet/pki/kubelet-client-current.pem
[ ! -e $current ] || cat /run/expired.pem > $current
"#;

const START: &str = "systemctl start --no-block $(cat /run/expired.units); rm -rf /run/expired*";

fn sign(pki: &Path, name: AuthorityName, profile: &Profile, to: &Path) {
    let read = |end| fs::read_to_string(pki.join(format!("{name}.{end}"))).expect("an authority");
    let authority =
        Authority::load(name.path(), &read("crt"), &read("key"), Timestamp::now()).expect("an authority");
    let leaf = authority.sign("leaf", profile, days_ago(379)).expect("a leaf");
    fs::write(to.with_extension("crt"), leaf.certificate).expect("a file");
    fs::write(to.with_extension("key"), leaf.key.as_bytes()).expect("a file");
}

fn authority_of(leaf: &Path) -> AuthorityName {
    match leaf.to_str().expect("its name is text") {
        "front-proxy-client" => AuthorityName::FrontProxy,
        "apiserver-etcd-client" => AuthorityName::Etcd,
        name if name.starts_with("etcd/") => AuthorityName::Etcd,
        _ => AuthorityName::Cluster,
    }
}

fn list(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the node's leaves").flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, found);
        } else if path.extension().is_some_and(|end| end == "crt") {
            found.push(path);
        }
    }
}
