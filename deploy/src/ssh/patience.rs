//! How long a node is waited for. Everything that is awaited on a node has a limit.

use std::time::Duration;

/// The limits. Tests hand in shorter ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For TCP, banner, keys and login together. A person who is asked about a host key may think longer.
    pub handshake: Duration,
    /// For `sudo`, after the login.
    pub root: Duration,
    /// How long a lost connection is tried again before the command fails.
    pub reconnect: Duration,
    /// For any command, whatever longer limit it has itself.
    pub command: Duration,
    /// A command that is fed a stream is given up when nothing has moved for so long.
    pub idle: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(30),
            root: Duration::from_secs(60),
            reconnect: Duration::from_secs(60),
            command: Duration::MAX,
            idle: Duration::from_secs(300),
        }
    }
}
