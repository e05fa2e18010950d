//! The question: which sections of `look.sh` are asked for, and the names that it looks for.

use super::{Facts, parse};
use crate::claim;
use crate::components;
use crate::paths;
use crate::remote::{Command, Host, KEPT, RemoteError, Script};
use crate::runtimes::{CNI_CONFIG, Reads, RuntimeKind};
use crate::store;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SCRIPT: &str = include_str!("look.sh");

/// Kernel modules that a Kubernetes node uses.
pub const MODULES: [&str; 5] = ["br_netfilter", "overlay", "nf_conntrack", "ip_tables", "ip_vs"];

/// Besides those of components and container runtimes.
const TOOLS: [&str; 26] = [
    "tar",
    "sha256sum",
    "gzip",
    "systemctl",
    "sudo",
    "modprobe",
    "sysctl",
    "mount",
    "apt-get",
    "dpkg",
    "rpm",
    "dnf",
    "yum",
    "runc",
    "firewall-cmd",
    "ufw",
    "nft",
    "iptables",
    "conntrack",
    "socat",
    "hostnamectl",
    "ip",
    "cmp",
    "stat",
    "awk",
    "grep",
];

/// What any Kubernetes leaves behind, besides networks of CNI plugins.
const LEFTOVERS: [&str; 7] = [
    "/etc/kubernetes/admin.conf",
    "/etc/kubernetes/pki/ca.crt",
    "/etc/kubernetes/kubelet.conf",
    paths::KUBELET,
    "/var/lib/etcd/member",
    "/var/lib/etcd/default.etcd/member",
    "/var/lib/kubelet/config.yaml",
];

/// How much is asked. Some answers take seconds on a slow node.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    depth: Depth,
    /// Configured folders for CNI programs.
    cni_bin_dirs: &'a [String],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Survey,
    Installed,
    All,
}

impl Look<'static> {
    /// What a node is and has, as far as plans and checks need it. Of all programs, only the API server is asked for its
    /// version.
    pub fn survey() -> Self {
        Self { depth: Depth::Survey, cni_bin_dirs: &[] }
    }
}

impl<'a> Look<'a> {
    /// What content has brought, once it is installed: programs with their versions, services, settings. Packages, kernel
    /// modules and the services of others are left out.
    pub fn installed(cni_bin_dirs: &'a [String]) -> Self {
        Self { depth: Depth::Installed, cni_bin_dirs }
    }

    /// All there is to know.
    pub fn all(cni_bin_dirs: &'a [String]) -> Self {
        Self { depth: Depth::All, cni_bin_dirs }
    }

    /// Sections that are not asked for.
    fn skip(self) -> &'static str {
        match self.depth {
            Depth::Survey => "states settings",
            Depth::Installed => "modules packages services enabled",
            Depth::All => "",
        }
    }

    /// Programs whose version is asked. kubectl would ask a server, and its version is never needed.
    fn versions(self) -> Vec<&'static str> {
        let wanted = |name: &&str| match self.depth {
            Depth::Survey => *name == "kube-apiserver",
            Depth::Installed | Depth::All => *name != "kubectl",
        };
        programs().into_iter().filter(wanted).collect()
    }

    fn command(self) -> Command {
        let runtimes = || RuntimeKind::all();
        let (mut shared, mut settings) = (Vec::new(), Vec::new());
        for reads in runtimes().flat_map(|kind| kind.reads.to_vec()) {
            match reads {
                Reads::Shared(path) => shared.push(path),
                Reads::Folder(folder, end) => settings.push(format!("{folder}/*{end}")),
            }
        }
        let tools = TOOLS.into_iter().chain(runtimes().map(|kind| kind.client));
        let units = runtimes().map(|kind| kind.service).chain(["nginx", "etcd"]);
        let script = Script::new([SCRIPT])
            .set("SKIP", self.skip())
            .set("VERSIONS", self.versions().join(" "))
            .set("PROGRAMS", programs().join(" "))
            .set("MODULES", MODULES.join(" "))
            .set("TOOLS", tools.collect::<Vec<_>>().join(" "))
            .set("SERVICES", services().join(" "))
            .set("UNITS", units.collect::<Vec<_>>().join(" "))
            .set("SHARED", shared.join(" "))
            .set("SETTINGS", settings.join(" "))
            .set("KEPT", KEPT)
            .set("STORE", store::STORE)
            .set("INCOMING", store::INCOMING)
            .set("MARK", claim::MARK)
            .set("CLUSTER", claim::CLUSTER)
            .set("ETCD_DATA", paths::ETCD_DATA)
            .set("KUBELET_CLIENT", paths::KUBELET_CLIENT)
            .set("LEFTOVERS", LEFTOVERS.join(" "))
            .set("CNI_CONFIG", CNI_CONFIG)
            .args(self.cni_bin_dirs);
        Command::look("look at the node", script).timeout(Duration::from_secs(180))
    }
}

/// Programs whose presence decides something.
pub fn tools() -> Vec<&'static str> {
    let clients = RuntimeKind::all().map(|kind| kind.client);
    TOOLS.into_iter().chain(clients).chain(programs()).collect()
}

/// Programs of a cluster, which a bundle brings or a node has.
fn programs() -> Vec<&'static str> {
    components::programs().chain(RuntimeKind::all().map(|kind| kind.program)).collect()
}

/// Services of a cluster, in the order in which their states are printed.
pub(super) fn services() -> Vec<&'static str> {
    let named = components::TABLE.into_iter().filter_map(|component| component.name());
    named.chain(RuntimeKind::all().map(|kind| kind.service)).collect()
}

/// Asks a node what it is and has, in one round trip.
pub async fn look(host: &dyn Host, look: Look<'_>) -> Result<Facts, RemoteError> {
    let before = now();
    let output = host.run(look.command()).await?;
    let after = now();
    let text = String::from_utf8_lossy(&output.stdout);
    parse(host.name(), &text, before, after)
        .map_err(|reason| RemoteError::answer(host.name(), "look at the node", reason))
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the script prints here, with some of its variables set to something else.
    fn answer(look: Look<'_>, variables: &[(&'static str, &str)]) -> String {
        let (start, _) = SCRIPT.split_once("set +e +u\n").unwrap();
        assert!(start.lines().all(|line| line.starts_with('#')), "the script itself begins there");
        let mut values: String = look.command().script().split(start).next().unwrap().into();
        values.extend(
            variables.iter().map(|(name, value)| format!("{name}={}\n", crate::remote::quote(value))),
        );
        let output = std::process::Command::new("sh").args(["-euc", &(values + SCRIPT)]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn facts(look: Look<'_>, variables: &[(&'static str, &str)]) -> Facts {
        parse("here", &answer(look, variables), now(), now()).unwrap()
    }

    #[test]
    fn data_where_our_etcd_would_find_it_is_a_leftover() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| format!("{}/{name}", folder.path().display());
        let leftovers = LEFTOVERS.map(|known| path(known.trim_start_matches('/')));
        let (leftovers, cni, data) = (leftovers.join(" "), path("cni"), path("var/lib/etcd/default.etcd"));
        assert!(data.ends_with(paths::ETCD_DATA));
        let values = [("LEFTOVERS", &*leftovers), ("CNI_CONFIG", &cni), ("ETCD_DATA", &data)];
        std::fs::create_dir_all(&data).unwrap();
        let found = facts(Look::survey(), &values);
        assert!(found.leftovers.is_empty() && !found.etcd_data, "{:?}", found.leftovers);
        std::fs::create_dir(format!("{data}/member")).unwrap();
        std::fs::create_dir(&cni).unwrap();
        std::fs::write(format!("{cni}/10-x.conflist"), "{}").unwrap();
        let found = facts(Look::survey(), &values);
        assert_eq!(found.leftovers, [format!("{data}/member"), format!("{cni}/10-x.conflist")]);
        assert!(found.etcd_data);
    }

    #[test]
    fn a_look_asks_only_for_what_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| format!("{}/{name}", folder.path().display());
        let settings = path("daemon.json");
        std::fs::write(&settings, "{\"a\": 1}\n").unwrap();
        std::fs::create_dir_all(path("cni")).unwrap();
        std::fs::write(path("cni/bridge"), "").unwrap();
        // `sort` is a program with a version everywhere.
        let values = [("PROGRAMS", "sort nosuchprogram"), ("VERSIONS", "sort"), ("SHARED", &*settings)];
        let cni = [path("cni"), path("empty")];
        let found = facts(Look::installed(&cni), &values);
        assert!(found.path("sort").unwrap().ends_with("/sort") && found.version("sort").is_some());
        assert!(found.has("sort") && found.path("nosuchprogram").is_none());
        assert_eq!(found.settings[&settings], b"{\"a\": 1}\n");
        assert_eq!(found.cni_bin_dirs, [path("cni")]);
        assert!(found.packages.is_empty() && found.modules.is_empty());
        assert!(!found.mounts.is_empty() && found.memory > 0);
        let found = facts(Look::survey(), &[("PROGRAMS", "sort"), ("SHARED", &settings)]);
        assert!(found.path("sort").is_some() && found.version("sort").is_none());
        assert!(found.settings.is_empty() && found.modules.len() == MODULES.len());
        assert_eq!(Look::survey().versions(), ["kube-apiserver"]);
        assert!(!Look::all(&cni).versions().contains(&"kubectl"));
    }
}
