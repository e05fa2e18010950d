//! Who logs in, and with what.

use crate::config::Secret;
use eggo_errors::Explain;
use russh::client::{AuthResult, Handle, Handler, KeyboardInteractiveAuthResponse};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{self, PrivateKey, PrivateKeyWithHashAlg};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// sshd gives up after 6 tries; the password must still get its turn.
const AGENT_KEYS: usize = 4;
/// The last one would end the connection before its answer could be told.
const TRIES: usize = 5;

/// A user and every way it may prove itself, tried in this order: private key, agent, the user's own keys, password.
#[derive(Debug, Clone)]
pub struct Login {
    pub user: String,
    pub key: Option<Arc<PrivateKey>>,
    /// The socket of an agent, whose keys are tried.
    pub agent: Option<PathBuf>,
    /// Keys that nobody has named.
    pub own_keys: Vec<Arc<PrivateKey>>,
    pub password: Option<Secret>,
    /// For `sudo`, where it asks; goes through its standard input.
    pub sudo_password: Option<Secret>,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read the private key `{}`", .0.display())]
    Unreadable(PathBuf, #[source] std::io::Error),
    #[error("`{}` is not a private key", .0.display())]
    NotAKey(PathBuf, #[source] keys::Error),
    #[error("no passphrase was given for the private key `{}`", .0.display())]
    NoPassphrase(PathBuf),
    #[error("wrong passphrase for the private key `{}`", .0.display())]
    WrongPassphrase(PathBuf),
}

impl Explain for KeyError {
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new(match self {
            Self::Unreadable(..) => "ssh-key-unreadable",
            Self::NotAKey(..) => "ssh-key-invalid",
            Self::NoPassphrase(_) | Self::WrongPassphrase(_) => "ssh-key-passphrase",
        })
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable(..) => Some("check `private-key-path` in deploy.yaml".into()),
            Self::NotAKey(path, _) if path.extension().is_some_and(|end| end == "pub") => {
                Some("this looks like the public half; name the private one".into())
            }
            Self::NotAKey(..) => None,
            Self::NoPassphrase(_) | Self::WrongPassphrase(_) => {
                Some("name a file that holds it with --passphrase-file, put the key into an ssh agent, or run on a terminal to be asked".into())
            }
        }
    }
}

impl Login {
    pub fn new(user: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            key: None,
            agent: None,
            own_keys: Vec::new(),
            password: None,
            sudo_password: None,
        }
    }

    /// Reads a private key; `passphrase` is asked only if it is encrypted.
    pub fn read_key(
        path: &Path,
        passphrase: impl FnOnce(&Path) -> Option<Secret>,
    ) -> Result<Arc<PrivateKey>, KeyError> {
        let text = std::fs::read_to_string(path).map_err(|error| KeyError::Unreadable(path.into(), error))?;
        decode_key(path, &text, passphrase).map(Arc::new)
    }

    /// Loads a private key; `passphrase` is asked only if the key is encrypted.
    pub fn load_key(
        mut self,
        path: &Path,
        passphrase: impl FnOnce(&Path) -> Option<Secret>,
    ) -> Result<Self, KeyError> {
        self.key = Some(Self::read_key(path, passphrase)?);
        Ok(self)
    }

    /// As [`Login::load_key`], one of several that may be the right one.
    pub fn load_own_key(
        mut self,
        path: &Path,
        passphrase: impl FnOnce(&Path) -> Option<Secret>,
    ) -> Result<Self, KeyError> {
        self.own_keys.push(Self::read_key(path, passphrase)?);
        Ok(self)
    }

    /// A private key that is in no file. `name` stands for it in messages.
    pub fn key_from_memory(
        mut self,
        name: &str,
        key: &Secret,
        passphrase: Option<&Secret>,
    ) -> Result<Self, KeyError> {
        let key = decode_key(Path::new(name), key.reveal(), |_| passphrase.cloned())?;
        self.key = Some(Arc::new(key));
        Ok(self)
    }

    pub fn agent(mut self, socket: PathBuf) -> Self {
        self.agent = Some(socket);
        self
    }

    pub fn password(mut self, password: Secret) -> Self {
        self.password = Some(password);
        self
    }

    pub fn sudo_password(mut self, password: Secret) -> Self {
        self.sudo_password = Some(password);
        self
    }

    /// Proves who we are. `Err` lists what was tried.
    pub(super) async fn authenticate<H: Handler>(&self, session: &mut Handle<H>) -> Result<(), Refused> {
        let mut tried = Vec::new();
        if let Some(key) = &self.key {
            if self.with_key(session, key).await? {
                return Ok(());
            }
            tried.push("its private key was refused".to_string());
        }
        let mut offered = Vec::new();
        if let Some(socket) = &self.agent {
            match self.with_agent(socket, session, &mut offered).await? {
                AgentAnswer::LoggedIn => return Ok(()),
                AgentAnswer::No(reason) => tried.push(reason),
            }
        }
        let left = TRIES.saturating_sub(offered.len());
        let own = self.own_keys.iter().filter(|key| !offered.contains(key.public_key().key_data()));
        let own: Vec<_> = own.take(left).collect();
        for key in &own {
            if self.with_key(session, key).await? {
                return Ok(());
            }
        }
        match own.len() {
            0 => {}
            1 => tried.push("the key in ~/.ssh was refused".to_string()),
            n => tried.push(format!("{n} keys in ~/.ssh were refused")),
        }
        if let Some(password) = &self.password {
            if self.with_password(session, password).await? {
                return Ok(());
            }
            tried.push("its password was refused".to_string());
        }
        if tried.is_empty() {
            tried.push("neither key, agent nor password is given".to_string());
        }
        Err(Refused::Login(tried.join(", ")))
    }

    async fn with_key<H: Handler>(
        &self,
        session: &mut Handle<H>,
        key: &Arc<PrivateKey>,
    ) -> Result<bool, russh::Error> {
        let key = PrivateKeyWithHashAlg::new(key.clone(), rsa_hash(session).await?);
        Ok(session.authenticate_publickey(&self.user, key).await?.success())
    }

    async fn with_password<H: Handler>(
        &self,
        session: &mut Handle<H>,
        password: &Secret,
    ) -> Result<bool, russh::Error> {
        let remaining = match session.authenticate_password(&self.user, password.reveal()).await? {
            AuthResult::Success => return Ok(true),
            AuthResult::Failure { remaining_methods, .. } => remaining_methods,
        };
        // Many servers ask for the password only through PAM's questions.
        if !remaining.contains(&russh::MethodKind::KeyboardInteractive) {
            return Ok(false);
        }
        let mut answer = session.authenticate_keyboard_interactive_start(&self.user, None).await?;
        for _ in 0..3 {
            match answer {
                KeyboardInteractiveAuthResponse::Success => return Ok(true),
                KeyboardInteractiveAuthResponse::Failure { .. } => return Ok(false),
                KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } => {
                    let answers = prompts
                        .iter()
                        .map(|prompt| if prompt.echo { String::new() } else { password.reveal().to_string() })
                        .collect();
                    answer = session.authenticate_keyboard_interactive_respond(answers).await?;
                }
            }
        }
        Ok(matches!(answer, KeyboardInteractiveAuthResponse::Success))
    }

    /// Tells in `offered` which keys the agent has offered.
    async fn with_agent<H: Handler>(
        &self,
        socket: &Path,
        session: &mut Handle<H>,
        offered: &mut Vec<keys::ssh_key::public::KeyData>,
    ) -> Result<AgentAnswer, russh::Error> {
        let Ok(mut agent) = AgentClient::connect_uds(socket).await else {
            return Ok(AgentAnswer::No("no ssh agent answers".into()));
        };
        let Ok(identities) = agent.request_identities().await else {
            return Ok(AgentAnswer::No("the ssh agent does not list its keys".into()));
        };
        let hash = rsa_hash(session).await?;
        let keys = identities.into_iter().filter_map(|identity| match identity {
            AgentIdentity::PublicKey { key, .. } => Some(key),
            AgentIdentity::Certificate { .. } => None,
        });
        for key in keys.take(AGENT_KEYS) {
            offered.push(key.key_data().clone());
            let hash = hash.filter(|_| key.algorithm().is_rsa());
            match session.authenticate_publickey_with(&self.user, key, hash, &mut agent).await {
                Ok(AuthResult::Success) => return Ok(AgentAnswer::LoggedIn),
                // An agent that declines one key may sign with the next.
                Ok(AuthResult::Failure { .. }) | Err(_) => {}
            }
        }
        Ok(AgentAnswer::No(match offered.len() {
            0 => "the ssh agent has no keys".into(),
            1 => "the ssh agent's key was refused".into(),
            n => format!("{n} keys of the ssh agent were refused"),
        }))
    }
}

fn decode_key(
    path: &Path,
    text: &str,
    passphrase: impl FnOnce(&Path) -> Option<Secret>,
) -> Result<PrivateKey, KeyError> {
    match keys::decode_secret_key(text, None) {
        Ok(key) if !key.is_encrypted() => Ok(key),
        Ok(_) | Err(keys::Error::KeyIsEncrypted) => {
            let passphrase = passphrase(path).ok_or_else(|| KeyError::NoPassphrase(path.into()))?;
            keys::decode_secret_key(text, Some(passphrase.reveal()))
                .map_err(|_| KeyError::WrongPassphrase(path.into()))
        }
        Err(error) => Err(KeyError::NotAKey(path.into(), error)),
    }
}

enum AgentAnswer {
    LoggedIn,
    No(String),
}

#[derive(Debug)]
pub(super) enum Refused {
    Login(String),
    Broken(russh::Error),
}

impl From<russh::Error> for Refused {
    fn from(error: russh::Error) -> Self {
        Self::Broken(error)
    }
}

/// The best hash for an RSA signature that the server takes; never SHA-1.
async fn rsa_hash<H: Handler>(session: &Handle<H>) -> Result<Option<keys::HashAlg>, russh::Error> {
    Ok(Some(session.best_supported_rsa_hash().await?.flatten().unwrap_or(keys::HashAlg::Sha512)))
}
