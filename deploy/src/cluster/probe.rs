//! What a node has once its content is installed: programs and their versions, cgroups, the
//! places of modules, and the user's own settings. One script, one round trip.

use super::paths;
use crate::config::Config;
use crate::facts::programs;
use crate::pki::Certificate;
use crate::remote::{Command, KEPT, Script};
use crate::runtimes::{Reads, RuntimeKind};
use crate::version::Version;
use base64::Engine as _;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probe {
    pub programs: BTreeMap<String, Program>,
    pub cgroup: Cgroup,
    /// Units that came with packages.
    pub units: BTreeSet<String>,
    /// systemd-resolved's list of real name servers, where `/etc/resolv.conf` names only its stub.
    pub resolved: bool,
    /// There is somewhere to forward names to.
    pub name_servers: bool,
    pub stream_module: Option<String>,
    /// Of the configured folders, those with CNI programs in them.
    pub cni_bin_dirs: Vec<String>,
    /// The user's settings of the runtimes, by path.
    pub settings: BTreeMap<String, Vec<u8>>,
    /// etcd has been here before.
    pub etcd_data: bool,
    /// The kubelet has a certificate that is still good.
    pub kubelet_joined: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub path: String,
    pub version: Option<Version>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cgroup {
    V1,
    #[default]
    V2,
}

/// The script; its output goes to [`Probe::parse`].
pub fn command(config: &Config) -> Command {
    let words = |words: Vec<&str>| words.join(" ");
    let runtimes = || RuntimeKind::all();
    let (mut shared, mut settings) = (Vec::new(), Vec::new());
    for reads in runtimes().flat_map(|kind| kind.reads.to_vec()) {
        match reads {
            Reads::Shared(path) => shared.push(path),
            Reads::Folder(folder, end) => settings.push(format!("{folder}/*{end}")),
        }
    }
    let script = Script::new([include_str!("probe.sh")])
        .set("PROGRAMS", words(programs().into_iter().collect()))
        .set("UNITS", words(runtimes().map(|kind| kind.service).chain(["nginx", "etcd"]).collect()))
        .set("SHARED", words(shared))
        .set("SETTINGS", settings.join(" "))
        .set("KEPT", KEPT)
        .set("ETCD_DATA", paths::ETCD_DATA)
        .set("KUBELET", paths::KUBELET)
        .set("KUBELET_CLIENT", paths::KUBELET_CLIENT)
        .args(&config.network.cni_bin_dirs);
    Command::sh("look at the installed programs", script)
}

impl Probe {
    pub fn parse(text: &str) -> Self {
        let mut probe = Self::default();
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "program" => {
                    let mut parts = rest.splitn(3, ' ');
                    if let (Some(name), Some(path)) = (parts.next(), parts.next()) {
                        let version = parts.next().and_then(Version::find);
                        probe.programs.insert(name.to_string(), Program { path: path.to_string(), version });
                    }
                }
                "cgroup" => probe.cgroup = if rest == "2" { Cgroup::V2 } else { Cgroup::V1 },
                "unit" => {
                    probe.units.insert(rest.to_string());
                }
                "resolved" => probe.resolved = true,
                "name-servers" => probe.name_servers = true,
                "stream" => probe.stream_module = Some(rest.to_string()),
                "cni" => probe.cni_bin_dirs.push(rest.to_string()),
                "settings" => {
                    let (path, content) = rest.split_once(' ').unwrap_or((rest, ""));
                    if let Ok(bytes) = decode(content) {
                        probe.settings.insert(path.to_string(), bytes);
                    }
                }
                "etcd-data" => probe.etcd_data = true,
                "kubelet-certificate" => probe.kubelet_joined = !has_expired(rest),
                _ => {}
            }
        }
        probe
    }

    pub fn path(&self, program: &str) -> Option<&str> {
        self.programs.get(program).map(|found| found.path.as_str())
    }

    pub fn version(&self, program: &str) -> Option<Version> {
        self.programs.get(program)?.version
    }
}

fn decode(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    base64::engine::general_purpose::STANDARD.decode(text)
}

/// A certificate that cannot be read is the kubelet's business.
fn has_expired(encoded: &str) -> bool {
    let certificate = decode(encoded).ok().and_then(|pem| Certificate::parse("kubelet-client", &pem).ok());
    certificate.is_some_and(|certificate| certificate.not_after <= Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_script_s_answer() {
        let probe = Probe::parse(
            "program kubelet /usr/bin/kubelet Kubernetes v1.20.2 \n\
             program containerd /usr/bin/containerd containerd github.com/containerd/containerd 1.6.20~ds1 x \n\
             program nginx /usr/sbin/nginx nginx version: nginx/1.22.1\n\
             cgroup 1\nunit containerd\ncni /usr/lib/cni\nsettings /etc/docker/daemon.json e30=\nkubelet-certificate \n",
        );
        assert_eq!(probe.version("kubelet"), Some(Version::new(1, 20, 2)));
        assert_eq!(probe.version("containerd"), Some(Version::new(1, 6, 20)));
        assert_eq!(probe.path("nginx"), Some("/usr/sbin/nginx"));
        assert_eq!(probe.cgroup, Cgroup::V1);
        assert_eq!(probe.settings["/etc/docker/daemon.json"], b"{}");
        assert!(probe.kubelet_joined && !probe.etcd_data && probe.units.contains("containerd"));
    }

    #[test]
    fn a_kubelet_whose_certificate_has_expired_is_to_join_again() {
        use crate::pki::folder::Reuse;
        use crate::pki::table::{Names, Subject, rows};
        let folder = tempfile::tempdir().unwrap();
        let begin = Timestamp::now() - jiff::SignedDuration::from_hours(24 * 400);
        let pki = crate::pki::Folder::prepare(folder.path(), None, begin).unwrap();
        let api = Names::default();
        let subject = Subject { name: "w", ip: [127, 0, 0, 1].into(), leaves: &["kubelet"], api: &api };
        let row = rows(&subject).remove(0);
        let joined = |at| {
            let leaf = pki.leaf(Some("w"), &row, Reuse::Never, at).unwrap();
            let encoded = base64::engine::general_purpose::STANDARD.encode(leaf.certificate);
            Probe::parse(&format!("kubelet-certificate {encoded}\n")).kubelet_joined
        };
        assert!(joined(Timestamp::now()));
        assert!(!joined(begin), "a year is over");
    }
}
