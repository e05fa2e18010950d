//! What the README shows is true: its commands run, in its order, in one folder.
//!
//! Stand-ins take the place of what a test cannot have: a small manifest under the name of a large one, tarballs of eggo with
//! one program each, hosts on which nobody listens. A command that needs hosts must fail for their sake, not for its words.

use eggo_tests::lab::project;
use eggo_tests::readme::{Line, PROGRAMS, commands, page};
use eggo_tests::site::program;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[test]
fn commands_run() {
    let desk = Desk::new();
    let commands = commands(&page());
    assert!(commands.len() >= 25, "only {} commands found", commands.len());
    for line in commands {
        desk.run(&line);
    }
}

struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { folder: tempfile::tempdir().expect("a folder") };
        let manifest = "name: kubernetes\nversion: 1.36.3\n\
            files: [{name: libnetfilter-conntrack3, path: settings, dst: /etc/kubernetes, roles: [worker]}]\n\
            binaries: [{name: kube-apiserver, path: \"elf-{arch}\", dst: /usr/bin, roles: [master]}]\n";
        desk.write("manifests/debian-k8s-1.36.yaml", manifest.as_bytes());
        desk.write("manifests/settings", b"a file");
        for (arch, machine, tarball) in
            [("amd64", 62, "packages-x86.tar.gz"), ("arm64", 183, "packages-arm.tar.gz")]
        {
            desk.write(&format!("manifests/elf-{arch}"), &elf(machine));
            desk.write(&format!("{arch}/bin/kubelet"), &elf(machine));
            let packed = Command::new("tar")
                .args(["-czf", tarball, "-C", arch, "."])
                .current_dir(desk.path(""))
                .status();
            assert!(packed.is_ok_and(|status| status.success()), "tar packs {tarball}");
        }
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::create_dir_all(self.path(name).parent().expect("a folder")).expect("a folder");
        fs::write(self.path(name), content).expect("a file");
    }

    fn run(&self, line: &Line) {
        let mut output = self.output(line.command());
        if told(&output).contains("nobody can be asked") {
            // A person says yes at the terminal; here the flag does.
            assert_eq!(output.status.code(), Some(1), "{}", told(&output));
            let mut command = line.command();
            command.arg("--yes");
            output = self.output(command);
        }
        let told = format!("{}: {:?}\n{}", line.words.join(" "), output.status, told(&output));
        if !failed_for_the_hosts(&output) {
            assert_eq!(output.status.code(), Some(line.exit), "{told}");
        }
        if line.words[1] == "template" {
            self.take_the_hosts_away();
        }
    }

    fn output(&self, mut command: Command) -> Output {
        command
            .current_dir(self.path(""))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("EGGO_STATE_DIR", self.path("state"))
            .env("EGGO_KEY_PASSWORD", "secret")
            .stdin(Stdio::null())
            .output()
            .expect("it runs")
    }

    /// deploy.yaml names ports of this machine that nobody listens on.
    fn take_the_hosts_away(&self) {
        let text = fs::read_to_string(self.path("deploy.yaml")).expect("deploy.yaml");
        let text = text.replace("192.168.7.", "127.0.0.").replace("port: 22", "port: 1");
        self.write("deploy.yaml", text.as_bytes());
    }
}

fn failed_for_the_hosts(output: &Output) -> bool {
    let told = told(output);
    match output.status.code() {
        Some(1) => told.contains("was installed from this machine"),
        Some(4) => told.contains("Connection refused"),
        _ => false,
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The header of a program, which is all that its arch is read from.
fn elf(machine: u8) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header[16] = 2;
    header[18] = machine;
    header
}

/// `like this --flag` in a sentence: the command and its flags are known.
#[test]
fn commands_in_sentences_are_known() {
    let page = page();
    let prose: String = page.split("```").step_by(2).collect();
    let mut count = 0;
    for code in prose.split('`').skip(1).step_by(2) {
        let words: Vec<&str> = code.split_whitespace().collect();
        let Some(first) = words.first() else { continue };
        let help = match *first {
            name if PROGRAMS.contains(&name) => help_of(name, &words[1..]),
            script if script.starts_with("scripts/") && project().join(script).is_file() => {
                help(Command::new(project().join(script)).arg("--help"))
            }
            _ => continue,
        };
        for word in words[1..].iter().filter(|word| word.starts_with('-')) {
            assert!(help.contains(word), "`{code}`: no {word} in\n{help}");
        }
        count += 1;
    }
    assert!(count >= 10, "only {count} commands found");
}

/// The help of the command that the words begin with; without one, the program's own.
fn help_of(name: &str, words: &[&str]) -> String {
    let own = help(Command::new(program(name)).arg("--help"));
    let is_command =
        |word: &&&str| own.lines().any(|line| line.trim_start().starts_with(&format!("{word} ")));
    match words.first().filter(is_command) {
        Some(command) => help(Command::new(program(name)).args([command, "--help"])),
        None => {
            let is_bundle = words.first().is_none_or(|word| word.ends_with(".tar.gz"));
            assert!(is_bundle, "`{name} {}` is no command", words.join(" "));
            own
        }
    }
}

fn help(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {}", told(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it shows of the demo is out of a whole run: `scripts/demo 2>&1 | tee docs/demo.txt`.
#[test]
fn the_run_that_is_shown_was_recorded() {
    let recorded = fs::read_to_string(project().join("docs/demo.txt")).expect("a recorded run");
    let mut recorded = recorded.lines();
    let page = page();
    let shown = page.split("```").skip(1).step_by(2).find(|block| block.starts_with("\n$ "));
    for line in shown.expect("a run").lines().filter(|line| !["", "…"].contains(line)) {
        assert!(
            recorded.any(|other| other == line),
            "`{line}` is not in docs/demo.txt, or not in this order"
        );
    }
}

#[test]
fn the_release_is_named_as_it_is_made() {
    let name = format!("eggo-{}-linux-x86_64.tar.gz", env!("CARGO_PKG_VERSION"));
    assert!(page().contains(&name), "the README does not name {name}");
    let script = fs::read_to_string(Path::new(&project()).join("scripts/release")).expect("scripts/release");
    assert!(
        script.contains("name=eggo-$VERSION-linux-$(machine"),
        "scripts/release names its tarballs otherwise"
    );
}

/// The Chinese page has the same headings, by level and order, and the same blocks, comments included.
#[test]
fn both_languages_are_in_step() {
    let (english, chinese) = (page(), chinese_page());
    let levels = |page: &str| -> Vec<usize> {
        let prose: String = page.split("```").step_by(2).collect();
        let hashes = prose.lines().map(|line| line.chars().take_while(|&c| c == '#').count());
        hashes.filter(|&level| level > 0).collect()
    };
    assert_eq!(levels(&english), levels(&chinese), "levels of the headings");
    assert!(levels(&english).len() >= 9, "the check itself works");
    let (ours, theirs) = (blocks(&english), blocks(&chinese));
    assert_eq!(ours.len(), theirs.len(), "number of blocks");
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!(*ours, theirs, "a block differs");
    }
    assert!(english.contains("(README.zh-CN.md)") && chinese.contains("(README.md)"), "each links the other");
}

/// What is between backticks and where links lead is the same too, as a set: word order differs.
#[test]
fn both_languages_name_the_same_things() {
    let links = |page: &str| -> BTreeSet<String> {
        page.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_string())).collect()
    };
    let codes = |page: &str| -> BTreeSet<String> {
        let prose: String = page.split("```").step_by(2).collect();
        prose.split('`').skip(1).step_by(2).map(str::to_string).collect()
    };
    let (english, chinese) = (page(), chinese_page());
    let without = |mut links: BTreeSet<String>, own: &str| {
        links.remove(own);
        links
    };
    assert_eq!(without(links(&english), "README.zh-CN.md"), without(links(&chinese), "README.md"));
    assert_eq!(codes(&english), codes(&chinese));
}

fn chinese_page() -> String {
    fs::read_to_string(project().join("README.zh-CN.md")).expect("a README in Chinese")
}

fn blocks(page: &str) -> Vec<&str> {
    page.split("```").skip(1).step_by(2).collect()
}
