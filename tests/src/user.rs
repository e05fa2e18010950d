//! Somebody at the control machine: a home with known hosts, a deploy.yaml, a state folder, and the
//! programs as they are called.

use crate::lab::{Host, Lab, project};
use crate::site::{program, succeed};
use crate::terminal::Terminal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

pub struct User {
    folder: TempDir,
    key: PathBuf,
}

impl User {
    pub fn new(lab: &Lab) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir_all(folder.path().join("home/.ssh")).expect("a home");
        fs::copy(lab.known_hosts(), folder.path().join("home/.ssh/known_hosts")).expect("known hosts");
        Self { folder, key: lab.key().to_path_buf() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// deploy.yaml for hosts that are all workers, the first of them a master too. `more` is appended; unless it says
    /// what to install, everything comes from the bundle.
    pub fn describe(&self, hosts: &[&Host], user: &str, more: &str) {
        let entry = |host: &&Host| {
            format!("- {{name: {}, ip: {}, port: 22, arch: {}}}\n", host.name(), host.address(), host.arch())
        };
        let workers: String = hosts.iter().map(entry).collect();
        let key = self.key.display();
        let mut text = format!(
            "cluster-id: demo\nusername: {user}\nprivate-key-path: {key}\nmasters:\n{}workers:\n{workers}{more}",
            entry(&hosts[0])
        );
        if !["install:", "package-src:"].iter().any(|key| more.contains(key)) {
            text.push_str("install: {package-source: {type: bundle}}\n");
        }
        fs::write(self.path("deploy.yaml"), text).expect("a deploy.yaml");
    }

    /// `eggo-install WORDS -f deploy.yaml`
    pub fn install(&self, words: &[&str]) -> Command {
        let mut command = self.program("eggo-install");
        command.args(words).arg("-f").arg(self.path("deploy.yaml"));
        command.env("EGGO_STATE_DIR", self.path("state"));
        command
    }

    /// A deploy.yaml that names no key, and hosts whose keys nobody knows: all of that is asked for.
    pub fn forget(&self) {
        fs::remove_file(self.path("home/.ssh/known_hosts")).expect("known hosts");
        let text = fs::read_to_string(self.path("deploy.yaml")).expect("a deploy.yaml");
        let lines = text.lines().filter(|line| !line.starts_with("private-key-path"));
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        fs::write(self.path("deploy.yaml"), text).expect("a deploy.yaml");
    }

    /// The same command with a terminal, and somebody in front of it.
    pub fn on_terminal(&self, command: &Command) -> Terminal {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let quoted: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
        let mut script = Command::new("script");
        script.env("HOME", self.path("home")).env("EGGO_STATE_DIR", self.path("state"));
        script.env_remove("SSH_AUTH_SOCK");
        Terminal::run(&quoted.join(" "), &mut script)
    }

    /// Phases of an install of `bundle`, without asking. What the small hosts of the lab lack is ignored.
    pub fn phases(&self, bundle: &Path, key: &Path, phases: &str) -> Command {
        let mut command = self.install(&[&bundle.display().to_string(), "--yes", "--only", phases]);
        command.arg("--pubkey").arg(key).args(["--ignore", "memory,swap,modules,ports"]);
        command
    }

    /// Builds `manifest` with the bundler, signed with a key of its own: `NAME.tar.gz` and `key.pub`.
    pub fn build(&self, name: &str, manifest: &str, archs: &str) -> PathBuf {
        let (source, out, key) =
            (self.path(&format!("{name}.yaml")), self.path(&format!("{name}.tar.gz")), self.path("key"));
        fs::write(&source, manifest).expect("a manifest");
        if !key.exists() {
            let mut keygen = self.program("eggo-bundle");
            keygen.args(["keygen", "--no-password", "-o"]).arg(&key);
            succeed(keygen);
        }
        let mut build = self.program("eggo-bundle");
        build.arg("build").arg("-m").arg(&source).args(["--arch", archs]).arg("--key").arg(&key);
        build.arg("-o").arg(&out).arg("--cache-dir").arg(project().join("target/bundle-cache"));
        succeed(build);
        out
    }

    /// Puts the Debian packages of a bundle, which apt orders itself, onto a host.
    pub fn install_debs(&self, bundle: &Path, host: &Host) {
        let folder = self.path("debs");
        let mut extract = self.program("eggo-bundle");
        extract.arg("extract").arg(bundle).arg("-C").arg(&folder);
        succeed(extract);
        let archive =
            Command::new("tar").arg("-C").arg(folder.join(host.arch())).args(["-c", "pkg"]).output();
        host.write("/root/debs.tar", &archive.expect("tar can be run").stdout);
        host.exec(
            "cd /root && tar xf debs.tar && \
             DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends ./pkg/*.deb </dev/null >apt.log 2>&1 || \
             { tail -20 apt.log; exit 1; }; rm -rf debs.tar pkg",
        );
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(program(name));
        command.env("HOME", self.path("home")).env_remove("SSH_AUTH_SOCK").stdin(Stdio::null());
        command
    }
}
