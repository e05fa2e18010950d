//! How to get onto the nodes: from deploy.yaml's login to keys, agent and passwords.

use crate::config::{self, Secret};
use crate::events::Sink;
use crate::home::Surroundings;
use crate::ssh::{HostKeys, KeyError, Login, SshHost, Target};
use eggo_errors::Report;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

/// What only a person or a file can say.
pub trait Prompts: Send + Sync {
    /// The passphrase of an encrypted private key.
    fn passphrase(&self, key: &Path) -> Option<Secret>;

    /// Tells what is odd, but stops nothing.
    fn warn(&self, _text: &str) {}
}

/// Where OpenSSH looks in the home folder when nobody names a key.
const OWN_KEYS: [&str; 3] = [".ssh/id_ed25519", ".ssh/id_ecdsa", ".ssh/id_rsa"];

/// The way onto every node.
#[derive(Clone)]
pub struct Access {
    pub login: Login,
    pub keys: Arc<HostKeys>,
}

impl Access {
    /// deploy.yaml's user with its key and password; an agent too, if one is known. With neither key nor password,
    /// the keys that the user of this machine has.
    pub fn new(
        login: &config::Login,
        sudo_password: Option<Secret>,
        keys: HostKeys,
        surroundings: &Surroundings,
        prompts: &dyn Prompts,
    ) -> Result<Self, Report> {
        let mut ready = Login::new(&login.user);
        if let Some(socket) = &surroundings.agent {
            ready = ready.agent(socket.clone());
        }
        ready = match &login.private_key {
            // As with eggo: there may be another way in.
            Some(path) if (ready.agent.is_some() || login.password.is_some()) && is_absent(path) => {
                let text =
                    format!("`private-key-path` is `{}`, which is not on this machine", path.display());
                prompts.warn(&text);
                ready
            }
            Some(path) => ready.load_key(path, |path| prompts.passphrase(path))?,
            None if login.password.is_none() => with_own_keys(ready, surroundings.home.as_deref(), prompts)?,
            None => ready,
        };
        if let Some(password) = &login.password {
            ready = ready.password(password.clone());
        }
        // Most users' sudo asks for the password that they logged in with.
        if let Some(password) = sudo_password.or_else(|| login.password.clone()) {
            ready = ready.sudo_password(password);
        }
        Ok(Self { login: ready, keys: Arc::new(keys) })
    }

    pub fn host(&self, host: &config::Host, events: &Arc<dyn Sink>) -> Arc<SshHost> {
        let target = Target { name: host.name.clone(), address: host.ip.to_string(), port: host.port };
        Arc::new(SshHost::new(target, self.login.clone(), self.keys.clone(), events.clone()))
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
