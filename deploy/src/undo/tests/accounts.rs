//! Users and groups, on a node whose accounts are files in a folder.

use super::call;
use crate::remote::sandbox::Sandbox;

/// A node with some accounts, as `passwd.NAME` and `group.NAME`.
fn node(accounts: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    for account in accounts {
        sandbox.write(&format!("all/{account}"), "");
    }
    let all = sandbox.at("all");
    let last = "for last; do :; done";
    sandbox.program("getent", &format!("[ -e {all}/$1.$2 ]"));
    sandbox.program("useradd", &format!("{last}; mkdir -p {all}; : > {all}/passwd.$last"));
    sandbox.program("groupadd", &format!("{last}; mkdir -p {all}; : > {all}/group.$last"));
    sandbox.program("userdel", &format!("rm {all}/passwd.$1"));
    sandbox.program("groupdel", &format!("rm {all}/group.$1"));
    sandbox
}

fn run(sandbox: &Sandbox, words: &[&str]) -> String {
    let said = sandbox.run(call(sandbox, words));
    assert!(said.done && said.err.is_empty(), "{words:?}: {}", said.err);
    said.out
}

fn has(sandbox: &Sandbox, account: &str) -> bool {
    sandbox.has(&format!("all/{account}"))
}

#[test]
fn an_account_goes_if_it_was_made_for_us() {
    for (before, made) in [
        (&[][..], "group etcd\nuser etcd\n"),
        (&["group.etcd"], "user etcd\n"),
        (&["group.etcd", "passwd.etcd"], ""),
    ] {
        let sandbox = node(before);
        assert_eq!(run(&sandbox, &["make_account", "etcd"]), made);
        assert_eq!(run(&sandbox, &["make_account", "etcd"]), "", "once");
        for _ in 0..2 {
            run(&sandbox, &["remove_accounts"]);
        }
        for account in ["group.etcd", "passwd.etcd"] {
            assert_eq!(has(&sandbox, account), before.contains(&account), "{account} {before:?}");
        }
    }
}

#[test]
fn accounts_that_packages_brought_go_unless_a_unit_needs_them() {
    let sandbox = node(&["group.docker", "group.isula", "group.staff", "passwd.nginx", "group.nginx"]);
    sandbox.write("node/etc/passwd", "root:x:0:0::/root:/bin/sh\n");
    sandbox.write("node/etc/group", "root:x:0:\nstaff:x:50:\n");
    run(&sandbox, &["note_accounts"]);
    // An interrupted transaction has made one already: the first note counts.
    sandbox.write("node/etc/group", "root:x:0:\nstaff:x:50:\ndocker:x:101:\n");
    run(&sandbox, &["note_accounts"]);
    sandbox.write("node/etc/passwd", "root:x:0:0::/root:/bin/sh\nnginx:x:102:104::/:/bin/false\n");
    sandbox.write("node/etc/group", "root:x:0:\nstaff:x:50:\ndocker:x:101:\nisula:x:103:\nnginx:x:104:\n");
    run(&sandbox, &["note_brought_accounts"]);
    sandbox.write("node/usr/lib/systemd/system/isulad.socket", "[Socket]\nSocketGroup=isula\n");
    run(&sandbox, &["remove_accounts"]);
    assert!(
        !has(&sandbox, "group.docker") && !has(&sandbox, "passwd.nginx") && !has(&sandbox, "group.nginx")
    );
    assert!(has(&sandbox, "group.isula"), "its package stayed");
    assert!(has(&sandbox, "group.staff"), "it was there before");
}
