//! Nodes over SSH: host keys, logging in, becoming root, one connection per node with many
//! channels, re-made when it breaks; a jump host in between.
//!
//! What runs over it is decided elsewhere; this room implements [`crate::remote::Host`].

mod connection;
mod ending;
mod host;
mod jump;
mod known_hosts;
mod login;
mod pace;
mod patience;

pub use host::{SshHost, Target};
pub use jump::Jump;
pub use known_hosts::{HostKeys, KnownHosts, UnknownKey, UnknownKeys, Verdict};
pub use login::{KeyError, Login};
pub use patience::Patience;
