//! Each node in its own way: its user, key, host key and jump host, as deploy.yaml has them.

use crate::access::{assert_in, facts, told};
use crate::sshd::Sshd;
use std::fs;

/// Keys that are pinned, so that nobody is asked and nothing is written down.
fn deploy(node: &Sshd, jump: &Sshd, pinned: &Sshd) {
    let arch = std::env::consts::ARCH;
    let public = |sshd: &Sshd| fs::read_to_string(sshd.at("host_key.pub")).unwrap().trim().to_string();
    let host = format!(
        "[{{name: a, ip: 127.0.0.1, port: {}, arch: {arch}, username: root, private-key-path: {}, host-key: \"{}\"}}]",
        node.port,
        node.at("user_key").display(),
        public(node)
    );
    let text = format!(
        "username: nobody\njump: {{address: localhost, port: {}, user: root, private-key-path: {}, host-key: \"{}\"}}\n\
         masters: {host}\nworkers: {host}\ninstall: {{package-source: {{type: bundle}}}}\n",
        jump.port,
        jump.at("user_key").display(),
        public(pinned)
    );
    fs::create_dir_all(node.at("home")).unwrap();
    fs::write(node.at("deploy.yaml"), text).unwrap();
}

#[test]
fn a_node_behind_a_jump_host() {
    let (Some(node), Some(jump)) = (Sshd::start("a"), Sshd::start("j")) else { return };
    deploy(&node, &jump, &jump);
    assert_in(&facts(&node, &[]).output().unwrap());
    assert!(!node.at("home/.ssh").exists(), "nothing had to be learned");

    deploy(&node, &jump, &node);
    let changed = facts(&node, &["--accept-new-host-keys"]).output().unwrap();
    assert_eq!(changed.status.code(), Some(4));
    let told = told(&changed);
    let expected =
        format!("a: jump host localhost:{}: THE HOST KEY HAS CHANGED: ssh-ed25519 SHA256:", jump.port);
    assert!(told.contains(&expected) && told.contains("known: `host-key`: ssh-ed25519 SHA256:"), "{told}");
}

#[test]
fn a_password_stays_away_from_the_jump_host() {
    let (Some(node), Some(jump)) = (Sshd::start("a"), Sshd::start("j")) else { return };
    deploy(&node, &jump, &jump);
    let text = fs::read_to_string(node.at("deploy.yaml")).unwrap();
    let key = jump.at("user_key").display().to_string();
    fs::write(node.at("deploy.yaml"), text.replace(&key, &node.at("user_key").display().to_string()))
        .unwrap();
    fs::write(node.at("password"), crate::sshd::PASSWORD).unwrap();
    let file = node.at("password").display().to_string();
    let refused = facts(&node, &["--password-file", &file]).output().unwrap();
    assert_eq!(refused.status.code(), Some(4));
    let told = told(&refused);
    let expected =
        format!("jump host localhost:{}: root may not log in: its private key was refused", jump.port);
    assert!(told.contains(&expected) && !told.contains("password was refused"), "{told}");
}
