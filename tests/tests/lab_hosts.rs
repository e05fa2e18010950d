//! The lab keeps its promises: hosts are what they say, are cut off, break and heal on demand, and leave nothing behind.

use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use eggo_tests::lab::{self, Host, Kind, Lab, Login, Slow};

#[test]
fn every_kind_is_what_it_says() {
    let kinds = [("deb", Kind::DebAmd64), ("arm", Kind::DebArm64), ("rpm", Kind::RpmAmd64)];
    let Some(lab) = Lab::take(&kinds) else { return };
    for host in lab.hosts() {
        assert_eq!(host.exec("systemctl is-system-running --wait"), "running\n");
        assert_eq!(host.exec("hostname"), format!("{}\n", host.name()));
        let ops = host.try_exec(Login::Ops, "sudo id -u");
        assert_eq!(String::from_utf8_lossy(&ops.stdout), "0\n");
        let bare = "command -v python3 curl wget iptables containerd docker kubelet etcd; true";
        let allowed = if host.name() == "rpm" {
            "/usr/bin/python3\n" // dnf is written in it
        } else {
            ""
        };
        assert_eq!(host.exec(bare), allowed, "on {}", host.name());
    }
    let [deb, arm, rpm] = lab.hosts() else { unreachable!("three were asked for") };
    assert_eq!(deb.exec("uname -m; dpkg --print-architecture"), "x86_64\namd64\n");
    assert_eq!(arm.exec("uname -m; dpkg --print-architecture"), "aarch64\narm64\n");
    assert_eq!(rpm.exec("uname -m; rpm -q --qf '%{NAME}\\n' bash"), "x86_64\nbash\n");
    assert_eq!(rpm.exec("command -v apt-get dpkg; command -v dnf"), "/usr/bin/dnf\n");
    let password = Command::new("sshpass")
        .args(["-p", "lab", "ssh", "-o", "PreferredAuthentications=password", "-o"])
        .arg(format!("UserKnownHostsFile={}", lab.known_hosts().display()))
        .args([&format!("ops@{}", deb.address()), "id", "-un"])
        .stdin(Stdio::null())
        .output()
        .expect("sshpass is installed by scripts/setup");
    assert_eq!(String::from_utf8_lossy(&password.stdout), "ops\n");
}

/// Needs no lab: the cache is an empty one.
#[test]
fn without_a_lab_status_says_how_to_make_one() {
    let cache = tempfile::tempdir().expect("a folder can be made");
    let status = |words: &[&str]| {
        let mut command = Command::new(lab::project().join("scripts/lab"));
        let ran = command.args(["--lab", "none", "status"]).args(words).env("EGGO_LAB_CACHE", cache.path());
        let output = ran.output().expect("scripts/lab can be run");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(status(&[]), "there is no lab `none`; `scripts/lab --lab none up` makes it\n");
    let told: serde_json::Value = serde_json::from_str(&status(&["--format", "json"])).expect("JSON");
    assert_eq!(told["hosts"], serde_json::json!([]));
}

#[test]
fn hosts_reach_each_other_and_nothing_else() {
    let Some(lab) = Lab::take(&[("a", Kind::DebAmd64), ("b", Kind::DebAmd64)]) else {
        return;
    };
    let (a, b) = (lab.host("a"), lab.host("b"));
    assert!(reaches(a, b.address(), 22));

    // something listens on every address of this machine, and no host reaches it
    let listener = TcpListener::bind("0.0.0.0:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    for address in own_addresses() {
        assert!(!reaches(a, &address, port), "{address} is reachable");
    }

    lab.upstream();
    assert!(!reaches(a, lab.gateway(), 8080), "the upstream is not open");
    lab.open_upstream();
    assert!(reaches(a, lab.gateway(), 8080), "the upstream is open");
    assert!(!reaches(a, lab.gateway(), port), "only the upstream is open");
    lab.upstream();
    assert!(!reaches(a, lab.gateway(), 8080), "the upstream is closed again");
}

#[test]
fn hosts_break_and_heal() {
    let Some(lab) = Lab::take_sized(&[("a", Kind::DebAmd64, Some("600M"))]) else {
        return;
    };
    let host = lab.host("a");
    host.exec("echo kept > /root/note && sync");

    host.cut();
    assert!(!answers(host));
    host.heal();
    assert!(answers(host));

    let quick = connect_time(host);
    host.slow(Slow { delay: Duration::from_millis(150), ..Slow::default() });
    assert!(connect_time(host) >= Duration::from_millis(300), "there and back");
    host.slow(Slow { bytes_per_second: 200_000, ..Slow::default() });
    let began = Instant::now();
    host.exec("head -c 400000 /dev/urandom | base64 -w0");
    assert!(began.elapsed() >= Duration::from_secs(2), "533 kB at 200 kB/s");
    host.heal();
    assert!(connect_time(host) < Duration::from_millis(300) + quick);

    host.fill(0);
    let full = host.try_exec(Login::Root, "head -c 1000000 /dev/zero > /root/big");
    assert!(String::from_utf8_lossy(&full.stderr).contains("No space left on device"));
    host.heal();
    host.exec("head -c 1000000 /dev/zero > /root/big");

    host.readonly("/etc/kubernetes");
    assert!(!host.try_exec(Login::Root, "touch /etc/kubernetes/x").status.success());
    host.exec("touch /etc/elsewhere");
    host.heal();
    host.exec("touch /etc/kubernetes/x");

    host.break_disk();
    let broken = host.try_exec(Login::Root, "touch /root/x");
    assert!(String::from_utf8_lossy(&broken.stderr).contains("Read-only file system"));
    host.heal();

    host.exec("ip link add cni0 type bridge && ip address add 10.9.9.9/32 dev eth0");
    host.crash();
    assert!(!answers(host));
    host.boot();
    let network = host.exec("ip -o link; ip -o address");
    assert!(!network.contains("cni0") && !network.contains("10.9.9.9"), "{network}");
    assert_eq!(host.exec("cat /root/note"), "kept\n");
    assert!(String::from_utf8_lossy(&host.logs()).contains("sshd"));

    host.reset();
    assert_eq!(host.exec("ls /root"), "");
}

#[test]
fn down_leaves_nothing_even_after_a_kill() {
    if lab::allowed().is_none() {
        return;
    }
    let name = format!("leak-{}", std::process::id());
    let scripts_lab = lab::project().join("scripts/lab");
    let lab_command = |words: &[&str]| {
        let mut command = Command::new(&scripts_lab);
        command.args(["--lab", &name]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    let run = |words: &[&str]| {
        let status = lab_command(words).status().expect("scripts/lab can be run");
        assert!(status.success(), "scripts/lab {}", words.join(" "));
    };

    // a whole lab with every kind of trace: hosts, a slow wire, an upstream, a full and a broken disk
    run(&["up", "--hosts", "a=deb-amd64,b=deb-amd64"]);
    run(&["upstream", "open"]);
    run(&["slow", "a", "--delay", "10"]);
    run(&["fill", "a"]);
    run(&["readonly", "b", "--path", "/srv"]);
    let number = lab_number(&name);
    assert!(!traces(&name, &number).is_empty(), "the search finds a lab that is up");
    run(&["down"]);
    assert_eq!(traces(&name, &number), Vec::<String>::new());

    // scripts that were killed while they brought up a lab
    for pause in [50, 400, 1200] {
        let mut started = lab_command(&["up", "--hosts", "a=deb-amd64,b=deb-amd64"])
            .stderr(Stdio::null())
            .spawn()
            .expect("scripts/lab can be run");
        // the kill must come at different points of the work; there is no event for "in the middle"
        std::thread::sleep(Duration::from_millis(pause));
        started.kill().expect("it is ours");
        started.wait().expect("it was started");
        let number = std::fs::read_to_string(lab::cache().join("labs").join(&name).join("number"));
        run(&["down"]);
        if let Ok(number) = number {
            assert_eq!(traces(&name, &number), Vec::<String>::new(), "after {pause} ms");
        }
    }
}

/// Everything on this machine that bears the lab's name or number.
fn traces(name: &str, number: &str) -> Vec<String> {
    let folder = lab::cache().join("labs").join(name);
    let folder = folder.display();
    let script = format!(
        "ls -d {folder} 2>/dev/null
         grep -s '{folder}/' /proc/mounts
         losetup --list --noheadings --output BACK-FILE | grep '{folder}/'
         ls /run/netns 2>/dev/null | grep '^eggo-lab{number}-'
         ip -brief link | grep -E '^lab{number}(-|@| )'
         find /sys/fs/cgroup -maxdepth 2 -name 'eggo-lab{number}-*'
         nft list tables | grep -w eggo_lab{number}
         pgrep -af '{folder}/' | grep -v 'sh -c'
         true"
    );
    let found = Command::new("sh").args(["-c", &script]).output().expect("sh");
    String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect()
}

fn lab_number(name: &str) -> String {
    std::fs::read_to_string(lab::cache().join("labs").join(name).join("number"))
        .expect("a lab that is up has a number")
}

/// Whether a host opens a connection; an air gap answers nothing, so a second has to do.
fn reaches(host: &Host, address: &str, port: u16) -> bool {
    let script = format!("timeout 2 bash -c '</dev/tcp/{address}/{port}'");
    host.try_exec(Login::Root, &script).status.success()
}

fn own_addresses() -> Vec<String> {
    let listed = Command::new("hostname").arg("-I").output().expect("hostname");
    String::from_utf8_lossy(&listed.stdout)
        .split_whitespace()
        .filter(|address| address.contains('.'))
        .map(str::to_owned)
        .collect()
}

fn answers(host: &Host) -> bool {
    let address = format!("{}:22", host.address());
    let address = address.parse().expect("an address and a port");
    TcpStream::connect_timeout(&address, Duration::from_secs(3)).is_ok()
}

fn connect_time(host: &Host) -> Duration {
    let address = format!("{}:22", host.address());
    let began = Instant::now();
    TcpStream::connect(address).expect("the host listens");
    began.elapsed()
}
