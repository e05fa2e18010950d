//! What hostile nodes can make of the program: of its screen, its memory and its time.

use crate::access::{PROGRAM, told};
use crate::hostile::{Answer, Behaviour, Hostile, asks_for_facts, facts};
use crate::terminal::Terminal;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

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

/// The most memory that a program had at any time, in MiB.
fn peak(command: &mut Command) -> (u64, Output) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read = |from: &mut dyn Read| {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    };
    std::thread::scope(|scope| {
        let stdout = scope.spawn(move || read(&mut out));
        let stderr = scope.spawn(move || read(&mut err));
        let mut peak = 0;
        let status = loop {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
            peak = peak.max(kib.unwrap_or(0));
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let output = Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() };
        (peak >> 10, output)
    })
}

fn newlines(_command: &str) -> Answer {
    Answer::Floods { piece: vec![b'\n'; 32 << 10], bytes: 60 << 20, stderr: false }
}

fn errors(_command: &str) -> Answer {
    Answer::Floods { piece: vec![b'x'; 32 << 10], bytes: 60 << 20, stderr: true }
}

/// As much as is taken, in the form that takes the most memory.
fn packages(_command: &str) -> Answer {
    let many: String = (0..19_000).map(|n| format!("ii \tp{n}\t{}\tamd64\n", "1".repeat(30))).collect();
    Answer::says(facts().replace("ii \tadduser", &format!("{many}ii \tadduser")))
}

fn words(_command: &str) -> Answer {
    let many = |what: &str| (0..1_400).map(|n| format!("{what}{n}.service\n")).collect::<String>();
    let text = facts().replace("@@ leftovers\n", &format!("@@ leftovers\n{}", many("l")));
    let text = text.replace("@@ services\n", &format!("@@ services\n{}", many("s")));
    Answer::says(text.replace("@@ enabled\n", &format!("@@ enabled\n{}", many("e"))))
}

#[test]
fn sixty_four_hostile_nodes_take_no_more_memory_than_the_readme_says() {
    for (name, answers, code) in [
        ("newlines", newlines as fn(&str) -> Answer, 4),
        ("errors", errors, 4),
        ("packages", packages, 0),
        ("words", words, 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = Hostile::start(Behaviour::Answers(answers));
        deploy_at(folder.path(), &[server.port; 64]);
        let (peak, output) = peak(&mut program(folder.path(), &["facts"]));
        let told = told(&output);
        let start: String = told.chars().take(2_000).collect();
        assert_eq!(output.status.code(), Some(code), "{name}: {start}");
        assert!(told.len() < 100_000, "{name}: {} bytes of output: {start}", told.len());
        println!("{name}: {peak} MiB");
        assert!(peak > 4 && peak <= 150, "{name}: {peak} MiB");
    }
}
