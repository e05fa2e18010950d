//! Why a node could not be reached, or did not do what it was asked.

use super::Output;
use eggo_errors::{Code, Explain};
use std::time::Duration;

/// How much of a failed command's last words are worth repeating.
const LAST_LINES: usize = 8;
const LAST_BYTES: usize = 2000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    #[error("{host}: cannot connect to {address}: {reason}")]
    Connect { host: String, address: String, reason: String },
    #[error("{host}: {address} does not finish the handshake of SSH within {} s", limit.as_secs())]
    Silent { host: String, address: String, limit: Duration },
    #[error("{host}: {user} may not log in: {reason}")]
    Login { host: String, user: String, reason: String },
    #[error("{host}: the host key is unknown: {key}")]
    UnknownKey { host: String, key: String },
    #[error("{host}: THE HOST KEY HAS CHANGED: {key}")]
    ChangedKey { host: String, key: String, known: String },
    #[error("{host}: {error}")]
    Jump { host: String, error: Box<RemoteError> },
    #[error("{host}: {user} may not become root: {reason}")]
    Sudo { host: String, user: String, reason: String },
    #[error("{host}: could not {title}: the connection was lost: {reason}")]
    Lost { host: String, title: String, reason: String },
    #[error("{host}: could not {title} within {timeout:?}")]
    Timeout { host: String, title: String, timeout: Duration },
    #[error("{host}: could not {title}: nothing has moved for {} s", limit.as_secs())]
    Stalled { host: String, title: String, limit: Duration },
    #[error("{host}: could not {title}: exit status {status}")]
    Failed { host: String, title: String, status: u32, last_words: String },
    #[error("{host}: could not {title}: {reason}")]
    Answer { host: String, title: String, reason: String },
}

impl RemoteError {
    /// A command that ended with another status than 0.
    pub fn failed(host: &str, title: &str, output: &Output, secret: bool) -> Self {
        let last_words = if secret { String::new() } else { last_words(output) };
        Self::Failed { host: host.into(), title: title.into(), status: output.status, last_words }
    }

    /// The node said something that was not expected.
    pub fn answer(host: &str, title: &str, reason: impl Into<String>) -> Self {
        Self::Answer { host: host.into(), title: title.into(), reason: reason.into() }
    }

    pub fn host(&self) -> &str {
        match self {
            Self::Connect { host, .. }
            | Self::Silent { host, .. }
            | Self::Login { host, .. }
            | Self::UnknownKey { host, .. }
            | Self::ChangedKey { host, .. }
            | Self::Jump { host, .. }
            | Self::Sudo { host, .. }
            | Self::Lost { host, .. }
            | Self::Timeout { host, .. }
            | Self::Stalled { host, .. }
            | Self::Failed { host, .. }
            | Self::Answer { host, .. } => host,
        }
    }

    /// The node may be fine; only the way to it is not.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Neither the node nor a jump host has answered; later it may.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Silent { .. } => true,
            Self::Jump { error, .. } => error.is_unreachable(),
            _ => false,
        }
    }
}

fn last_words(output: &Output) -> String {
    let bytes = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(LAST_BYTES)..]).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

impl Explain for RemoteError {
    fn code(&self) -> Code {
        Code::new(match self {
            Self::Connect { .. } => "ssh-connect",
            Self::Silent { .. } => "ssh-timeout",
            Self::Login { .. } => "ssh-login",
            Self::UnknownKey { .. } => "host-key-unknown",
            Self::ChangedKey { .. } => "host-key-changed",
            Self::Jump { error, .. } => return error.code(),
            Self::Sudo { .. } => "sudo-refused",
            Self::Lost { .. } => "connection-lost",
            Self::Timeout { .. } | Self::Stalled { .. } => "command-timeout",
            Self::Failed { .. } => "command-failed",
            Self::Answer { .. } => "unexpected-answer",
        })
    }

    fn notes(&self) -> Vec<String> {
        match self {
            Self::Failed { last_words, .. } if !last_words.is_empty() => vec![last_words.clone()],
            Self::Jump { error, .. } => error.notes(),
            Self::ChangedKey { known, .. } => vec![format!("known: {known}")],
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Connect { .. } => Some("is the node up, its address and ssh port as in deploy.yaml?".into()),
            Self::Silent { .. } => Some("is that sshd, and does the node still work?".into()),
            Self::Login { .. } => Some("check `username`, `password` and `private-key-path` in deploy.yaml".into()),
            Self::UnknownKey { .. } => Some(
                "compare it with the node's /etc/ssh/ssh_host_*_key.pub, then add it to known_hosts (or name \
                 the file that has it with --known-hosts), or use --accept-new-host-keys"
                    .into(),
            ),
            Self::ChangedKey { .. } => Some(
                "someone may be in between; only if the host was reinstalled, remove the old line with \
                 `ssh-keygen -R`, or correct `host-key` in deploy.yaml"
                    .into(),
            ),
            Self::Sudo { .. } => {
                Some("log in as root, allow passwordless sudo, or give --sudo-password-file or --ask-sudo-password".into())
            }
            Self::Lost { .. } | Self::Timeout { .. } | Self::Stalled { .. } => {
                Some("run the same command again: it goes on where it stopped".into())
            }
            Self::Jump { error, .. } => error.hint(),
            Self::Failed { .. } | Self::Answer { .. } => None,
        }
    }

    fn exit(&self) -> eggo_errors::Exit {
        eggo_errors::Exit::SomeHosts
    }
}
