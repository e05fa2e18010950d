//! Signals, as a user sends them to the program while a script runs on a node: here a hook before a cleanup.

use crate::access::{PROGRAM, key_line};
use crate::sshd::Sshd;
use eggo_bundles::Arch;
use eggo_deploy::journal::{Journal, Record};
use eggo_deploy::state::{Folder, Name, State as _};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A cluster, as far as this machine knows, whose cleanup runs `hook` on the node first.
fn cluster(sshd: &Sshd, hook: &str) -> PathBuf {
    let arch = std::env::consts::ARCH;
    let host = format!("[{{name: a, ip: 127.0.0.1, port: {}, arch: {arch}}}]", sshd.port);
    let text = format!(
        "cluster-id: demo\n{}masters: {host}\nworkers: {host}\ninstall:\n  package-source: {{type: bundle}}\n  \
         addition:\n    master: [{{name: pre.sh, type: shell, schedule: precleanup, timeout: 600s}}]\n",
        key_line(sshd, "user_key")
    );
    fs::create_dir_all(sshd.at("home")).unwrap();
    fs::write(sshd.at("deploy.yaml"), text).unwrap();
    let state = sshd.at("state/demo");
    fs::create_dir_all(&state).unwrap();
    let (node, step, at) = ("a".to_string(), "demo/step".to_string(), "2026-01-01T00:00:00Z".to_string());
    let intent = Record::Intent {
        node: node.clone(),
        phase: "demo".into(),
        step: step.clone(),
        fingerprint: String::new(),
        undo: Vec::new(),
        at: at.clone(),
    };
    let lines = [intent, Record::Done { node, step, at }]
        .map(|record| serde_json::to_string(&record).unwrap() + "\n");
    let folder = Folder::new(&state);
    fs::write(folder.path(&Name::Journal), lines.concat()).unwrap();
    let arch: Arch = arch.parse().unwrap();
    folder.put(&Name::Hook(arch, "pre.sh".into()), hook.as_bytes()).unwrap();
    state
}

fn cleanup(sshd: &Sshd) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["cleanup", "--yes", "--accept-new-host-keys", "-f"]).arg(sshd.at("deploy.yaml"));
    command.arg("--state-dir").arg(sshd.at("state"));
    command.env_clear().env("HOME", sshd.at("home")).env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Started, with the hook under way.
fn begun(sshd: &Sshd) -> Child {
    let child = cleanup(sshd).spawn().unwrap();
    let begin = Instant::now();
    while !sshd.own("began").exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the hook does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Exit code and what was said.
fn end(mut child: Child) -> (Option<i32>, String) {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

fn runs(words: &str) -> bool {
    let line = words.replace(' ', "\0") + "\0";
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .into_iter()
        .any(|process| fs::read(process.path().join("cmdline")).is_ok_and(|found| found == line.as_bytes()))
}

#[test]
fn what_is_under_way_is_waited_for_and_the_next_run_goes_on() {
    let Some(sshd) = Sshd::start("a") else { return };
    let hook = "cd /var/lib/eggo; echo once >> count; : > began; sleep 3; : > ended\n";
    let state = cluster(&sshd, hook);
    let child = begun(&sshd);
    send(&child, Signal::INT);
    let (code, said) = end(child);
    assert_eq!(code, Some(130), "{said}");
    for expected in [
        "stopping: waiting for the steps under way; press Ctrl-C again to end at once",
        "stopped: 1 change was made",
        "run the same command again: it goes on where it stopped",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    assert!(sshd.own("ended").exists());
    let entries = Journal::read(&state).unwrap().entries();
    assert!(entries.iter().any(|entry| entry.step.ends_with("pre.sh") && entry.done), "{entries:?}");

    let (code, said) = end(cleanup(&sshd).spawn().unwrap());
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fs::read_to_string(sshd.own("count")).unwrap(), "once\n");
}

#[test]
fn what_takes_longer_than_the_limit_is_ended_on_the_node() {
    let Some(sshd) = Sshd::start("a") else { return };
    let state = cluster(&sshd, "cd /var/lib/eggo; : > began; sleep 97531; : > ended\n");
    let child = begun(&sshd);
    assert!(runs("sleep 97531"));
    send(&child, Signal::TERM);
    let (code, said) = end(child);
    assert_eq!(code, Some(130), "{said}");
    assert!(!runs("sleep 97531"), "nothing goes on behind the caller's back");
    assert!(!sshd.own("ended").exists());
    let left: Vec<_> = fs::read_dir(sshd.own("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["began"], "the script has tidied up");
    let entries = Journal::read(&state).unwrap().entries();
    assert!(entries.iter().any(|entry| entry.step.ends_with("pre.sh") && !entry.done), "{entries:?}");
}

#[test]
fn a_second_signal_ends_at_once() {
    let Some(sshd) = Sshd::start("a") else { return };
    let state = cluster(&sshd, "cd /var/lib/eggo; : > began; sleep 20\n");
    let mut child = begun(&sshd);
    send(&child, Signal::INT);
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said = lines.map_while(Result::ok).any(|line| line.starts_with("stopping: "));
    assert!(said);
    let begin = Instant::now();
    send(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    Journal::read(&state).unwrap();
}
