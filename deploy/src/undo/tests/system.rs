use super::*;

/// A firewalld that has some ports open for good and some now; what it is asked for is printed.
fn firewalld(sandbox: &Sandbox, open: &str, runs: &str) {
    sandbox.program(
        "firewall-cmd",
        &format!(
            "case $* in '--permanent --list-ports') echo '{open}' ;; --list-ports) echo '{runs}' ;; *) echo \"$@\" ;; esac"
        ),
    );
}

#[test]
fn ports_in_a_range_of_the_users_are_open_and_stay_so() {
    let sandbox = Sandbox::new();
    let users = "22/tcp 2379-2380/tcp 6443/udp";
    let open = ["open_ports", "firewalld", "2379/tcp", "2380/tcp", "2381/tcp", "6443/tcp"];
    let does = |words: &[&str]| sandbox.does(call(&sandbox, words));
    firewalld(&sandbox, users, "2379-2381/tcp");
    assert_eq!(
        does(&open),
        "-q --permanent --add-port=2381/tcp --add-port=6443/tcp\n-q --add-port=6443/tcp\n"
    );
    let merged = "2379-2381/tcp 6443/tcp 6443/udp";
    firewalld(&sandbox, merged, merged);
    assert_eq!(does(&open), "", "nothing is left to open");
    let close = ["close_ports", "firewalld"];
    let closed = "-q --permanent --remove-port=2381/tcp --remove-port=6443/tcp\n-q --remove-port=6443/tcp\n";
    assert_eq!(does(&close), closed);
    assert_eq!(does(&close), "", "once");
    sandbox.write("kept/ports", "--reload\n22/tcp; reboot\n7/tcp\n");
    assert_eq!(does(&close), "-q --permanent --remove-port=7/tcp\n-q --remove-port=7/tcp\n", "only ports");
}

#[test]
fn ufw_closes_what_it_opened() {
    let sandbox = Sandbox::new();
    sandbox
        .program("ufw", "case $1 in status) echo '22/tcp ALLOW Anywhere' ;; *) echo \"$@\" >> asked ;; esac");
    sandbox.does(call(&sandbox, &["open_ports", "ufw", "22/tcp", "6443/tcp"]));
    sandbox.does(call(&sandbox, &["close_ports", "ufw"]));
    assert_eq!(sandbox.read("asked"), "allow 6443/tcp comment eggo\ndelete allow 6443/tcp\n");
}

#[test]
fn nftables_gets_rules_that_stay_and_go_again() {
    let sandbox = Sandbox::new();
    sandbox.program("systemctl", "echo \"$@\" >> asked");
    sandbox.program(
        "nft",
        "case $* in 'list chain'*) ;; '-a list'*) echo 'tcp dport 7 accept comment \"eggo\" # handle 9' ;; *) echo \"$@\" >> asked ;; esac",
    );
    let open = ["open_ports", "nftables", "7/tcp", "8/udp"];
    for _ in 0..2 {
        sandbox.does(call(&sandbox, &open));
    }
    let rule = |port: &str| format!("insert rule inet filter input {port} accept comment \"eggo\"\n");
    let rules = rule("tcp dport 7") + &rule("udp dport 8");
    assert_eq!(sandbox.read("rules.nft"), rules);
    assert_eq!(sandbox.read("asked"), format!("{rules}daemon-reload\ndaemon-reload\n"));
    let file = sandbox.at("rules.nft");
    let drop_in =
        format!("[Service]\nExecStartPost=/usr/sbin/nft -f {file}\nExecReload=/usr/sbin/nft -f {file}\n");
    assert_eq!(sandbox.read("nftables.service.d/eggo.conf"), drop_in);
    sandbox.write("asked", "");
    sandbox.does(call(&sandbox, &["close_ports", "nftables"]));
    assert_eq!(sandbox.read("asked"), "delete rule inet filter input handle 9\ndaemon-reload\n");
    assert!(["rules.nft", "nftables.service.d", "kept/ports"].iter().all(|name| !sandbox.has(name)));
}

#[test]
fn our_names_come_into_the_file_of_hosts_and_out_of_it_again() {
    let sandbox = Sandbox::new();
    let one = "# begin eggo one\n10.0.0.1\ta\n# end eggo one\n";
    let (above, below) = ("127.0.0.1 localhost\n", "# begin eggo two\n10.0.0.2\tb\n# end eggo two\n::1 x\n");
    let users = format!("{above}{below}");
    let add = |block: &str| {
        let script = format!("printf '%s' '{block}' | {{\n{}}}", call(&sandbox, &["add_hosts", "one"]));
        sandbox.does(script)
    };
    sandbox.write("hosts", &format!("{above}{one}{below}"));
    std::os::unix::fs::symlink("/nowhere", sandbox.path("hosts.eggo-new")).unwrap();
    assert_eq!(add(one), "", "the block moves to the end");
    assert_eq!(sandbox.read("hosts"), format!("{users}{one}"));
    assert_eq!(add(one), "same\n");
    for _ in 0..2 {
        sandbox.does(call(&sandbox, &["remove_hosts", "one"]));
        assert_eq!(sandbox.read("hosts"), users);
    }
    std::fs::remove_file(sandbox.path("hosts")).unwrap();
    sandbox.does(call(&sandbox, &["remove_hosts", "one"]));
    assert!(!sandbox.has("hosts"));
}

#[test]
fn kernel_settings_go_back_to_what_was_noted() {
    let sandbox = Sandbox::new();
    sandbox.program("sysctl", "for file; do :; done; cat \"$file\" >> set");
    sandbox.does(call(&sandbox, &["restore_settings", "sysctl"]));
    assert!(!sandbox.has("set"), "nothing was noted");
    sandbox.write("kept/sysctl", "vm.swappiness = 60\n");
    sandbox.does(call(&sandbox, &["restore_settings", "sysctl"]));
    assert_eq!(sandbox.read("set"), "vm.swappiness = 60\n");
}
