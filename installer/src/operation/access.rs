//! How to get onto the nodes: from deploy.yaml's login to keys, agent and passwords.

use crate::config::{self, Secret};
use crate::events::Sink;
use crate::home;
use crate::ssh::{HostKeys, Login, SshHost, Target};
use eggo_terminal::Report;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

/// What only a person or a file can say.
pub trait Prompts: Send + Sync {
    /// The passphrase of an encrypted private key.
    fn passphrase(&self, key: &Path) -> Option<Secret>;
}

/// The way onto every node.
#[derive(Clone)]
pub struct Access {
    pub login: Login,
    pub keys: Arc<HostKeys>,
}

impl Access {
    /// deploy.yaml's user with its key and password; an agent too, if one runs.
    pub fn new(
        login: &config::Login,
        sudo_password: Option<Secret>,
        keys: HostKeys,
        prompts: &dyn Prompts,
    ) -> Result<Self, Report> {
        let mut ready = Login::new(&login.user);
        if let Some(path) = &login.private_key {
            ready = ready.load_key(&home::expand(path), |path| prompts.passphrase(path))?;
        }
        if std::env::var_os("SSH_AUTH_SOCK").is_some_and(|socket| !socket.is_empty()) {
            ready = ready.agent();
        }
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

/// Why the file of a private key that deploy.yaml names cannot be read on this machine, if it cannot.
pub fn unreadable_key(path: &Path) -> Option<io::Error> {
    // A folder can be opened, but not read.
    fs::File::open(home::expand(path)).and_then(|mut file| file.read(&mut [0])).err()
}
