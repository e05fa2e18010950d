//! One host: commands, files, faults.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::facts::Facts;
use super::{run, succeed};

/// What kind of machine a test wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Debian on this machine's own processor: boots in a second.
    DebAmd64,
    /// Debian for arm64 under qemu-user: boots in about ten seconds; use docker, not containerd.
    DebArm64,
    /// A host whose every file belongs to an RPM.
    RpmAmd64,
    /// A virtual arm64 machine with its own kernel: faithful and slow.
    VmArm64,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DebAmd64 => "deb-amd64",
            Self::DebArm64 => "deb-arm64",
            Self::RpmAmd64 => "rpm-amd64",
            Self::VmArm64 => "vm-arm64",
        }
    }
}

/// As whom to log in. Both have the password `lab`, and `ops` may use sudo without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    Root,
    Ops,
}

/// A slow wire, each way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slow {
    pub delay: Duration,
    pub loss_percent: f64,
    /// 0 for no limit.
    pub bytes_per_second: u64,
}

/// A host of the lab. Faults stay until [`Host::heal`], or until the next test takes the host.
pub struct Host {
    lab: String,
    name: String,
    arch: String,
    address: String,
    ssh_config: PathBuf,
}

impl Host {
    pub(super) fn new(lab: &str, facts: &Facts, name: &str) -> Self {
        let found = facts
            .hosts
            .iter()
            .find(|host| host.name == name)
            .unwrap_or_else(|| panic!("the lab has no host `{name}`"));
        Self {
            lab: lab.to_owned(),
            name: found.name.clone(),
            arch: found.arch.clone(),
            address: found.address.clone(),
            ssh_config: facts.ssh_config.clone(),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// `amd64` or `arm64`.
    pub fn arch(&self) -> &str {
        &self.arch
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    // -- commands and files -------------------------------------------------------------------------------------------

    /// Runs a shell script as root and returns what it printed.
    ///
    /// # Panics
    /// When it fails: the message holds the script and all that it said.
    pub fn exec(&self, script: &str) -> String {
        let output = self.try_exec(Login::Root, script);
        assert!(
            output.status.success(),
            "on host `{}`: `{script}` failed ({}):\n{}{}",
            self.name,
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a shell script; how it ended is for the test to judge.
    pub fn try_exec(&self, login: Login, script: &str) -> Output {
        self.ssh(login, script).stdin(Stdio::null()).output().expect("ssh can be run")
    }

    /// Writes a file, and the folders that lead to it.
    pub fn write(&self, path: &str, content: &[u8]) {
        let script = format!("mkdir -p \"$(dirname '{path}')\" && cat > '{path}'");
        let mut child = self
            .ssh(Login::Root, &script)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("ssh can be run");
        let mut stdin = child.stdin.take().expect("its input was asked for");
        stdin.write_all(content).expect("the host takes the file");
        drop(stdin);
        let status = child.wait().expect("ssh ends");
        assert!(status.success(), "on host `{}`: cannot write {path}", self.name);
    }

    /// An ssh command with the lab's keys, for tests that want its streams.
    pub fn ssh(&self, login: Login, script: &str) -> Command {
        let user = match login {
            Login::Root => "root",
            Login::Ops => "ops",
        };
        let mut command = Command::new("ssh");
        command.arg("-F").arg(&self.ssh_config).args([
            "-o",
            "BatchMode=yes",
            "-l",
            user,
            &self.name,
            "--",
            script,
        ]);
        command
    }

    // -- power --------------------------------------------------------------------------------------------------------

    /// A power cut.
    pub fn crash(&self) {
        self.lab(["crash", &self.name]);
    }

    /// Boots the host and waits for ssh.
    pub fn boot(&self) {
        self.lab(["boot", &self.name]);
    }

    /// A fresh disk, no faults, booted.
    pub fn reset(&self) {
        self.lab(["reset", &self.name]);
    }

    // -- faults -------------------------------------------------------------------------------------------------------

    /// Pulls the network plug: nobody is told, connections hang.
    pub fn cut(&self) {
        self.lab(["cut", &self.name]);
    }

    pub fn slow(&self, wire: Slow) {
        self.lab([
            "slow",
            &self.name,
            &format!("--delay={}", wire.delay.as_secs_f64() * 1000.0),
            &format!("--loss={}", wire.loss_percent),
            &format!("--rate={}", wire.bytes_per_second),
        ]);
    }

    /// Uses up the disk but for that many MiB.
    pub fn fill(&self, leave_mib: u64) {
        self.lab(["fill", &self.name, &format!("--leave={leave_mib}M")]);
    }

    /// A disk error: the kernel makes the whole disk read-only.
    pub fn break_disk(&self) {
        self.lab(["readonly", &self.name]);
    }

    /// Makes one folder read-only.
    pub fn readonly(&self, path: &str) {
        self.lab(["readonly", &self.name, "--path", path]);
    }

    /// Sets the clock wrong by so many seconds; what `date` says of it, where the kernel is shared.
    pub fn skew(&self, seconds: i64) {
        self.lab(["skew", &self.name, &format!("--by={seconds}")]);
    }

    /// Undoes every fault.
    pub fn heal(&self) {
        self.lab(["heal", &self.name]);
    }

    /// Console and journal, also of a host that is off.
    pub fn logs(&self) -> Vec<u8> {
        run(&self.lab, ["logs", &self.name]).stdout
    }

    fn lab<const N: usize>(&self, words: [&str; N]) {
        succeed(&self.lab, words);
    }
}
