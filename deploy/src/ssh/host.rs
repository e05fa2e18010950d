//! A node over SSH: its connection, made when first needed and re-made when lost, and root on it.

use super::connection::{Connection, Ended, Exec, Way};
use super::ending::{self, Commands, Ender};
use super::{HostKeys, Jump, Login, Patience};
use crate::config::HostKey;
use crate::events::{Event, Sink};
use crate::remote::{Command, Host, Keeps, Output, RemoteError, Script, Stdin, Who, quote, words};
use bytes::Bytes;
use eggo_errors::Size;
use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore};

/// sshd allows 10 sessions per connection unless told otherwise.
const SESSIONS: usize = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Linux takes at most 128 KiB in one argument; longer scripts go through a file.
const LONGEST_SCRIPT: usize = 100_000;
const BEGIN: &str = include_str!("begin.sh");
const ROOT: &str = include_str!("root.sh");
const STAGE: &str = include_str!("stage.sh");
const STAGED: &str = include_str!("staged.sh");
const AFTER_PASSWORD: &str = include_str!("after_password.sh");
/// The line that [`AFTER_PASSWORD`] waits for.
const LINE: &str = "--- begin ---";
/// More than a word or a path in an answer.
const MOST_WORDS: usize = 64 << 10;

/// Where a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name in deploy.yaml.
    pub name: String,
    pub address: String,
    pub port: u16,
    /// The only key that it may show; otherwise known_hosts decides.
    pub host_key: Option<HostKey>,
}

impl Target {
    pub fn new(name: impl Into<String>, address: impl Into<String>, port: u16) -> Self {
        Self { name: name.into(), address: address.into(), port, host_key: None }
    }

    pub fn pinned(mut self, key: Option<HostKey>) -> Self {
        self.host_key = key;
        self
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address.contains(':'), self.port) {
            (false, 22) => write!(f, "{}", self.address),
            (false, port) => write!(f, "{}:{port}", self.address),
            (true, port) => write!(f, "[{}]:{port}", self.address),
        }
    }
}

pub struct SshHost {
    target: Arc<Target>,
    login: Login,
    keys: Arc<HostKeys>,
    jump: Option<Arc<Jump>>,
    events: Arc<dyn Sink>,
    link: Mutex<Slot>,
    sessions: Semaphore,
    commands: Arc<Commands>,
    patience: Patience,
}

enum Slot {
    None,
    Up(Link),
    /// Commands that waited for this attempt share its outcome: they do not wait for a silent node one after the other.
    Failed(Instant, RemoteError),
}

/// A live connection, and how to be root on it.
#[derive(Clone)]
struct Link {
    connection: Arc<Connection>,
    root: Root,
    ender: Arc<Ender>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    IsLogin,
    Sudo,
    SudoWithPassword,
}

impl SshHost {
    pub fn new(target: Target, login: Login, keys: Arc<HostKeys>, events: Arc<dyn Sink>) -> Self {
        Self {
            target: Arc::new(target),
            login,
            keys,
            jump: None,
            events,
            link: Mutex::new(Slot::None),
            sessions: Semaphore::new(SESSIONS),
            commands: Arc::new(Commands::new()),
            patience: Patience::default(),
        }
    }

    /// With other limits than usual.
    pub fn patient(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// With another number of commands that run at the same time.
    pub fn sessions(mut self, most: usize) -> Self {
        self.sessions = Semaphore::new(most);
        self
    }

    /// Reaches the node through another host.
    pub fn through(mut self, jump: Option<Arc<Jump>>) -> Self {
        self.jump = jump;
        self
    }

    pub async fn close(&self) {
        if let Slot::Up(link) = std::mem::replace(&mut *self.link.lock().await, Slot::None) {
            link.connection.close().await;
        }
    }

    async fn link(&self) -> Result<Link, RemoteError> {
        let asked = Instant::now();
        let mut slot = self.link.lock().await;
        match &*slot {
            Slot::Up(link) if !link.connection.is_closed() => return Ok(link.clone()),
            Slot::Failed(when, error) if *when >= asked => return Err(error.clone()),
            _ => {}
        }
        let made = self.new_link().await;
        *slot = match &made {
            Ok(link) => Slot::Up(link.clone()),
            Err(error) => Slot::Failed(Instant::now(), error.clone()),
        };
        made
    }

    async fn new_link(&self) -> Result<Link, RemoteError> {
        let limit = self.patience.handshake;
        let way = match &self.jump {
            Some(jump) => Way::Through(jump.stream_to(&self.target, limit).await?),
            None => Way::Direct,
        };
        let connection = Connection::open(&self.target, &self.keys, &self.login, way, limit).await?;
        let connection = Arc::new(connection);
        let root = self.root(&connection).await?;
        let (command, head) = self.wrapped(ending::SCRIPT, root, None);
        let ender = Arc::new(Ender { connection: connection.clone(), command, head });
        Ok(Link { connection, root, ender })
    }

    /// The next command gets another connection.
    async fn forget(&self, link: &Link) {
        let mut slot = self.link.lock().await;
        if matches!(&*slot, Slot::Up(now) if Arc::ptr_eq(&now.connection, &link.connection)) {
            *slot = Slot::None;
        }
    }

    async fn root(&self, connection: &Connection) -> Result<Root, RemoteError> {
        if self.login.user == "root" {
            return Ok(Root::IsLogin);
        }
        let refused = |reason: &str| RemoteError::Sudo {
            host: self.target.name.clone(),
            user: self.login.user.clone(),
            reason: reason.to_string(),
        };
        match self.ask(connection, words(["sh", "-c", ROOT]), Bytes::new()).await?.text().as_str() {
            "root" => return Ok(Root::IsLogin),
            "free" => return Ok(Root::Sudo),
            "password" => {}
            _ => return Err(refused("there is no `sudo` on the node")),
        }
        let Some(password) = &self.login.sudo_password else {
            return Err(refused("`sudo` asks for a password, and none is given"));
        };
        // Nothing but the password: of whatever else came, sudo would make a second try.
        let head = format!("{}\n", password.reveal());
        let output =
            self.ask(connection, "exec env LC_ALL=C sudo -k -S -p '' -- true".into(), head.into()).await?;
        if output.success() {
            return Ok(Root::SudoWithPassword);
        }
        Err(refused(&sudo_says(&String::from_utf8_lossy(&output.stderr))))
    }

    async fn ask(
        &self,
        connection: &Connection,
        command: String,
        head: Bytes,
    ) -> Result<Output, RemoteError> {
        let title = "become root";
        let asking = connection.exec(Exec { head, ..Exec::new(command, MOST_WORDS) });
        let limit = self.patience.root;
        match tokio::time::timeout(limit, asking).await {
            Ok(ended) => self.judge(title, ended),
            Err(_) => Err(self.timeout(title, limit)),
        }
    }

    fn lost(&self, title: &str, reason: String) -> RemoteError {
        RemoteError::Lost { host: self.target.name.clone(), title: title.into(), reason }
    }

    fn timeout(&self, title: &str, timeout: Duration) -> RemoteError {
        RemoteError::Timeout { host: self.target.name.clone(), title: title.into(), timeout }
    }

    fn judge(&self, title: &str, ended: Ended) -> Result<Output, RemoteError> {
        let host = &self.target.name;
        match ended {
            Ended::Done(output) => Ok(output),
            Ended::Lost(reason) => Err(self.lost(title, reason)),
            Ended::TooMuch(most) => {
                let reason = format!("it prints more than {}", Size(most as u64));
                Err(RemoteError::answer(host, title, reason))
            }
            Ended::Stalled(limit) => {
                Err(RemoteError::Stalled { host: host.clone(), title: title.into(), limit })
            }
        }
    }

    /// The command line for a script, and what must come first on its standard input. `mark` is for the environment.
    fn wrapped(&self, script: &str, root: Root, mark: Option<&str>) -> (String, Bytes) {
        let env = mark.map(|mark| format!("env {mark} ")).unwrap_or_default();
        let script = [BEGIN, script].concat();
        match (root, &self.login.sudo_password) {
            (Root::IsLogin, _) => (format!("exec {env}sh -c {}", quote(&script)), Bytes::new()),
            (Root::SudoWithPassword, Some(password)) => {
                let script = [AFTER_PASSWORD, &script].concat();
                let head = format!("{}\n{LINE}\n", password.reveal());
                (format!("exec sudo -k -S -p '' -- {env}sh -c {}", quote(&script)), head.into())
            }
            (Root::Sudo | Root::SudoWithPassword, _) => {
                (format!("exec sudo -n -- {env}sh -c {}", quote(&script)), Bytes::new())
            }
        }
    }

    /// One try.
    async fn attempt(&self, title: &str, request: Request, timeout: Duration) -> Result<Output, RemoteError> {
        if self.commands.is_ended() {
            return Err(self.lost(title, "it was stopped".into()));
        }
        let link = self.link().await?;
        let root = if request.who == Who::Login { Root::IsLogin } else { link.root };
        // Whoever drops this, for it took too long or nobody waits any more, ends it on the node.
        let underway = self.commands.begin(&link.ender);
        let mark = underway.mark();
        let running = async {
            let (command, head) = if request.script.len() > LONGEST_SCRIPT {
                let path = self.stage(&link, title, &request.script).await?;
                let script = Script::new([STAGED]).set("FILE", path);
                self.wrapped(&script.to_string(), root, Some(&mark))
            } else {
                self.wrapped(&request.script, root, Some(&mark))
            };
            // A stream goes on as long as it moves; what is sent at once has the limit of its command.
            let idle = matches!(request.stdin, Stdin::Stream(_)).then_some(self.patience.idle);
            let Request { stdin, stdout, keeps, .. } = request;
            let ended = link.connection.exec(Exec { command, head, stdin, stdout, keeps, idle }).await;
            self.judge(title, ended)
        };
        let limit = timeout.min(self.patience.command);
        let error = match tokio::time::timeout(limit, running).await {
            // One that prints too much, or has stalled, goes on.
            Ok(Err(error @ (RemoteError::Answer { .. } | RemoteError::Stalled { .. }))) => error,
            Ok(result) => {
                underway.done();
                return result;
            }
            Err(_) => self.timeout(title, limit),
        };
        // It is being ended, but may hold on to its channel, or go on printing.
        self.forget(&link).await;
        underway.give_up();
        Err(error)
    }

    /// A script that is too long for a command line, as a file of the login user's.
    async fn stage(&self, link: &Link, title: &str, script: &str) -> Result<String, RemoteError> {
        let command = words(["exec", "sh", "-c", STAGE]);
        let stdin = Stdin::Bytes(script.to_string().into());
        let ended = link.connection.exec(Exec { stdin, ..Exec::new(command, MOST_WORDS) }).await;
        let output = self.judge(title, ended)?;
        if !output.success() {
            return Err(RemoteError::failed(&self.target.name, title, &output, false));
        }
        match output.text() {
            path if is_path(&path) => Ok(path),
            path => {
                let reason = format!("its `mktemp` prints {path:?}, which is no path");
                Err(RemoteError::answer(&self.target.name, title, reason))
            }
        }
    }
}

/// The node chooses it, and it is about to be removed there.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains(char::is_control)
}

/// Why `sudo` did not do it. Once the password was wrong there is no other to give, which it also tells.
fn sudo_says(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let wrong =
        lines().any(|line| line.contains("no password was provided") || line.contains("incorrect password"));
    match lines().next_back() {
        _ if wrong => "`sudo` refused the password".to_string(),
        Some(last) => last.to_string(),
        None => "`sudo` refused".to_string(),
    }
}

/// What of a command is used up by one try.
struct Request {
    script: String,
    who: Who,
    stdin: Stdin,
    stdout: Option<tokio::sync::mpsc::Sender<Bytes>>,
    keeps: Keeps,
}

impl Host for SshHost {
    fn name(&self) -> &str {
        &self.target.name
    }

    fn connect(&self) -> BoxFuture<'_, Result<(), RemoteError>> {
        Box::pin(async move { self.link().await.map(|_| ()) })
    }

    fn end_commands(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.commands.end())
    }

    fn run(&self, command: Command) -> BoxFuture<'_, Result<Output, RemoteError>> {
        Box::pin(async move {
            let (script, kind) = (command.script().to_string(), command.kind());
            let Command { title, stdin, timeout, who, secret, checked, once, stdout, keeps, .. } = command;
            let begin = Instant::now();
            let _session = self.sessions.acquire().await.expect("never closed");
            let replay = match &stdin {
                Stdin::Empty => Some(Bytes::new()),
                Stdin::Bytes(bytes) => Some(bytes.clone()),
                Stdin::Stream(_) => None,
            }
            .filter(|_| !once && stdout.is_none());
            let mut request = Request { script, who, stdin, stdout, keeps };
            let (mut deadline, mut pause) = (None, FIRST_PAUSE);
            let output = loop {
                let again = replay.as_ref().map(|bytes| Request {
                    script: request.script.clone(),
                    who,
                    stdin: Stdin::Bytes(bytes.clone()),
                    stdout: None,
                    keeps,
                });
                let error = match self.attempt(&title, request, timeout).await {
                    Ok(output) => break output,
                    Err(error) => error,
                };
                // After a loss, the way back may be closed for a while.
                let worth = error.is_lost() || (deadline.is_some() && error.is_unreachable());
                let until = *deadline.get_or_insert_with(|| Instant::now() + self.patience.reconnect);
                let again = again.filter(|_| worth && !self.commands.is_ended());
                let Some(next) = again.filter(|_| Instant::now() + pause < until) else {
                    return Err(error);
                };
                request = next;
                self.events
                    .event(Event::Reconnecting { node: self.target.name.clone(), reason: error.to_string() });
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            };
            let seconds = begin.elapsed().as_secs_f64();
            tracing::debug!(host = %self.target.name, seconds, ?kind, %title, "ran");
            if checked && !output.success() {
                return Err(RemoteError::failed(&self.target.name, &title, &output, secret));
            }
            Ok(output)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{STAGE, STAGED, is_path, sudo_says};
    use crate::remote::Script;
    use std::process::{Command, Output};

    fn sh(script: &str) -> Output {
        Command::new("sh").args(["-euc", script]).output().unwrap()
    }

    #[test]
    fn a_staged_script_runs_once_and_its_file_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it's $(touch x); 'a' file");
        std::fs::write(&path, "trap 'echo bye' EXIT\necho \"$0\" hello\nfalse\necho not here\n").unwrap();
        let path = path.display().to_string();
        assert!(is_path(&path));
        let output = sh(&Script::new([STAGED]).set("FILE", path).to_string());
        assert_eq!(output.status.code(), Some(1), "set -e holds inside of it, too");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "sh hello\nbye\n");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "its own trap does not keep the file");
        for odd in ["", "script", "-rf", "/tmp/a\n/etc/passwd"] {
            assert!(!is_path(odd), "{odd:?}");
        }
        let path = String::from_utf8(sh(&format!("echo hello | {{ {STAGE} }}")).stdout).unwrap();
        assert_eq!(std::fs::read_to_string(path.trim_end()).unwrap(), "hello\n");
        std::fs::remove_file(path.trim_end()).unwrap();
    }

    #[test]
    fn sudo_is_quoted_unless_it_speaks_of_passwords() {
        let wrong =
            "Sorry, try again.\n\nsudo: no password was provided\nsudo: 1 incorrect password attempt\n";
        assert_eq!(sudo_says(wrong), "`sudo` refused the password");
        assert_eq!(sudo_says("ops is not in the sudoers file.\n\n"), "ops is not in the sudoers file.");
        assert_eq!(sudo_says(""), "`sudo` refused");
    }
}
