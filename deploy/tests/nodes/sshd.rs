//! A real sshd on a free port of loopback, with its own host key and its own view of the installer's
//! folder on the node: as many as a test likes, side by side. Needs root, because a node's root does
//! what the installer asks.

use eggo_deploy::events::Sink;
use eggo_deploy::ssh::{HostKeys, Login, SshHost, Target};
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Root's, on each of these hosts.
pub const PASSWORD: &str = "correct horse battery";

pub struct Sshd {
    pub name: String,
    pub port: u16,
    folder: tempfile::TempDir,
    child: Child,
}

impl Sshd {
    /// Starts one, or says why not.
    pub fn start(name: &str) -> Option<Self> {
        if !rustix_is_root() {
            println!("skipped: needs root");
            return None;
        }
        if !Path::new("/usr/sbin/sshd").exists() {
            println!("skipped: no /usr/sbin/sshd");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        keygen(&at("host_key"), "");
        keygen(&at("user_key"), "");
        fs::copy(at("user_key.pub"), at("authorized_keys")).unwrap();
        fs::create_dir(at("eggo")).unwrap();
        fs::write(at("shadow"), shadow(PASSWORD)).unwrap();
        fs::create_dir_all("/run/sshd").unwrap();
        fs::create_dir_all("/var/lib/eggo").unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {host}\nAuthorizedKeysFile {keys}\nPidFile none\nUsePAM no\n\
             PermitRootLogin yes\nStrictModes no\nMaxStartups 500\nLogLevel ERROR\n",
            host = at("host_key").display(),
            keys = at("authorized_keys").display(),
        );
        fs::write(at("config"), config).unwrap();
        // In a mount namespace of its own, /var/lib/eggo and root's password are this host's alone.
        let script = format!(
            "mount --make-rprivate / && mount --bind {eggo} /var/lib/eggo && mount --bind {shadow} /etc/shadow && \
             exec /usr/sbin/sshd -D -e -f {config}",
            eggo = at("eggo").display(),
            shadow = at("shadow").display(),
            config = at("config").display(),
        );
        let child = Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .stdin(Stdio::null())
            .stderr(fs::File::create(at("log")).unwrap())
            .spawn()
            .unwrap();
        let sshd = Self { name: name.into(), port, folder, child };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begin.elapsed() > Duration::from_secs(30) {
                println!("skipped: sshd does not start: {}", fs::read_to_string(sshd.at("log")).unwrap());
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(sshd)
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where `/var/lib/eggo/PATH` of this host is on this machine.
    pub fn own(&self, path: &str) -> PathBuf {
        self.at("eggo").join(path)
    }

    pub fn target(&self) -> Target {
        Target::new(&self.name, "127.0.0.1", self.port)
    }

    pub fn login(&self) -> Login {
        Login::new("root").load_key(&self.at("user_key"), |_| None).unwrap()
    }

    /// Host keys that trust this host.
    pub fn keys(&self) -> HostKeys {
        HostKeys::load(&self.at("known_hosts"), &[]).unwrap().accept_new()
    }

    pub fn host(&self, events: Arc<dyn Sink>) -> Arc<SshHost> {
        Arc::new(SshHost::new(self.target(), self.login(), Arc::new(self.keys()), events))
    }

    /// The host is reinstalled: another key under the same address.
    pub fn change_host_key(&mut self) {
        self.stop();
        fs::remove_file(self.at("host_key")).unwrap();
        keygen(&self.at("host_key"), "");
        let mut command = Command::new("/usr/sbin/sshd");
        self.child = command.arg("-D").arg("-f").arg(self.at("config")).spawn().unwrap();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The machine's users, root with this password.
fn shadow(password: &str) -> String {
    let mut openssl = Command::new("openssl")
        .args(["passwd", "-6", "-stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    openssl.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
    let hash = String::from_utf8(openssl.wait_with_output().unwrap().stdout).unwrap();
    let users = fs::read_to_string("/etc/shadow").unwrap();
    let others = users.lines().filter(|line| !line.starts_with("root:")).map(|line| format!("{line}\n"));
    format!("root:{}:19000:0:99999:7:::\n", hash.trim()) + &others.collect::<String>()
}

pub fn keygen(path: &Path, passphrase: &str) {
    let status = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", passphrase, "-f"])
        .arg(path)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}

fn rustix_is_root() -> bool {
    rustix::process::geteuid().is_root()
}
