//! Nodes behind a jump host: two real sshds, one of which is reached only through the other.

use crate::sshd::Sshd;
use bytes::Bytes;
use eggo_deploy::events::Silent;
use eggo_deploy::remote::{Command, Host, RemoteError};
use eggo_deploy::ssh::{HostKeys, Jump, Login, SshHost, Target};
use std::sync::Arc;

fn jump(sshd: &Sshd, keys: HostKeys) -> Arc<Jump> {
    let target = Target::new("jump host j", "127.0.0.1", sshd.port);
    Arc::new(Jump::new(target, sshd.login(), Arc::new(keys)))
}

fn node(sshd: &Sshd, keys: HostKeys, jump: &Arc<Jump>) -> SshHost {
    SshHost::new(sshd.target(), sshd.login(), Arc::new(keys), Arc::new(Silent)).through(Some(jump.clone()))
}

fn strict(sshd: &Sshd) -> HostKeys {
    HostKeys::load(&sshd.at("known_hosts"), &[]).unwrap()
}

#[tokio::test]
async fn both_host_keys_are_checked() {
    let (Some(first), Some(second)) = (Sshd::start("j"), Sshd::start("n")) else { return };
    let unknown = node(&second, second.keys(), &jump(&first, strict(&first))).connect().await.unwrap_err();
    let RemoteError::Jump { host, error } = &unknown else { panic!("{unknown}") };
    assert!(host == "n" && matches!(**error, RemoteError::UnknownKey { .. }), "{unknown}");
    assert!(
        unknown.to_string().starts_with("n: jump host j: the host key is unknown: ssh-ed25519"),
        "{unknown}"
    );

    let way = jump(&first, first.keys());
    let unknown = node(&second, strict(&second), &way).connect().await.unwrap_err();
    // The one of the node has been seen above, through no jump host that was trusted: so it is not known.
    assert!(matches!(unknown, RemoteError::UnknownKey { .. }), "{unknown}");
    node(&second, second.keys(), &way).connect().await.unwrap();
    node(&second, strict(&second), &jump(&first, strict(&first))).connect().await.unwrap();

    let public = |sshd: &Sshd| std::fs::read_to_string(sshd.at("host_key.pub")).unwrap().parse().unwrap();
    let pinned = |key: &Sshd| {
        let target = second.target().pinned(Some(public(key)));
        let keys = HostKeys::load(&second.at("none"), &[]).unwrap().accept_new();
        SshHost::new(target, second.login(), Arc::new(keys), Arc::new(Silent)).through(Some(way.clone()))
    };
    pinned(&second).connect().await.unwrap();
    let changed = pinned(&first).connect().await.unwrap_err();
    assert!(matches!(changed, RemoteError::ChangedKey { .. }), "{changed}");
    assert!(!second.at("none").exists(), "a pinned key is not written down");
}

#[tokio::test]
async fn commands_go_through_and_the_way_is_made_again() {
    let (Some(first), Some(second)) = (Sshd::start("j"), Sshd::start("n")) else { return };
    let way = jump(&first, first.keys());
    let hosts: Vec<_> = (0..4).map(|_| node(&second, second.keys(), &way)).collect();
    let big = Bytes::from(vec![b'x'; 5 << 20]);
    // More than any window, both ways, on several nodes over the one connection.
    let echo = |host| {
        let big = big.clone();
        async move {
            let host: &SshHost = host;
            assert_eq!(
                host.run(Command::look("echo", "cat").stdin(big.clone()).at_most(8 << 20))
                    .await
                    .unwrap()
                    .stdout,
                big
            );
        }
    };
    futures::future::join_all(hosts.iter().map(echo)).await;
    // The node sees the jump host, which is asked by its process: that of its sshd serves one connection for all.
    let jumps = || {
        let list = std::process::Command::new("ss").args(["-Htn", "state", "established"]).output().unwrap();
        let from = format!("127.0.0.1:{} ", first.port);
        let lines = String::from_utf8(list.stdout).unwrap();
        lines.lines().filter(|line| line.split_whitespace().nth(2) == Some(from.trim())).count()
    };
    assert_eq!(jumps(), 1);

    // A jump host that is lost takes the nodes' connections along; they come back through a new one.
    let script = format!(
        "cd /var/lib/eggo; if [ -e tried ]; then echo second; exit; fi; : > tried
         kill -9 $(ss -Htnp state established sport = :{} | sed -n 's/.*pid=\\([0-9]*\\).*/\\1/p' | sort -u); sleep 9",
        first.port
    );
    assert_eq!(
        hosts[0].run(Command::look("break", crate::ssh::shell(script))).await.unwrap().text(),
        "second"
    );
    assert_eq!(hosts[1].run(Command::look("go on", "echo on")).await.unwrap().text(), "on");
}

#[tokio::test]
async fn what_is_wrong_with_the_way_is_said_for_each_node() {
    let (Some(first), Some(second)) = (Sshd::start("j"), Sshd::start("n")) else { return };
    let target = || Target::new("jump host j", "127.0.0.1", first.port);
    let refused = Arc::new(Jump::new(target(), Login::new("root"), Arc::new(first.keys())));
    let error = node(&second, second.keys(), &refused).connect().await.unwrap_err();
    assert!(error.to_string().starts_with("n: jump host j: root may not log in: "), "{error}");

    let way = jump(&first, first.keys());
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let host = SshHost::new(
        Target::new("gone", "127.0.0.1", closed),
        second.login(),
        Arc::new(second.keys()),
        Arc::new(Silent),
    );
    let error = host.through(Some(way)).connect().await.unwrap_err().to_string();
    let expected = format!("gone: cannot connect to 127.0.0.1:{closed} through jump host j: ");
    assert!(error.starts_with(&expected), "{error}");
}
