//! What hostile nodes can make of the program: of its screen, its memory and its time.

use crate::access::{PROGRAM, told};
use crate::hostile::{Answer, Behaviour, Hostile, asks_for_facts, facts};
use crate::terminal::Terminal;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// deploy.yaml for these servers; every one is master and worker.
pub fn deploy(folder: &Path, servers: &[Hostile]) {
    deploy_at(folder, &servers.iter().map(|server| server.port).collect::<Vec<_>>());
}

/// The same for ports, each on an address of its own.
fn deploy_at(folder: &Path, ports: &[u16]) {
    let arch = std::env::consts::ARCH;
    let host = |(n, port): (usize, &u16)| {
        format!("{{name: n{n}, ip: 127.0.0.{}, port: {port}, arch: {arch}}}", n + 1)
    };
    let hosts: Vec<String> = ports.iter().enumerate().map(host).collect();
    let hosts = hosts.join(", ");
    let text = format!(
        "cluster-id: demo\nusername: root\npassword: x\nmasters: [{hosts}]\nworkers: [{hosts}]\n\
         install: {{package-source: {{type: bundle}}}}\n"
    );
    fs::create_dir_all(folder.join("home")).unwrap();
    fs::write(folder.join("deploy.yaml"), text).unwrap();
}

pub fn program(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(words).arg("-f").arg(folder.join("deploy.yaml")).arg("--accept-new-host-keys");
    command.env_clear().env("HOME", folder.join("home")).env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    command
}

/// Clears the screen, goes up, sets the title, fakes a question, hides itself and turns its direction.
const NASTY: &str = "\u{1b}[2J\u{1b}[1;1H\u{1b}]0;owned\u{7}\rinstall this? [y/N] y\u{9b}1A\u{8}\u{202e}gnihton\u{200b}\u{feff}";

fn assert_harmless(screen: &str) {
    for c in screen.chars() {
        assert!(c == '\n' || c == '\t' || !eggo_terminal::is_obeyed(c), "{c:?} in {screen:?}");
    }
}

fn nasty_facts(command: &str) -> Answer {
    match asks_for_facts(command) {
        true => Answer::says(facts().replace("Debian GNU", &format!("{NASTY}Debian"))),
        false => Answer::fails(NASTY, 1),
    }
}

fn nasty_errors(_command: &str) -> Answer {
    Answer::fails(format!("{NASTY}\nerror: all is lost\nwarning: {NASTY}\n"), 1)
}

#[test]
fn nothing_of_a_node_is_obeyed_by_a_terminal() {
    for answers in [nasty_facts, nasty_errors] {
        let folder = tempfile::tempdir().unwrap();
        let servers = [Hostile::start(Behaviour::Answers(answers))];
        deploy(folder.path(), &servers);
        for words in [&["facts"][..], &["facts", "--format", "json"], &["facts", "--debug"]] {
            let output = program(folder.path(), words).output().unwrap();
            let screen = told(&output);
            assert_harmless(&screen);
            let shown = ["\\u{1b}[2J", "\\u001b[2J"].iter().any(|word| screen.contains(word));
            assert!(shown, "it is shown: {screen}");
            let fakes = ["install this?", "error: all is lost", "warning: "];
            for line in screen.lines() {
                assert!(!fakes.iter().any(|fake| line.starts_with(fake)), "{screen}");
            }
        }
        // On a terminal, only what the program itself draws is obeyed by it.
        let line = format!(
            "{PROGRAM} facts -f {} --accept-new-host-keys",
            folder.path().join("deploy.yaml").display()
        );
        let mut script = Command::new("script");
        script.env_clear().env("HOME", folder.path().join("home")).env("PATH", "/usr/bin:/bin");
        let (_, screen) = Terminal::run(&line, &mut script).end();
        for word in ["\u{1b}[2J", "\u{1b}]0;", "\u{9b}", "\u{202e}", "\u{200b}", "\u{8}"] {
            assert!(!screen.contains(word), "{word:?} in {screen:?}");
        }
        assert!(!screen.contains("\rinstall this"), "{screen:?}");
    }
}
