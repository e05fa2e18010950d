//! What the library knows of this machine's user: only what is handed in from here.

use eggo_deploy::home::Surroundings;
use std::path::PathBuf;

pub fn surroundings() -> Surroundings {
    let agent = std::env::var_os("SSH_AUTH_SOCK").filter(|socket| !socket.is_empty());
    Surroundings { home: std::env::home_dir(), agent: agent.map(PathBuf::from) }
}
