//! How a node is reached where it differs from the others: its own user, key, host key and jump host.

use super::defaults;
use eggo_yaml::{Fields, Node};
use russh::keys::PublicKey;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;

/// The one key that a host may show; known_hosts is not consulted for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostKey(PublicKey);

impl HostKey {
    pub fn key(&self) -> &PublicKey {
        &self.0
    }
}

impl FromStr for HostKey {
    type Err = russh::keys::ssh_key::Error;

    /// `ssh-ed25519 AAAA…`, with or without a comment, as in the host's /etc/ssh/ssh_host_ed25519_key.pub.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut key = PublicKey::from_openssh(text.trim())?;
        key.set_comment("");
        Ok(Self(key))
    }
}

impl TryFrom<String> for HostKey {
    type Error = russh::keys::ssh_key::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<HostKey> for String {
    fn from(key: HostKey) -> Self {
        key.to_string()
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_openssh().map_err(|_| fmt::Error)?)
    }
}

/// A host that connections to nodes go through. Its user's password is never sent to it: keys and agents only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jump {
    /// A name or an address.
    pub address: String,
    pub port: u16,
    /// Otherwise the user of all nodes.
    pub user: Option<String>,
    /// As written; otherwise the key of all nodes.
    pub private_key: Option<PathBuf>,
    pub host_key: Option<HostKey>,
}

impl fmt::Display for Jump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            defaults::SSH_PORT => f.write_str(&self.address),
            port => write!(f, "{}:{port}", self.address),
        }
    }
}

/// What `jump` says: a mapping; `false` for a host that needs none though the others do.
pub(super) enum Way {
    Direct,
    Through(Box<Jump>),
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str("false"),
            Self::Through(jump) => jump.fmt(f),
        }
    }
}

impl Way {
    /// `None` where the file does not say, or says something wrong.
    pub(super) fn read(fields: &Fields<'_>) -> Option<Self> {
        let node = fields.node("jump")?;
        if node.as_mapping().is_some() {
            let jump = fields.reader().fields(node, fields.name("jump"));
            let way = read_jump(&jump);
            jump.finish();
            return way.map(|jump| Self::Through(Box::new(jump)));
        }
        match fields.boolean("jump") {
            Some(false) => Some(Self::Direct),
            Some(true) => {
                let message = format!("`{}` is `true`, which names no host", fields.name("jump"));
                fields.reader().at_hinted(node, message, "write `{address: HOST}`, or `false` for none");
                None
            }
            None => None,
        }
    }
}

fn read_jump(fields: &Fields<'_>) -> Option<Jump> {
    let address = fields.required("address");
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '%');
    if let (Some(address), Some(node)) = (&address, fields.node("address"))
        && (address.is_empty() || address.starts_with('-') || !address.chars().all(plain))
    {
        let message =
            format!("`{}` is `{address}`, which is neither a name nor an address", fields.name("address"));
        fields.reader().at_hinted(node, message, "the user and the port have keys of their own");
    }
    let port = fields.parsed::<NonZeroU16>("port", "a port number");
    Some(Jump {
        port: port.map_or(defaults::SSH_PORT, Into::into),
        user: user(fields, fields.spelled(&["username", "user"])),
        private_key: private_key(fields),
        host_key: host_key(fields),
        address: address?,
    })
}

pub(super) fn user(fields: &Fields<'_>, key: &'static str) -> Option<String> {
    let user = fields.text(key).filter(|user| !user.is_empty())?;
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '\\');
    if let Some(node) = fields.node(key)
        && (!user.chars().all(plain) || user.starts_with('-'))
    {
        let message = format!("`{}` is `{user}`, which is not a login name", fields.name(key));
        fields.reader().at(node, message);
    }
    Some(user)
}

pub(super) fn private_key(fields: &Fields<'_>) -> Option<PathBuf> {
    fields.text("private-key-path").filter(|path| !path.is_empty()).map(PathBuf::from)
}

pub(super) fn host_key(fields: &Fields<'_>) -> Option<HostKey> {
    let text = fields.text("host-key").filter(|text| !text.is_empty())?;
    let key = text.parse();
    if let (Err(_), Some(node)) = (&key, fields.node("host-key")) {
        let message = format!("`{}` is not a public key", fields.name("host-key"));
        let hint = "write a line of the host's /etc/ssh/ssh_host_*_key.pub: `ssh-ed25519 AAAA…`";
        fields.reader().at_hinted(node, message, hint);
    }
    key.ok()
}

/// A private key that the file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPlace {
    /// `private-key-path`, `masters[0].private-key-path`.
    pub key: String,
    /// As written.
    pub path: PathBuf,
    pub line: usize,
    pub column: usize,
}

/// Every `private-key-path` of the file, in its order.
pub(super) fn key_places(node: &Node, what: &str) -> Vec<KeyPlace> {
    let mut places = Vec::new();
    for entry in node.as_mapping().into_iter().flatten() {
        let name = entry.key.as_str();
        let key = if what.is_empty() { name.to_string() } else { format!("{what}.{name}") };
        match (name, entry.node.as_str()) {
            ("private-key-path", Some(path)) if !path.is_empty() => {
                let (line, column) = (entry.node.line, entry.node.column);
                places.push(KeyPlace { key, path: path.into(), line, column });
            }
            _ => places.extend(key_places(&entry.node, &key)),
        }
    }
    for (i, node) in node.as_sequence().into_iter().flatten().enumerate() {
        places.extend(key_places(node, &format!("{what}[{i}]")));
    }
    places
}
