//! How to get onto the nodes: from deploy.yaml's login to keys, agent and passwords.

use crate::config::{self, Config, Secret};
use crate::events::Sink;
use crate::home::Surroundings;
use crate::limits::Limits;
use crate::remote::{Host, RemoteError};
use crate::ssh::{HostKeys, Jump, KeyError, Login, SshHost, Target};
use eggo_errors::Report;
use russh::keys::PrivateKey;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

/// What only a person or a file can say.
pub trait Prompts: Send + Sync {
    /// The passphrase of an encrypted private key.
    fn passphrase(&self, key: &Path) -> Option<Secret>;

    /// Tells what is odd, but stops nothing.
    fn warn(&self, _text: &str) {}
}

/// Where OpenSSH looks in the home folder when nobody names a key.
const OWN_KEYS: [&str; 3] = [".ssh/id_ed25519", ".ssh/id_ecdsa", ".ssh/id_rsa"];

/// What is asked for or read from files rather than written in deploy.yaml.
#[derive(Debug, Clone, Default)]
pub struct Passwords {
    /// For logging in; overrides deploy.yaml's.
    pub login: Option<Secret>,
    /// For `sudo`; otherwise the login's.
    pub sudo: Option<Secret>,
}

/// The way onto every node.
#[derive(Clone)]
pub struct Access {
    way: Arc<Way>,
    limits: Limits,
    /// The hosts that were asked for, so that what runs on them can be ended.
    made: Arc<Mutex<Vec<Weak<dyn Host>>>>,
}

enum Way {
    Ssh(Ssh),
    Given(BTreeMap<String, Arc<dyn Host>>),
}

struct Ssh {
    /// For nodes that say nothing else.
    login: Login,
    keys: Arc<HostKeys>,
    /// Keys of single nodes, by the path that deploy.yaml names.
    own: BTreeMap<PathBuf, Arc<PrivateKey>>,
    /// One connection to each serves all nodes behind it.
    jumps: Vec<(config::Jump, Arc<Jump>)>,
}

impl Access {
    /// deploy.yaml's user with its key and password; an agent too, if one is known. With neither key nor password,
    /// the keys that the user of this machine has. Nodes and jump hosts may have a user and a key of their own.
    pub fn new(
        config: &Config,
        passwords: Passwords,
        keys: HostKeys,
        surroundings: &Surroundings,
        prompts: &dyn Prompts,
    ) -> Result<Self, Report> {
        let login = &config.login;
        let password = passwords.login.or_else(|| login.password.clone());
        let mut ready = Login::new(&login.user);
        if let Some(socket) = &surroundings.agent {
            ready = ready.agent(socket.clone());
        }
        // As with eggo: there may be another way in.
        let may_lack = ready.agent.is_some() || password.is_some();
        let read = |path: &Path| match may_lack && is_absent(path) {
            true => {
                let text =
                    format!("`private-key-path` is `{}`, which is not on this machine", path.display());
                prompts.warn(&text);
                Ok(None)
            }
            false => Login::read_key(path, |path| prompts.passphrase(path)).map(Some),
        };
        match &login.private_key {
            Some(path) => ready.key = read(path)?,
            None if password.is_none() => {
                ready = with_own_keys(ready, surroundings.home.as_deref(), prompts)?;
            }
            None => {}
        }
        let hosts = config.hosts.iter();
        let named = hosts.flat_map(|host| {
            [host.private_key.as_ref(), host.jump.as_ref().and_then(|jump| jump.private_key.as_ref())]
        });
        let mut own = BTreeMap::new();
        for path in named.flatten().collect::<BTreeSet<_>>() {
            if let Some(key) = read(path)? {
                own.insert(path.clone(), key);
            }
        }
        let mut access = Ssh { own, ..Ssh::new(ready, Arc::new(keys)) };
        for jump in config.hosts.iter().filter_map(|host| host.jump.as_ref()) {
            if access.jumps.iter().any(|(known, _)| known == jump) {
                continue;
            }
            let mut login = access.login_for(jump.user.as_ref(), jump.private_key.as_deref());
            if login.key.is_none() && login.own_keys.is_empty() {
                login = with_own_keys(login, surroundings.home.as_deref(), prompts)?;
            }
            let target = Target::new(format!("jump host {jump}"), &jump.address, jump.port);
            let target = target.pinned(jump.host_key.clone());
            let ready = Jump::new(target, login, access.keys.clone());
            access.jumps.push((jump.clone(), Arc::new(ready)));
        }
        // Most users' sudo asks for the password that they logged in with. No jump host gets either.
        access.login.sudo_password = passwords.sudo.or_else(|| password.clone());
        access.login.password = password;
        Ok(Self::by(Way::Ssh(access)))
    }

    /// One login for all nodes, without any jump host.
    pub fn with(login: Login, keys: Arc<HostKeys>) -> Self {
        Self::by(Way::Ssh(Ssh::new(login, keys)))
    }

    /// Nodes that the caller reaches by other means than SSH, by name.
    pub fn given(hosts: BTreeMap<String, Arc<dyn Host>>) -> Self {
        Self::by(Way::Given(hosts))
    }

    fn by(way: Way) -> Self {
        Self { way: Arc::new(way), limits: Limits::default(), made: Arc::default() }
    }

    /// With other limits than usual, or with some that other operations keep, too.
    pub fn limited(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The same way, for one operation alone: what it starts is ended apart from what others do.
    pub(super) fn apart(&self) -> Self {
        Self { way: self.way.clone(), limits: self.limits.clone(), made: Arc::default() }
    }

    /// The way to a node of deploy.yaml.
    pub fn host(&self, host: &config::Host, events: &Arc<dyn Sink>) -> Result<Arc<dyn Host>, RemoteError> {
        let remote: Arc<dyn Host> = match &*self.way {
            Way::Ssh(ssh) => ssh.host(host, events, self.limits.sessions()),
            Way::Given(hosts) => hosts.get(&host.name).cloned().ok_or_else(|| {
                let (address, reason) = (host.ip.to_string(), "no way to it is known".to_string());
                RemoteError::Connect { host: host.name.clone(), address, reason }
            })?,
        };
        self.made.lock().expect("no panic while locked").push(Arc::downgrade(&remote));
        Ok(remote)
    }

    /// Ends whatever still runs on the nodes of the operation.
    pub(super) async fn end_commands(&self) {
        let made: Vec<_> =
            self.made.lock().expect("no panic while locked").iter().filter_map(Weak::upgrade).collect();
        futures::future::join_all(made.iter().map(|host| host.end_commands())).await;
    }
}

impl Ssh {
    fn new(login: Login, keys: Arc<HostKeys>) -> Self {
        Self { login, keys, own: BTreeMap::new(), jumps: Vec::new() }
    }

    fn login_for(&self, user: Option<&String>, key: Option<&Path>) -> Login {
        let mut login = self.login.clone();
        if let Some(user) = user {
            login.user.clone_from(user);
        }
        if let Some(key) = key {
            login.key = self.own.get(key).cloned();
            login.own_keys.clear();
        }
        login
    }

    fn host(&self, host: &config::Host, events: &Arc<dyn Sink>, sessions: usize) -> Arc<SshHost> {
        let target = Target::new(&host.name, host.ip.to_string(), host.port).pinned(host.host_key.clone());
        let login = self.login_for(host.user.as_ref(), host.private_key.as_deref());
        let jump = host.jump.as_ref().and_then(|jump| self.jumps.iter().find(|(known, _)| known == jump));
        let jump = jump.map(|(_, jump)| jump.clone());
        let remote = SshHost::new(target, login, self.keys.clone(), events.clone());
        Arc::new(remote.through(jump).sessions(sessions))
    }
}

fn is_absent(key: &Path) -> bool {
    unreadable_key(key).is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn with_own_keys(mut login: Login, home: Option<&Path>, prompts: &dyn Prompts) -> Result<Login, KeyError> {
    let Some(home) = home else { return Ok(login) };
    let mut locked = None;
    for path in OWN_KEYS {
        match login.clone().load_own_key(&home.join(path), |_| None) {
            Ok(with) => login = with,
            Err(KeyError::NoPassphrase(path)) => locked = locked.or(Some(path)),
            // Nobody has named it: what is not there, or is no key, is not missed.
            Err(_) => {}
        }
    }
    match locked {
        // Only where nothing else is left, someone is asked for it.
        Some(path) if login.agent.is_none() && login.own_keys.is_empty() => {
            login.load_own_key(&path, |path| prompts.passphrase(path))
        }
        _ => Ok(login),
    }
}

/// Why the file of a private key that deploy.yaml names cannot be read on this machine, if it cannot.
pub fn unreadable_key(path: &Path) -> Option<io::Error> {
    // A folder can be opened, but not read.
    fs::File::open(path).and_then(|mut file| file.read(&mut [0])).err()
}
