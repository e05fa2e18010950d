//! What all container runtimes have in common: the cgroup driver, on which runtime and kubelet
//! must agree, and where a user's own settings come from.

use super::{containerd, daemon_json};
use crate::cluster::paths;
use crate::cluster::probe::{Cgroup, Probe};
use crate::cluster::version::Version;
use crate::config::defaults::CNI_BIN_DIR;
use crate::config::{Component, Config, RuntimeKind};
use crate::journal::Undo;
use crate::remote::{RemoteFile, quote};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupDriver {
    Systemd,
    Cgroupfs,
}

impl CgroupDriver {
    pub fn as_str(self) -> &'static str {
        match self {
            CgroupDriver::Systemd => "systemd",
            CgroupDriver::Cgroupfs => "cgroupfs",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [CgroupDriver::Systemd, CgroupDriver::Cgroupfs].into_iter().find(|driver| driver.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    #[error("docker is a runtime for Kubernetes up to 1.23, and this is {0}")]
    NoDockershim(Version),
    #[error("`{0}` is not valid TOML: {1}")]
    Toml(String, String),
    #[error(
        "`{name}` has containerd's settings in version {theirs}, and its containerd takes version {ours}"
    )]
    Settings { name: String, theirs: i64, ours: i64 },
    #[error("`{0}` is not a JSON object: {1}")]
    Json(String, String),
}

impl RuntimeError {
    pub fn hint(&self) -> Option<String> {
        match self {
            RuntimeError::NoDockershim(_) => Some("set `runtime: containerd` in deploy.yaml".into()),
            RuntimeError::Settings { ours, .. } => Some(format!(
                "write them for `version = {ours}`: `containerd config migrate` shows what sections are called there"
            )),
            RuntimeError::Toml(..) | RuntimeError::Json(..) => None,
        }
    }
}

/// What the user says, for the kubelet or for the runtime, comes first. Else systemd where it
/// owns the whole hierarchy (cgroup v2), and cgroupfs where several managers live side by side.
pub fn cgroup_driver(config: &Config, probe: &Probe) -> CgroupDriver {
    let asked = config.extra_args(Component::Kubelet).find(|(flag, _)| *flag == "cgroup-driver");
    let of_kubelet = asked.and_then(|(_, value)| CgroupDriver::parse(value));
    let of_runtime = || match config.runtime.kind {
        RuntimeKind::Docker => daemon_json::docker_cgroup_driver(config, probe),
        RuntimeKind::Containerd => containerd::user_cgroup_driver(config, probe),
        RuntimeKind::Isulad => daemon_json::isulad_cgroup_driver(config, probe),
    };
    of_kubelet.or_else(of_runtime).unwrap_or(match probe.cgroup {
        Cgroup::V2 => CgroupDriver::Systemd,
        Cgroup::V1 => CgroupDriver::Cgroupfs,
    })
}

/// The service that must run before the kubelet.
pub fn service(kind: RuntimeKind) -> &'static str {
    match kind {
        RuntimeKind::Docker => "docker",
        RuntimeKind::Isulad => "isulad",
        RuntimeKind::Containerd => "containerd",
    }
}

/// The runtime's configuration on one node.
pub fn files(config: &Config, probe: &Probe, kubelet: Version) -> Result<Vec<RemoteFile>, RuntimeError> {
    match config.runtime.kind {
        RuntimeKind::Docker if kubelet.minor >= 24 => Err(RuntimeError::NoDockershim(kubelet)),
        RuntimeKind::Docker => Ok(vec![RemoteFile::new(paths::DOCKER, daemon_json::docker(config, probe)?)]),
        RuntimeKind::Isulad => {
            Ok(vec![RemoteFile::new(paths::ISULAD, daemon_json::isulad(config, probe, kubelet)?)])
        }
        RuntimeKind::Containerd => containerd::files(config, probe),
    }
}

/// The folder with CNI programs, for a runtime that knows but one: where addons put theirs (only once they
/// run), if deploy.yaml names it, else the first one that has any.
pub fn cni_bin_dir<'a>(config: &'a Config, probe: &'a Probe) -> &'a str {
    let dirs = &config.network.cni_bin_dirs;
    let usual = dirs.iter().find(|dir| *dir == CNI_BIN_DIR);
    let found = usual.or(probe.cni_bin_dirs.first()).or(dirs.first());
    found.map_or(CNI_BIN_DIR, String::as_str)
}

/// Links from the one folder to the programs of the others.
#[derive(Debug, PartialEq, Eq)]
pub struct CniLinks {
    pub make: String,
    pub undo: Vec<Undo>,
}

/// None: there is one folder only, or the runtime knows them all.
pub fn cni_links(config: &Config, probe: &Probe) -> Option<CniLinks> {
    let knows_all = config.runtime.kind != RuntimeKind::Containerd || containerd::knows_several(probe);
    let into = cni_bin_dir(config, probe);
    let others: Vec<String> =
        config.network.cni_bin_dirs.iter().filter(|dir| *dir != into).map(|dir| quote(dir)).collect();
    if knows_all || others.is_empty() {
        return None;
    }
    let (folder, programs) = (quote(into), others.join("/* ") + "/*");
    let make = format!(
        "mkdir -p {folder}\nfor f in {programs}; do\n\
         if [ -f \"$f\" ] && [ ! -e {folder}/\"${{f##*/}}\" ]; then ln -sf \"$f\" {folder}/; fi; done"
    );
    let remove = format!(
        "for f in {folder}/*; do case $(readlink \"$f\") in {}) rm -f \"$f\" ;; esac; done",
        others.join("/*|") + "/*"
    );
    // Undone last first.
    let mut undo = vec![Undo::Folder { path: into.to_string() }];
    if let Some((above, _)) = into.rsplit_once('/') {
        undo.insert(0, Undo::Folder { path: above.to_string() });
    }
    undo.push(Undo::script("remove links to CNI programs", remove));
    Some(CniLinks { make, undo })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::probe::Program;
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    fn config(runtime: &str, dirs: &str) -> Config {
        let text = format!(
            "masters: [{{name: a, ip: 192.168.7.1, arch: amd64}}]\nworkers: [{{name: a, ip: 192.168.7.1, arch: amd64}}]\n\
             install: {{package-source: {{type: bundle}}}}\nruntime: {runtime}\ncni-bin-dir: {dirs}\n"
        );
        crate::config::parse("d.yaml", text.as_bytes()).unwrap().config
    }

    fn probe(containerd: &str) -> Probe {
        let program = Program { path: "/usr/bin/containerd".into(), version: containerd.parse().ok() };
        Probe { programs: [("containerd".to_string(), program)].into(), ..Probe::default() }
    }

    #[test]
    fn only_a_containerd_that_knows_one_folder_gets_links() {
        let both = "/usr/libexec/cni,/opt/cni/bin";
        let old = probe("2.0.1");
        assert_eq!(cni_bin_dir(&config("containerd", both), &old), "/opt/cni/bin");
        assert!(cni_links(&config("containerd", both), &old).is_some());
        assert_eq!(cni_links(&config("containerd", both), &probe("2.1.0")), None);
        assert_eq!(cni_links(&config("containerd", "/usr/libexec/cni"), &old), None);
        assert_eq!(cni_links(&config("iSulad", both), &old), None);
    }

    #[test]
    fn programs_of_the_other_folders_are_linked_and_the_links_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let (packaged, usual) = (at("pack'aged"), at("usual/bin"));
        fs::create_dir(&packaged).unwrap();
        fs::create_dir_all(&usual).unwrap();
        for path in ["pack'aged/bridge", "pack'aged/loopback", "usual/bin/bridge"] {
            fs::write(at(path), path).unwrap();
        }
        let mut probe = probe("1.6.20");
        probe.cni_bin_dirs = vec![usual.display().to_string(), packaged.display().to_string()];
        let dirs = format!("\"{},{},{}\"", packaged.display(), usual.display(), at("absent").display());
        let links = cni_links(&config("containerd", &dirs), &probe).unwrap();
        let shell = |script: &str| {
            let output = Command::new("sh").args(["-euc", script]).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        };
        for _ in 0..2 {
            shell(&links.make);
        }
        let names = || {
            let mut names: Vec<_> =
                fs::read_dir(&usual).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["bridge", "loopback"]);
        assert_eq!(fs::read_to_string(usual.join("bridge")).unwrap(), "usual/bin/bridge", "its own stays");
        assert_eq!(fs::read_link(usual.join("loopback")).unwrap(), packaged.join("loopback"));
        for undo in links.undo.iter().rev() {
            assert!(undo.is_sound());
            shell(&undo.shell());
        }
        assert_eq!(names(), ["bridge"]);
        assert!(Path::new(&packaged).join("loopback").exists());
    }
}
