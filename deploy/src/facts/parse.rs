//! The answer of `look.sh` → [`Facts`].

use super::look::services as services_asked;
use super::{
    Cgroup, Facts, Listed, MODULES, Manager, Module, Mount, Os, Packages, Port, Program, Protocol, Selinux,
    tools,
};
use crate::claim::Claim;
use crate::pki::Certificate;
use crate::store::Contents;
use crate::version::Version;
use base64::Engine as _;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What /proc/net says of a listening TCP socket, and of any UDP one.
const TCP_LISTEN: &str = "0A";
const UDP_BOUND: &str = "07";

/// Mounted so, or made so by a disk error: ext4 of newer kernels leaves `rw` standing then.
const READ_ONLY: [&str; 3] = ["ro", "emergency_ro", "shutdown"];

/// More lines than any node has packages, mounts, ports and addresses.
const MOST_LINES: usize = 50_000;
/// Lists of words, each of which takes more memory than its line.
const WORDS: [&str; 10] = [
    "services",
    "enabled",
    "states",
    "leftovers",
    "units",
    "cni",
    "programs",
    "settings",
    "modules",
    "tools",
];
const MOST_WORDS: usize = 1_500;
const MOST_MOUNTS: usize = 8_000;

/// Parses the answer; `before` and `after` are this machine's clock around the question.
pub fn parse(node: &str, text: &str, before: i64, after: i64) -> Result<Facts, String> {
    let sections = sections(text)?;
    if !sections.contains_key("end") {
        return Err("the answer is incomplete".into());
    }
    let lines = |name: &str| sections.get(name).map_or(&[][..], Vec::as_slice);
    let first =
        |name: &str| lines(name).first().map(|line| line.trim().to_string()).filter(|line| !line.is_empty());

    let uname = lines("uname");
    let [_system, hostname, kernel, machine, ..] = uname else {
        return Err("`uname` says nothing".into());
    };
    let (manager, packages) = packages(lines("packages"));
    let (tools, named): (_, BTreeSet<&str>) = (tools(), lines("tools").iter().copied().collect());
    let memory = |key: &str| {
        let line = lines("memory").iter().find_map(|line| line.strip_prefix(key));
        line.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0).saturating_mul(1024)
    };
    Ok(Facts {
        node: node.into(),
        arch: machine.parse().ok(),
        machine: machine.to_string(),
        kernel: kernel.to_string(),
        hostname: hostname.to_string(),
        os: os(lines("os")),
        manager,
        cpus: first("cpus").and_then(|text| text.parse().ok()).unwrap_or(0),
        memory: memory("MemTotal:"),
        memory_available: memory("MemAvailable:"),
        swap: memory("SwapTotal:"),
        clock_skew: skew(first("clock").and_then(|text| text.parse().ok()), before, after),
        init: first("init").unwrap_or_default(),
        cgroup: first("cgroup").and_then(|text| match text.as_str() {
            "v1" => Some(Cgroup::V1),
            "v2" => Some(Cgroup::V2),
            _ => None,
        }),
        mounts: mounts(lines("disks"), lines("mounts")),
        modules: lines("modules").iter().filter_map(|line| module(line)).collect(),
        tools: tools.into_iter().filter(|tool| named.contains(tool)).map(Into::into).collect(),
        programs: lines("programs").iter().filter_map(|line| program(line)).collect(),
        services: services(lines("services")),
        enabled_services: services(lines("enabled")),
        states: states(lines("states")),
        ports: ports(lines("tcp"), Protocol::Tcp, TCP_LISTEN)
            .chain(ports(lines("udp"), Protocol::Udp, UDP_BOUND))
            .collect(),
        addresses: addresses(lines("addresses")),
        selinux: first("selinux")
            .map(|text| if text == "1" { Selinux::Enforcing } else { Selinux::Permissive }),
        store: Contents::parse(lines("store"), lines("incoming")),
        claim: claim(lines("mark"), first("cluster")),
        leftovers: lines("leftovers").iter().map(|line| line.to_string()).collect(),
        packages,
        units: lines("units").iter().map(|line| line.to_string()).collect(),
        resolved: lines("names").contains(&"resolved"),
        name_servers: lines("names").contains(&"servers"),
        stream_module: first("stream"),
        cni_bin_dirs: lines("cni").iter().map(|line| line.to_string()).collect(),
        settings: lines("settings").iter().filter_map(|line| setting(line)).collect(),
        etcd_data: first("etcd-data").is_some(),
        kubelet_client: first("kubelet").and_then(|line| certificate(&line)),
    })
}

fn sections(text: &str) -> Result<HashMap<&str, Vec<&str>>, String> {
    let mut sections: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut current = "";
    for (number, line) in text.lines().enumerate() {
        if number == MOST_LINES {
            return Err(format!("the answer has more than {MOST_LINES} lines"));
        }
        match line.strip_prefix("@@ ") {
            Some(name) => {
                current = name;
                sections.entry(name).or_default();
            }
            None => sections.entry(current).or_default().push(line),
        }
    }
    let limits = WORDS.iter().map(|name| (*name, MOST_WORDS)).chain([("disks", MOST_MOUNTS)]);
    for (name, most) in limits {
        if sections.get(name).is_some_and(|lines| lines.len() > most) {
            return Err(format!("it lists more than {most} of `{name}`"));
        }
    }
    Ok(sections)
}

/// An earlier version wrote the cluster to a file of its own.
fn claim(lines: &[&str], cluster: Option<String>) -> Option<Claim> {
    let claim = Claim::parse(lines)?;
    Some(Claim { cluster: claim.cluster.or(cluster), ..claim })
}

fn os(lines: &[&str]) -> Os {
    let value = |key: &str| {
        let line = lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.map(|value| value.trim_matches(['"', '\'']).to_string()).unwrap_or_default()
    };
    Os {
        id: value("ID"),
        version: value("VERSION_ID"),
        name: value("PRETTY_NAME"),
        like: value("ID_LIKE").split_whitespace().map(Into::into).collect(),
    }
}

/// How far the clock is off at least, given that it was read between `before` and `after`.
fn skew(clock: Option<i64>, before: i64, after: i64) -> i64 {
    match clock {
        Some(clock) if clock > after => clock.saturating_sub(after),
        Some(clock) if clock < before => clock.saturating_sub(before),
        _ => 0,
    }
}

fn mounts(disks: &[&str], mounts: &[&str]) -> Vec<Mount> {
    let read_only: BTreeSet<String> = mounts
        .iter()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (path, options) = (fields.nth(1)?, fields.nth(1)?);
            options.split(',').any(|option| READ_ONLY.contains(&option)).then(|| unescape(path))
        })
        .collect();
    disks
        .iter()
        .skip(1)
        .filter_map(|line| {
            // Filesystem 1024-blocks Used Available Capacity Mounted-on; the last may hold spaces.
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, size, _, free, _, path @ ..] = fields.as_slice() else { return None };
            let path = path.join(" ");
            let bytes = |kib: &str| kib.parse::<u64>().ok().map(|kib| kib.saturating_mul(1024));
            Some(Mount { size: bytes(size)?, free: bytes(free)?, read_only: read_only.contains(&path), path })
        })
        .filter(|mount| mount.path.starts_with('/'))
        .collect()
}

/// /proc/mounts writes a space as `\040`.
fn unescape(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

fn module(line: &str) -> Option<(String, Module)> {
    let (name, state) = line.split_once(' ').filter(|(name, _)| MODULES.contains(name))?;
    let state = match state {
        "loaded" => Module::Loaded,
        "loadable" => Module::Loadable,
        _ => Module::Missing,
    };
    Some((name.into(), state))
}

/// `NAME PATH WHAT IT SAYS`
fn program(line: &str) -> Option<(String, Program)> {
    let mut parts = line.splitn(3, ' ');
    let (name, path) = (parts.next()?, parts.next()?);
    let version = parts.next().and_then(Version::find);
    Some((name.into(), Program { path: path.into(), version }))
}

/// A line for each of the services that were asked about, in their order.
fn states(lines: &[&str]) -> BTreeMap<String, String> {
    let asked = services_asked().into_iter().zip(lines);
    asked.map(|(name, state)| (name.to_string(), state.trim().to_string())).collect()
}

/// `PATH CONTENT`
fn setting(line: &str) -> Option<(String, Vec<u8>)> {
    let (path, content) = line.split_once(' ')?;
    Some((path.into(), decode(content)?))
}

fn decode(text: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

fn certificate(encoded: &str) -> Option<Certificate> {
    Certificate::parse("kubelet-client", &decode(encoded)?).ok()
}

fn services(lines: &[&str]) -> BTreeSet<String> {
    let unit =
        |line: &&str| line.split_whitespace().find(|word| word.ends_with(".service")).map(str::to_string);
    lines.iter().filter_map(unit).map(|unit| unit.trim_end_matches(".service").to_string()).collect()
}

fn packages<'a>(lines: &[&'a str]) -> (Option<Manager>, Packages) {
    let manager = match lines.first() {
        Some(&"dpkg") => Manager::Dpkg,
        Some(&"rpm") => Manager::Rpm,
        _ => return (None, Packages::default()),
    };
    let package = |line: &&'a str| {
        let mut fields = line.split('\t');
        let (status, name, version, arch) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        // `rc` has only configuration files left; `gpg-pubkey` is a key, not a package.
        let installed = status.as_bytes().get(1) == Some(&b'i') && name != "gpg-pubkey";
        installed.then_some(Listed { name, version, arch })
    };
    (Some(manager), lines[1..].iter().filter_map(package).collect())
}

fn ports<'a>(lines: &'a [&str], protocol: Protocol, wanted: &'a str) -> impl Iterator<Item = Port> + 'a {
    lines.iter().filter_map(move |line| {
        let mut fields = line.split_whitespace();
        let (local, state) = (fields.nth(1)?, fields.nth(1)?);
        let (address, port) = local.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        (state == wanted).then_some(Port { protocol, port, address: hex_address(address)? })
    })
}

/// The kernel prints addresses as words of the machine's order, which is little-endian here.
fn hex_address(text: &str) -> Option<IpAddr> {
    let bytes = hex::decode(text).ok()?;
    let swapped: Vec<u8> = bytes.chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
    match swapped.len() {
        4 => Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(swapped).ok()?))),
        16 => Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(swapped).ok()?))),
        _ => None,
    }
}

/// In /proc/net/fib_trie an own address is a leaf `|-- A.B.C.D` with `/32 host LOCAL` below.
fn addresses(lines: &[&str]) -> BTreeSet<IpAddr> {
    let mut leaf: Option<IpAddr> = None;
    let mut found = BTreeSet::new();
    for line in lines {
        if let Some((_, address)) = line.split_once("|-- ") {
            leaf = address.trim().parse().ok();
        } else if line.contains("host LOCAL") {
            found.extend(leaf);
        }
    }
    found.retain(|address: &IpAddr| !address.is_loopback());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = include_str!("answer.txt");

    #[test]
    fn a_debian_answer() {
        let facts = parse("node-1", ANSWER, 1_700_000_000, 1_700_000_002).unwrap();
        assert_eq!(facts.arch, Some(eggo_bundles::Arch::Arm64));
        assert_eq!((facts.hostname.as_str(), facts.kernel.as_str()), ("node-1", "6.1.0-18-cloud-arm64"));
        assert_eq!(facts.os.id, "debian");
        assert_eq!(facts.os.version, "12");
        assert_eq!(facts.clock_skew, 98);
        assert_eq!(facts.memory, 2_035_220 * 1024);
        assert_eq!(facts.swap, 0);
        assert_eq!(facts.cgroup, Some(Cgroup::V2));
        assert_eq!(facts.manager, Some(Manager::Dpkg));
        let names: Vec<&str> = facts.packages.iter().map(|package| package.name).collect();
        assert_eq!(names, ["adduser", "apt", "libc6"]);
        assert_eq!(facts.package("libc6").unwrap().version, "2.36-9+deb12u4");
        assert_eq!(facts.modules["br_netfilter"], Module::Loadable);
        assert!(facts.runs("ssh") && facts.runs("systemd-journald") && !facts.runs("cron"));
        let ports: Vec<(Protocol, u16)> = facts.ports.iter().map(|port| (port.protocol, port.port)).collect();
        assert_eq!(ports, [(Protocol::Tcp, 22), (Protocol::Tcp, 22), (Protocol::Udp, 68)]);
        assert!(facts.ports.iter().any(|port| port.address == "127.0.0.1".parse::<IpAddr>().unwrap()));
        assert_eq!(facts.addresses, ["10.88.0.11".parse().unwrap()].into());
        assert_eq!(facts.mount("/var/lib/eggo/store").unwrap().path, "/var/lib");
        assert_eq!(facts.mount("/etc/kubernetes").unwrap().path, "/");
        assert!(facts.mount("/boot/x").unwrap().read_only);
        assert!(facts.mount("/srv/x").unwrap().read_only);
        assert_eq!(facts.store.whole.values().copied().collect::<Vec<_>>(), [12345]);
        assert_eq!(facts.store.incoming.values().copied().collect::<Vec<_>>(), [77]);
        assert!(facts.store.unmerged);
        assert_eq!(facts.claim.unwrap().mark, "0123abcd");
    }

    #[test]
    fn what_installed_content_adds() {
        let text = "@@ uname\nLinux\nn\n6.1\nx86_64\n@@ programs\nkubelet /usr/bin/kubelet Kubernetes v1.20.2 \n\
             containerd /usr/bin/containerd containerd github.com/containerd/containerd 1.6.20~ds1 x \n\
             nginx /usr/sbin/nginx nginx version: nginx/1.22.1\nkubectl /usr/bin/kubectl \n@@ cgroup\nv1\n\
             @@ units\ncontainerd\n@@ cni\n/usr/lib/cni\n@@ settings\n/etc/docker/daemon.json e30=\n\
             @@ states\nactive\nfailed\n@@ kubelet\ne30=\n@@ names\nservers\n@@ end\n";
        let facts = parse("n", text, 0, 0).unwrap();
        assert_eq!(facts.version("kubelet"), Some(Version::new(1, 20, 2)));
        assert_eq!(facts.version("containerd"), Some(Version::new(1, 6, 20)));
        assert_eq!(facts.path("nginx"), Some("/usr/sbin/nginx"));
        assert!(facts.has("kubectl") && facts.version("kubectl").is_none());
        assert_eq!(facts.cgroup, Some(Cgroup::V1));
        assert_eq!(facts.settings["/etc/docker/daemon.json"], b"{}");
        assert_eq!((facts.states["etcd"].as_str(), facts.states["nginx"].as_str()), ("active", "failed"));
        assert!(facts.kubelet_client.is_none() && !facts.etcd_data && facts.units.contains("containerd"));
        assert!(facts.name_servers && !facts.resolved);
    }

    #[test]
    fn an_incomplete_answer_is_no_answer() {
        let cut = ANSWER.split("@@ services").next().unwrap();
        assert_eq!(parse("n", cut, 0, 0), Err("the answer is incomplete".into()));
    }

    #[test]
    fn an_answer_without_measure_is_refused() {
        let long = ANSWER.replace("@@ leftovers\n", &format!("@@ leftovers\n{}", "\n".repeat(5_000)));
        assert_eq!(parse("n", &long, 0, 0), Err("it lists more than 1500 of `leftovers`".into()));
        let lines = "\n".repeat(60_000);
        assert_eq!(parse("n", &lines, 0, 0), Err("the answer has more than 50000 lines".into()));
    }

    #[test]
    fn an_rpm_answer_keeps_epochs_and_drops_keys() {
        let lines = [
            "rpm",
            "ii \tbash\t5.1.8-6.el9\tx86_64",
            "ii \tdbus\t1:1.12.20-8\tx86_64",
            "ii \tgpg-pubkey\t1-2\t(none)",
        ];
        let (manager, packages) = packages(&lines);
        assert_eq!(manager, Some(Manager::Rpm));
        assert_eq!(packages.iter().count(), 2);
        assert_eq!(packages.get("dbus").unwrap().version, "1:1.12.20-8");
    }

    #[test]
    fn a_clock_inside_the_round_trip_is_right() {
        assert_eq!(skew(Some(10), 5, 15), 0);
        assert_eq!(skew(Some(4), 5, 15), -1);
        assert_eq!(skew(Some(20), 5, 15), 5);
        assert_eq!(skew(None, 5, 15), 0);
        assert_eq!(skew(Some(i64::MIN), 5, 15), i64::MIN, "a node may say anything");
    }
}
