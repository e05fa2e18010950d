//! What an install changes of a system besides files, on real hosts: firewalls, the node's own repositories,
//! clocks that are wrong, sudo that asks.

use eggo_bundles::{Bundle, TrustedKeys};
use eggo_tests::lab::{Host, Kind, Lab, Login};
use eggo_tests::parcel::Parcel;
use eggo_tests::site::{run, succeed};
use eggo_tests::user::User;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

const FIREWALLS: &str = "name: firewalls\nversion: 1\narchs: [amd64]\nrepos:\n- {name: debian, type: deb, from: system}\n\
                         baseline: minimal\npackages:\n  worker: [nftables, ufw, firewalld]\n";

/// What opens and lists ports, with 22 and one of ours open before we come.
struct Firewall {
    name: &'static str,
    start: &'static str,
    stop: &'static str,
    /// Prints the open ports, in whatever words.
    list: &'static str,
}

const FILTER: &str = "cat > /etc/nftables.conf <<END\nflush ruleset\ntable inet filter {\n chain input {\n  type filter hook input priority 0; policy drop;\n\
                      ct state established,related accept\n  iif lo accept\n  tcp dport 22 accept\n  tcp dport 10250 accept\n }\n}\nEND\n\
                      systemctl enable --now nftables && systemctl restart nftables";

const EACH: [Firewall; 3] = [
    Firewall {
        name: "firewalld",
        start: "systemctl enable --now firewalld && firewall-cmd -q --permanent --add-port=10250/tcp && firewall-cmd -q --reload",
        stop: "systemctl disable --now firewalld",
        list: "firewall-cmd -q --reload; firewall-cmd --list-ports; firewall-cmd --permanent --list-ports",
    },
    Firewall {
        name: "ufw",
        start: "ufw allow 22/tcp && ufw allow 10250/tcp && ufw --force enable && systemctl enable ufw",
        stop: "ufw --force disable && systemctl disable ufw",
        list: "ufw status",
    },
    Firewall {
        name: "nftables",
        start: FILTER,
        stop: "systemctl disable --now nftables; nft flush ruleset",
        list: "nft list chain inet filter input; systemctl restart nftables; nft list chain inet filter input",
    },
];

#[test]
fn ports_are_opened_in_whatever_firewall_runs_and_closed_again() {
    let Some(lab) = Lab::take(&[("d", Kind::DebAmd64)]) else { return };
    let (parcel, user, host) = (Parcel::new(1 << 10), User::new(&lab), lab.host("d"));
    user.install_debs(&user.build("firewalls", FIREWALLS, "amd64"), host);
    host.exec("systemctl disable --now firewalld nftables ufw 2>/dev/null || :; nft flush ruleset");
    user.describe(&[host], "root", "open-ports:\n  worker:\n  - {port: 30179, protocol: udp}\n");
    for Firewall { name, start, stop, list } in EACH {
        host.exec(start);
        let before = host.exec(list);
        succeed(user.phases(&parcel.at("bundle.tar.gz"), &parcel.at("key.pub"), "distribute,system"));
        let open = host.exec(list);
        for port in ["6443", "2379", "10256", "30179"] {
            assert!(open.contains(port) && !before.contains(port), "{name}: {port} in {open}");
        }
        succeed(user.install(&["cleanup", "--yes"]));
        assert_eq!(host.exec(list), before, "{name}");
        assert!(before.contains("10250"), "{name}: what was open before stays: {before}");
        host.exec(stop);
    }
}

/// A folder of packages that both managers take for a repository.
fn make_repository(parcel: &Parcel, host: &Host) {
    let (deb, rpm) = (
        std::fs::read(parcel.at("demo.deb")),
        std::fs::read(parcel.at("rpm/RPMS/noarch/eggo-demo-1.0-1.noarch.rpm")),
    );
    if host.name() == "d" {
        host.write("/srv/repo/demo.deb", &deb.expect("a package"));
        let index = Command::new("dpkg-scanpackages").current_dir(parcel.at(".")).args(["-m", "."]).output();
        let index = String::from_utf8(index.expect("dpkg-scanpackages").stdout).expect("text");
        host.write("/srv/repo/Packages", index.as_bytes());
        host.write("/etc/apt/sources.list.d/local.list", b"deb [trusted=yes] file:/srv/repo ./\n");
        host.exec("apt-get -qq update");
    } else {
        let folder = parcel.at("repository");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("demo.rpm"), rpm.expect("a package")).expect("a copy");
        let made = Command::new("createrepo_c").arg("-q").arg(&folder).status();
        assert!(made.expect("createrepo_c").success());
        let archive = Command::new("tar").arg("-C").arg(&folder).args(["-c", "."]).output();
        host.write("/srv/repo.tar", &archive.expect("tar can be run").stdout);
        host.exec("mkdir -p /srv/repo && tar xf /srv/repo.tar -C /srv/repo && mkdir -p /etc/yum.repos.d");
        host.write(
            "/etc/yum.repos.d/local.repo",
            b"[local]\nname=local\nbaseurl=file:///srv/repo\ngpgcheck=0\n",
        );
    }
}

#[test]
fn items_of_the_nodes_own_repositories() {
    let Some(lab) = Lab::take(&[("d", Kind::DebAmd64), ("r", Kind::RpmAmd64)]) else { return };
    let (parcel, user) = (Parcel::new(1 << 10), User::new(&lab));
    let hosts: Vec<&Host> = lab.hosts().iter().collect();
    hosts.iter().for_each(|host| make_repository(&parcel, host));
    let tool = "[{name: eggo-tool, type: bin, dst: /usr/local/bin}]";
    let lists = format!(
        "install:\n  package-source: {{type: bundle}}\n  etcd: {tool}\n  kubernetes-master: {tool}\n  \
         kubernetes-worker: [{{name: eggo-demo, type: repo}}]\n"
    );
    user.describe(&hosts, "ops", &lists);
    let install = || {
        user.phases(&parcel.at("bundle.tar.gz"), &parcel.at("key.pub"), "distribute,system,packages,files")
    };
    let refused = run(install());
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--node-repos"), "{refused:?}");

    let allowed = || {
        let mut command = install();
        command.arg("--node-repos");
        command
    };
    succeed(allowed());
    host_has(&lab, true);
    assert!(succeed(allowed()).contains("nothing to do"));
    succeed(user.install(&["cleanup", "--yes"]));
    host_has(&lab, false);
}

fn host_has(lab: &Lab, there: bool) {
    for (name, query) in [("d", "dpkg-query -W eggo-demo"), ("r", "rpm -q eggo-demo")] {
        let found = lab.host(name).try_exec(eggo_tests::lab::Login::Root, query);
        assert_eq!(found.status.success(), there, "{name}");
    }
}

#[test]
fn a_wrong_clock_is_found_before_anything_is_touched() {
    let Some(lab) = Lab::take(&[("d", Kind::DebAmd64), ("r", Kind::RpmAmd64)]) else { return };
    let (parcel, user) = (Parcel::new(1 << 10), User::new(&lab));
    user.describe(&[lab.host("d"), lab.host("r")], "root", "");
    let bundle = parcel.at("bundle.tar.gz").display().to_string();
    let key = parcel.at("key.pub").display().to_string();
    let check =
        || run(user.install(&["check", &bundle, "--pubkey", &key, "--ignore", "memory,swap,modules,ports"]));
    let told = |output: &std::process::Output| {
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    lab.host("r").skew(-300);
    let found = check();
    assert_eq!(found.status.code(), Some(1), "{}", told(&found));
    let line = told(&found).lines().find(|line| line.contains("clock")).map(String::from).unwrap_or_default();
    assert!(line.starts_with("r ") && line.contains("s behind"), "{}", told(&found));
    let installed = run(user.phases(&parcel.at("bundle.tar.gz"), &parcel.at("key.pub"), "distribute"));
    assert_eq!(installed.status.code(), Some(1));
    for host in lab.hosts() {
        assert_eq!(host.exec("ls -d /var/lib/eggo 2>/dev/null || :"), "");
    }
    lab.host("r").heal();
    let well = check();
    assert_eq!(well.status.code(), Some(0), "{}", told(&well));
}

#[test]
fn a_plan_is_approved_by_its_digest_and_another_one_is_refused() {
    let Some(lab) = Lab::take(&[("d", Kind::DebAmd64), ("r", Kind::RpmAmd64)]) else { return };
    let (parcel, user) = (Parcel::new(1 << 10), User::new(&lab));
    user.describe(&[lab.host("d"), lab.host("r")], "root", "");
    let bundle = parcel.at("bundle.tar.gz").display().to_string();
    let key = parcel.at("key.pub").display().to_string();
    let on = |command: &str, phases: &str| {
        let mut words: Vec<&str> = command.split(' ').collect();
        words.extend([
            &*bundle,
            "--pubkey",
            &*key,
            "--ignore",
            "memory,swap,modules,ports",
            "--only",
            phases,
        ]);
        user.install(&words)
    };
    let plan = |phases: &str| {
        let told = succeed(on("plan --format json", phases));
        let plan: serde_json::Value = serde_json::from_str(&told).expect("a plan");
        plan["digest"].as_str().expect("a digest").to_string()
    };
    let digest = plan("distribute,files");
    assert_eq!(plan("distribute,files"), digest, "nothing has changed");
    let refused = run(on(&format!("install --approve {digest}"), "distribute,system,files"));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(told.contains("the plan is not the one that was approved: nothing was changed"), "{told}");
    for host in lab.hosts() {
        assert_eq!(host.exec("ls -d /var/lib/eggo 2>/dev/null || :"), "");
    }
    succeed(on(&format!("install --approve {digest}"), "distribute,files"));
    lab.hosts().iter().for_each(|host| drop(host.exec("eggo-tool")));
    // It has begun, so the same approval still counts.
    assert!(
        succeed(on(&format!("install --approve {digest}"), "distribute,files")).contains("nothing to do")
    );
    succeed(user.install(&["cleanup", "--yes"]));
}

#[test]
fn hooks_around_a_cleanup_run_with_a_time_limit() {
    let Some(lab) = Lab::take(&[("d", Kind::DebAmd64)]) else { return };
    let (user, host) = (User::new(&lab), lab.host("d"));
    let script = |name: &str, text: &str| std::fs::write(user.path(name), text).expect("a script");
    let note = "#!/bin/sh\necho $EGGO_HOOK_TYPE $EGGO_OPERATOR $EGGO_NODE_ROLE $(command -v eggo-tool) | tee -a /root/hooks\n";
    script("before.sh", note);
    script("after.sh", note);
    script("slow.sh", "#!/bin/sh\nsleep 1000\n");
    script("eggo-tool", "#!/bin/sh\n");
    let file = |name: &str| format!("- {{path: {name}, dst: /etc/kubernetes/hooks, roles: [worker]}}\n");
    let manifest = format!(
        "name: hooks\nversion: 1\narchs: [amd64]\nbinaries:\n\
         - {{name: eggo-tool, roles: [worker], dst: /usr/local/bin, path: eggo-tool}}\nfiles:\n{}{}{}",
        file("before.sh"),
        file("after.sh"),
        file("slow.sh")
    );
    let bundle = user.build("hooks", &manifest, "amd64");
    let describe = |first: &str| {
        let hooks = format!(
            "install:\n  package-source: {{type: bundle}}\n  addition:\n    worker:\n    \
             - {{name: {first}, type: shell, schedule: precleanup, timeout: 2s}}\n    \
             - {{name: after.sh, type: shell, schedule: postcleanup}}\n"
        );
        user.describe(&[host], "root", &hooks);
        succeed(user.phases(&bundle, &user.path("key.pub"), "distribute,files"));
    };
    describe("before.sh");
    succeed(user.install(&["cleanup", "--yes"]));
    let expected = "precleanup cleanup worker /usr/local/bin/eggo-tool\npostcleanup cleanup worker\n";
    assert_eq!(host.exec("cat /root/hooks; ls -d /var/lib/eggo 2>/dev/null || :"), expected);

    describe("slow.sh");
    let stuck = run(user.install(&["cleanup", "--yes"]));
    let told = String::from_utf8_lossy(&stuck.stderr).into_owned();
    assert_eq!(stuck.status.code(), Some(4), "{told}");
    assert!(told.contains("it took longer than 2 s") && told.contains("--skip-hooks"), "{told}");
    host.exec("eggo-tool; ! pgrep -f '[s]leep 1000'");
    succeed(user.install(&["cleanup", "--yes", "--skip-hooks"]));
    assert_eq!(host.exec("cat /root/hooks; ls -d /var/lib/eggo 2>/dev/null || :"), expected, "no hook ran");
}

#[test]
fn sudo_that_asks_gets_its_password_where_nobody_sees_it() {
    let Some(lab) = Lab::take(&[("d", Kind::DebAmd64), ("r", Kind::RpmAmd64)]) else { return };
    let user = User::new(&lab);
    user.describe(&[lab.host("d"), lab.host("r")], "ops", "");
    sudo_asks(&lab);
    let none = run(user.install(&["facts"]));
    assert_eq!(none.status.code(), Some(4));
    let told = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(
        told.contains("d: ops may not become root: `sudo` asks for a password, and none is given"),
        "{told}"
    );

    let with = |name: &str, password: &str| {
        std::fs::write(user.path(name), format!("{password}\n")).expect("a file");
        let path = user.path(name).display().to_string();
        user.install(&["facts", "--sudo-password-file", &path])
    };
    watched(&lab, || (0..3).for_each(|_| drop(succeed(with("right", PASSWORD)))));
    let wrong = run(with("wrong", "guessed"));
    assert_eq!(wrong.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("may not become root"));
}

const PASSWORD: &str = "Quite-Secret-7";

/// `ops` has a password of its own, and `sudo` wants it.
fn sudo_asks(lab: &Lab) {
    for host in lab.hosts() {
        host.exec(&format!(
            "grep -rl ops /etc/sudoers.d /etc/sudoers | xargs -r sed -i 's/NOPASSWD: *//; s/NOPASSWD:ALL/ALL/'\n\
             printf 'ops:{PASSWORD}\\n' | chpasswd"
        ));
    }
}

/// Does something while somebody on each node looks at all processes, and sees no password.
fn watched(lab: &Lab, work: impl FnOnce()) {
    let watch = "rm -f /run/enough; echo begun; while [ ! -e /run/enough ]; do \
                 for f in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do tr '\\0' '\\n' < $f 2>/dev/null; done; done | \
                 grep -c 'Quite-[S]ecret' || :";
    let watch = |host: &Host| {
        let mut watch = host
            .ssh(Login::Root, watch)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("ssh can be run");
        let mut said = BufReader::new(watch.stdout.take().expect("its output was asked for")).lines();
        assert_eq!(said.next().expect("it says something").expect("a line"), "begun");
        (watch, said)
    };
    let watches: Vec<_> = lab.hosts().iter().map(watch).collect();
    work();
    for (host, (mut watch, mut said)) in lab.hosts().iter().zip(watches) {
        host.exec("touch /run/enough");
        assert_eq!(said.next().expect("it says something").expect("a line"), "0", "{}", host.name());
        assert!(watch.wait().expect("ssh ends").success());
    }
}

#[test]
fn passwords_and_host_keys_are_asked_for_at_a_terminal() {
    let Some(lab) = Lab::take(&[("d", Kind::DebAmd64), ("r", Kind::RpmAmd64)]) else { return };
    let (parcel, user) = (Parcel::new(1 << 10), User::new(&lab));
    let hosts = [lab.host("d"), lab.host("r")];
    user.describe(&hosts, "ops", "");
    sudo_asks(&lab);

    // The key opens the door, and sudo asks.
    let ask_sudo = user.install(&["--debug", "facts", "--ask-sudo-password"]);
    for (password, code) in [("guessed", 4), (PASSWORD, 0)] {
        let mut terminal = user.on_terminal(&ask_sudo);
        terminal.answer_hidden("sudo password of ops on the nodes: ", password);
        let (found, screen) = terminal.end();
        assert_eq!(found, code, "{screen}");
        let refused = "ops may not become root: `sudo` refused the password";
        assert_eq!(screen.contains(&format!("d: {refused}")), code == 4, "{screen}");
        assert_eq!(screen.contains(&format!("r: {refused}")), code == 4, "{screen}");
        assert!(!screen.contains(password), "it is not shown: {screen}");
    }

    // Nothing is known but the password: it opens the door, and sudo takes the same.
    user.forget();
    let mut install =
        user.phases(&parcel.at("bundle.tar.gz"), &parcel.at("key.pub"), "distribute,system,packages,files");
    install.args(["--ask-password", "--debug"]);
    let mut terminal = user.on_terminal(&install);
    terminal.answer_hidden("password of ops on the nodes: ", "guessed");
    hosts.iter().for_each(|_| terminal.answer("Do you trust it? [y/N] ", "yes"));
    let (code, screen) = terminal.end();
    assert_eq!(code, 4, "{screen}");
    for host in hosts {
        let refused = format!("{}: ops may not log in: its password was refused", host.name());
        assert!(screen.contains(&refused), "{screen}");
    }
    assert!(!screen.contains("guessed"), "it is not shown: {screen}");
    watched(&lab, || {
        let mut terminal = user.on_terminal(&install);
        terminal.answer_hidden("password of ops on the nodes: ", PASSWORD);
        let (code, screen) = terminal.end();
        assert_eq!(code, 0, "{screen}");
        assert!(!screen.contains("Do you trust it?"), "the keys are known now: {screen}");
        assert!(!screen.contains(PASSWORD), "it is not shown: {screen}");
    });

    // It is written down nowhere, here or there.
    let found =
        Command::new("grep").args(["-rl", PASSWORD]).args([user.path("state"), user.path("home")]).output();
    assert_eq!(String::from_utf8_lossy(&found.expect("grep can be run").stdout), "");
    for host in hosts {
        assert_eq!(host.exec("eggo-tool").trim(), host.arch());
        let places = "/var/log /var/lib/eggo /etc /home /root /tmp /run";
        let found = host.exec(&format!(
            "sync; grep -rlsa 'Quite-[S]ecret' {places} || :; journalctl -q | grep -a 'Quite-[S]ecret' || :"
        ));
        assert_eq!(found, "", "{}", host.name());
    }
}

#[test]
fn a_server_that_asks_its_own_questions_is_answered() {
    let Some(lab) = Lab::take(&[("d", Kind::DebAmd64)]) else { return };
    let (user, host) = (User::new(&lab), lab.host("d"));
    user.describe(&[host], "ops", "");
    user.forget();
    host.exec(
        "printf 'PasswordAuthentication no\\nKbdInteractiveAuthentication yes\\nUsePAM yes\\n' > /etc/ssh/sshd_config.d/00-ask.conf\n\
         systemctl restart ssh",
    );
    std::fs::write(user.path("password"), "lab\n").expect("a file");
    let path = user.path("password").display().to_string();
    let facts = succeed(user.install(&["facts", "--accept-new-host-keys", "--password-file", &path]));
    assert!(facts.contains("x86_64"), "{facts}");
}

#[test]
fn what_a_node_has_need_not_be_carried() {
    let Some(lab) = Lab::take(&[("d", Kind::DebAmd64), ("r", Kind::RpmAmd64)]) else { return };
    let (user, host) = (User::new(&lab), lab.host("d"));
    user.describe(&[host, lab.host("r")], "root", "");
    let mixed = run(user.install(&["facts", "--baseline"]));
    let told = String::from_utf8_lossy(&mixed.stderr).into_owned();
    assert_eq!(mixed.status.code(), Some(1), "{told}");
    assert!(told.contains("x86_64 .deb: d") && told.contains("eggo-install facts d --baseline"), "{told}");

    let captured = succeed(user.install(&["facts", "d", "--baseline"]));
    std::fs::write(user.path("have-amd64.json"), captured).expect("a file");
    let manifest = "name: lean\nversion: 1\narchs: [amd64]\nrepos:\n- {name: debian, type: deb, from: system}\n\
                    baseline: have-{arch}.json\npackages:\n  worker: [openssh-server, socat]\n";
    let bundle = user.build("lean", manifest, "amd64");
    let keys = TrustedKeys::from_files(&[user.path("key.pub")]).expect("a key");
    let opened = Bundle::open(&bundle).and_then(|bundle| bundle.verify(&keys)).expect("a bundle");
    let names: Vec<&str> = opened.index().items.iter().map(|item| item.name.as_str()).collect();
    assert!(names.contains(&"socat"), "{names:?}");
    assert!(!names.contains(&"openssh-server") && !names.contains(&"libc6"), "{names:?}");

    // With what is there it suffices.
    user.describe(&[host], "root", "");
    succeed(user.phases(&bundle, &user.path("key.pub"), "distribute,simulate,packages"));
    host.exec("socat -V >/dev/null");
}

/// A package that is in the way of the parcel's own.
fn put_in_the_way(parcel: &Parcel, host: &Host) {
    if host.name() == "d" {
        let control = "Package: hater\nVersion: 1\nArchitecture: all\nMaintainer: demo <demo@example.org>\n\
                       Conflicts: eggo-demo\nDescription: demo\n";
        let tree = parcel.at("hater");
        std::fs::create_dir_all(tree.join("DEBIAN")).expect("a folder");
        std::fs::write(tree.join("DEBIAN/control"), control).expect("a file");
        let made = Command::new("dpkg-deb").arg("-b").arg(&tree).arg(parcel.at("hater.deb")).output();
        assert!(made.expect("dpkg-deb").status.success());
        host.write("/root/hater.deb", &std::fs::read(parcel.at("hater.deb")).expect("a package"));
        host.exec("dpkg -i /root/hater.deb && rm /root/hater.deb");
    } else {
        let spec = "Name: hater\nVersion: 1\nRelease: 1\nSummary: demo\nLicense: none\nBuildArch: noarch\n\
                    Conflicts: eggo-demo\n%description\ndemo\n%files\n";
        std::fs::write(parcel.at("hater.spec"), spec).expect("a file");
        let top = format!("_topdir {}", parcel.at("rpm").display());
        let spec = parcel.at("hater.spec");
        let made = Command::new("rpmbuild").args(["--quiet", "-bb", "-D", &top]).arg(spec).output();
        assert!(made.expect("rpmbuild").status.success());
        let package = parcel.at("rpm/RPMS/noarch/hater-1-1.noarch.rpm");
        host.write("/root/hater.rpm", &std::fs::read(package).expect("a package"));
        host.exec("rpm -i /root/hater.rpm && rm /root/hater.rpm");
    }
}

#[test]
fn package_managers_are_asked_before_anything_is_sent() {
    let Some(lab) = Lab::take(&[("d", Kind::DebAmd64), ("r", Kind::RpmAmd64)]) else { return };
    let (parcel, user) = (Parcel::new(1 << 20), User::new(&lab));
    user.describe(&[lab.host("d"), lab.host("r")], "ops", "");
    let bundle = parcel.at("bundle.tar.gz").display().to_string();
    let key = parcel.at("key.pub").display().to_string();
    let check =
        |ignored: &str| user.install(&["check", &bundle, "--pubkey", &key, "--ignore-preflight", ignored]);
    let others = "memory,swap,modules,ports,programs";
    succeed(check(others));
    lab.hosts().iter().for_each(|host| put_in_the_way(&parcel, host));
    let refused = run(check(others));
    let told = String::from_utf8_lossy(&[refused.stdout, refused.stderr].concat()).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{told}");
    for (name, reason) in
        [("d", "will be REMOVED: hater"), ("r", "eggo-demo conflicts with (installed) hater-1-1.noarch")]
    {
        let found = told
            .lines()
            .any(|line| line.starts_with(name) && line.contains("transaction") && line.contains(reason));
        assert!(found, "{name}: {told}");
    }
    for host in lab.hosts() {
        let left = host.exec("ls -d /var/lib/eggo /tmp/packages.* 2>/dev/null || :");
        assert_eq!(left, "", "{}: looking leaves nothing", host.name());
    }
    succeed(check(&format!("{others},transaction")));
}
