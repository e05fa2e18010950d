//! Every way onto a node, as a user takes it: the program itself against a real sshd.

use crate::sshd::{PASSWORD, Sshd, keygen};
use crate::terminal::Terminal;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_eggo-install");

/// deploy.yaml for one host that says of the login only `lines`.
fn deploy(sshd: &Sshd, lines: &str) -> PathBuf {
    let arch = std::env::consts::ARCH;
    let host = format!("[{{name: a, ip: 127.0.0.1, port: {}, arch: {arch}}}]", sshd.port);
    let text = format!(
        "username: root\n{lines}masters: {host}\nworkers: {host}\ninstall: {{package-source: {{type: bundle}}}}\n"
    );
    fs::create_dir_all(sshd.at("home")).unwrap();
    fs::write(sshd.at("deploy.yaml"), text).unwrap();
    sshd.at("deploy.yaml")
}

pub fn key_line(sshd: &Sshd, name: &str) -> String {
    format!("private-key-path: {}\n", sshd.at(name).display())
}

/// `eggo-install facts`, which logs in and becomes root, in a clean environment.
pub fn facts(sshd: &Sshd, words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["facts", "-f"]).arg(sshd.at("deploy.yaml")).args(words);
    command.env_clear().env("HOME", sshd.at("home")).env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    command
}

fn on_terminal(sshd: &Sshd, words: &str) -> Terminal {
    let line = format!("{PROGRAM} facts -f {} {words}", sshd.at("deploy.yaml").display());
    let mut script = Command::new("script");
    script.env_clear().env("HOME", sshd.at("home")).env("PATH", "/usr/bin:/bin");
    Terminal::run(&line, &mut script)
}

pub fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub fn assert_in(output: &Output) {
    assert!(output.status.success(), "{}", told(output));
    assert!(String::from_utf8_lossy(&output.stdout).contains(std::env::consts::ARCH), "{}", told(output));
}

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_key_in_an_agent() {
    let Some(sshd) = Sshd::start("a") else { return };
    deploy(&sshd, "");
    let refused = facts(&sshd, &["--accept-new-host-keys"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(4));
    assert!(told(&refused).contains("neither key, agent nor password is given"), "{}", told(&refused));

    let socket = sshd.at("agent");
    let agent =
        Command::new("ssh-agent").arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).spawn().unwrap();
    let _agent = Agent(agent);
    let with_agent = || {
        let mut command = facts(&sshd, &[]);
        command.env("SSH_AUTH_SOCK", &socket);
        command
    };
    let add =
        || Command::new("ssh-add").arg("-q").arg(sshd.at("user_key")).env("SSH_AUTH_SOCK", &socket).status();
    while !socket.exists() {
        std::thread::yield_now();
    }
    let empty = with_agent().output().unwrap();
    assert!(told(&empty).contains("the ssh agent has no keys"), "{}", told(&empty));
    assert!(add().unwrap().success());
    assert_in(&with_agent().output().unwrap());
}

#[test]
fn a_locked_key_by_file_and_by_prompt() {
    let Some(sshd) = Sshd::start("a") else { return };
    keygen(&sshd.at("locked"), "open sesame");
    fs::copy(sshd.at("locked.pub"), sshd.at("authorized_keys")).unwrap();
    deploy(&sshd, &key_line(&sshd, "locked"));
    fs::write(sshd.at("phrase"), "open sesame\n").unwrap();
    fs::write(sshd.at("wrong"), "open pepper\n").unwrap();
    let file = |name: &str| {
        let path = sshd.at(name).display().to_string();
        facts(&sshd, &["--accept-new-host-keys", "--passphrase-file", &path]).output().unwrap()
    };
    assert_in(&file("phrase"));
    let wrong = file("wrong");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(told(&wrong).contains("wrong passphrase for the private key"), "{}", told(&wrong));
    let nobody = facts(&sshd, &[]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    assert!(told(&nobody).contains("no passphrase was given"), "{}", told(&nobody));

    let mut terminal = on_terminal(&sshd, "");
    terminal.answer_hidden("passphrase of ", "open sesame");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains("open sesame"), "it is not shown: {screen}");
}

#[test]
fn the_user_s_own_keys_where_none_is_named() {
    let Some(sshd) = Sshd::start("a") else { return };
    deploy(&sshd, "");
    fs::create_dir_all(sshd.at("home/.ssh")).unwrap();
    let own = |name: &str| sshd.at(&format!("home/.ssh/{name}"));
    let run = |words: &[&str]| facts(&sshd, &[&["--accept-new-host-keys"], words].concat()).output().unwrap();
    keygen(&own("id_ed25519"), "");
    fs::write(own("id_ecdsa"), "not a key").unwrap();
    let refused = run(&[]);
    assert!(
        told(&refused).contains("root may not log in: the key in ~/.ssh was refused"),
        "{}",
        told(&refused)
    );
    fs::copy(sshd.at("user_key"), own("id_rsa")).unwrap();
    assert_in(&run(&[]));

    // A locked one is asked for where it is the only one.
    for name in ["id_ed25519", "id_ed25519.pub", "id_rsa"] {
        fs::remove_file(own(name)).unwrap();
    }
    keygen(&own("id_ed25519"), "open sesame");
    fs::copy(own("id_ed25519.pub"), sshd.at("authorized_keys")).unwrap();
    assert!(told(&run(&[])).contains("no passphrase was given"));
    fs::write(sshd.at("phrase"), "open sesame\n").unwrap();
    assert_in(&run(&["--passphrase-file", &sshd.at("phrase").display().to_string()]));
}

#[test]
fn a_named_key_that_is_not_there_is_missed_only_without_another_way() {
    let Some(sshd) = Sshd::start("a") else { return };
    deploy(&sshd, &key_line(&sshd, "absent"));
    let alone = facts(&sshd, &["--accept-new-host-keys"]).output().unwrap();
    assert_eq!(alone.status.code(), Some(1));
    assert!(told(&alone).contains("cannot read the private key"), "{}", told(&alone));
    fs::write(sshd.at("password"), PASSWORD).unwrap();
    let file = sshd.at("password").display().to_string();
    let other = facts(&sshd, &["--accept-new-host-keys", "--password-file", &file]).output().unwrap();
    assert_in(&other);
    assert!(told(&other).contains("warning: `private-key-path` is `"), "{}", told(&other));
}

/// Looks at every process of this machine until told to stop; whether one shows the word.
fn somebody_shows(word: &str, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        for process in fs::read_dir("/proc").unwrap().flatten() {
            for file in ["cmdline", "environ"] {
                let bytes = fs::read(process.path().join(file)).unwrap_or_default();
                if bytes.windows(word.len()).any(|window| window == word.as_bytes()) {
                    return true;
                }
            }
        }
    }
    false
}

#[test]
fn a_password_by_file_and_by_prompt_and_seen_by_nobody() {
    let Some(sshd) = Sshd::start("a") else { return };
    deploy(&sshd, "");
    fs::write(sshd.at("password"), format!("{PASSWORD}\nnot this line\n")).unwrap();
    fs::write(sshd.at("wrong"), "incorrect\n").unwrap();
    let file = |name: &str| {
        let path = sshd.at(name).display().to_string();
        facts(&sshd, &["--accept-new-host-keys", "--password-file", &path]).output().unwrap()
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| somebody_shows(PASSWORD, &stop));
        assert_in(&file("password"));
        stop.store(true, Ordering::Relaxed);
        assert!(!watch.join().unwrap(), "the password stood in a process list");
    });
    let wrong = file("wrong");
    assert_eq!(wrong.status.code(), Some(4));
    assert!(told(&wrong).contains("a: root may not log in: its password was refused"), "{}", told(&wrong));

    let mut terminal = on_terminal(&sshd, "--ask-password");
    terminal.answer_hidden("password of root", PASSWORD);
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains(PASSWORD), "it is not shown: {screen}");
}

#[test]
fn host_keys_unknown_asked_hashed_and_changed() {
    let Some(mut sshd) = Sshd::start("a") else { return };
    deploy(&sshd, &key_line(&sshd, "user_key"));
    let known = sshd.at("home/.ssh/known_hosts");
    let unknown = facts(&sshd, &[]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(4));
    assert!(told(&unknown).contains("a: the host key is unknown: ssh-ed25519 SHA256:"), "{}", told(&unknown));
    assert!(told(&unknown).contains("--accept-new-host-keys"), "{}", told(&unknown));

    for (answer, code) in [("n", 4), ("y", 0)] {
        let mut terminal = on_terminal(&sshd, "");
        terminal.answer("Do you trust it? [y/N]", answer);
        let (found, screen) = terminal.end();
        assert_eq!(found, code, "{screen}");
        assert_eq!(known.exists(), code == 0);
    }
    let hashed = Command::new("ssh-keygen").arg("-H").arg("-f").arg(&known).output().unwrap();
    assert!(hashed.status.success());
    assert!(fs::read_to_string(&known).unwrap().starts_with("|1|"));
    assert_in(&facts(&sshd, &[]).output().unwrap());

    let before = fs::read(&known).unwrap();
    sshd.change_host_key();
    for words in [&[][..], &["--accept-new-host-keys"]] {
        let changed = facts(&sshd, words).output().unwrap();
        assert_eq!(changed.status.code(), Some(4));
        let told = told(&changed);
        assert!(told.contains("a: THE HOST KEY HAS CHANGED: ssh-ed25519 SHA256:"), "{told}");
        assert!(told.contains("known_hosts line 1") && told.contains("ssh-keygen -R"), "{told}");
    }
    assert_eq!(fs::read(&known).unwrap(), before, "a changed key is not written down");

    // Another file knows nothing of it, and learns the key that is there now.
    let other = sshd.at("other_hosts").display().to_string();
    assert_eq!(facts(&sshd, &["--known-hosts", &other]).output().unwrap().status.code(), Some(4));
    assert_in(&facts(&sshd, &["--known-hosts", &other, "--accept-new-host-keys"]).output().unwrap());
    assert_in(&facts(&sshd, &["--known-hosts", &other]).output().unwrap());
    assert_eq!(fs::read(&known).unwrap(), before);
}
