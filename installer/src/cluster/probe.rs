//! What a node has once its content is installed: programs and their versions, cgroups, the
//! places of modules, and the user's own settings. One script, one round trip.

use super::paths;
use super::version::Version;
use crate::config::Config;
use crate::facts::PROGRAMS;
use crate::remote::{Command, KEPT, quote};
use base64::Engine as _;
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
    /// The kubelet has its certificate.
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
    let mut script = String::from("PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin\n");
    for name in PROGRAMS {
        // kubectl would ask a server; its version is never needed.
        let version = match name {
            "kubectl" => ":",
            "etcdctl" => "\"$p\" version",
            "coredns" => "\"$p\" -version",
            _ => "\"$p\" --version",
        };
        script.push_str(&format!(
            "if p=$(command -v {name}); then echo \"program {name} $p $({version} 2>/dev/null </dev/null | tr '\\n' ' ')\"; fi\n"
        ));
    }
    script.push_str(
        "if p=$(command -v nginx); then echo \"program nginx $p $(\"$p\" -v 2>&1)\"; fi\n\
         [ -e /sys/fs/cgroup/cgroup.controllers ] && echo 'cgroup 2' || echo 'cgroup 1'\n\
         for u in containerd docker isulad nginx etcd; do for d in /usr/lib /lib; do\n\
           [ -e $d/systemd/system/$u.service ] && echo \"unit $u\"; done; done\n\
         [ -e /run/systemd/resolve/resolv.conf ] && echo resolved\n\
         cat /etc/resolv.conf /run/systemd/resolve/resolv.conf 2>/dev/null | grep -q '^nameserver' && echo name-servers\n\
         for m in /usr/lib/nginx/modules /usr/lib64/nginx/modules /usr/share/nginx/modules; do\n\
           [ -e $m/ngx_stream_module.so ] && echo \"stream $m/ngx_stream_module.so\"; done\n",
    );
    for folder in &config.network.cni_bin_dirs {
        let folder = quote(folder);
        script.push_str(&format!("[ -n \"$(ls -A {folder} 2>/dev/null)\" ] && echo cni {folder}\n"));
    }
    script.push_str(&format!(
        "for f in {CONTAINERD_USER}/*.toml; do [ -f \"$f\" ] && echo \"settings $f $(base64 -w0 <\"$f\")\"; done\n\
         for f in {DOCKER} {ISULAD}; do for g in \"$f\" \"{KEPT}/original$f\" \"{KEPT}/absent$f\"; do\n\
           [ -f \"$g\" ] && echo \"settings $g $(base64 -w0 <\"$g\")\"; done; done\n\
         [ -d {ETCD_DATA}/member ] && echo etcd-data\n\
         [ -s {KUBELET} ] && [ -s /var/lib/kubelet/pki/kubelet-client-current.pem ] && echo kubelet-joined\n\
         true\n",
        CONTAINERD_USER = paths::CONTAINERD_USER,
        DOCKER = paths::DOCKER,
        ISULAD = paths::ISULAD,
        ETCD_DATA = paths::ETCD_DATA,
        KUBELET = paths::KUBELET,
    ));
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
                    if let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(content) {
                        probe.settings.insert(path.to_string(), bytes);
                    }
                }
                "etcd-data" => probe.etcd_data = true,
                "kubelet-joined" => probe.kubelet_joined = true,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_script_s_answer() {
        let probe = Probe::parse(
            "program kubelet /usr/bin/kubelet Kubernetes v1.20.2 \n\
             program containerd /usr/bin/containerd containerd github.com/containerd/containerd 1.6.20~ds1 x \n\
             program nginx /usr/sbin/nginx nginx version: nginx/1.22.1\n\
             cgroup 1\nunit containerd\ncni /usr/lib/cni\nsettings /etc/docker/daemon.json e30=\nkubelet-joined\n",
        );
        assert_eq!(probe.version("kubelet"), Some(Version::new(1, 20, 2)));
        assert_eq!(probe.version("containerd"), Some(Version::new(1, 6, 20)));
        assert_eq!(probe.path("nginx"), Some("/usr/sbin/nginx"));
        assert_eq!(probe.cgroup, Cgroup::V1);
        assert_eq!(probe.settings["/etc/docker/daemon.json"], b"{}");
        assert!(probe.kubelet_joined && !probe.etcd_data && probe.units.contains("containerd"));
    }
}
