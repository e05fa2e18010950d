//! What the library knows of this machine's user: only what is handed in from here.

use eggo_deploy::home::Surroundings;
use std::path::PathBuf;

pub fn surroundings() -> Surroundings {
    let agent = std::env::var_os("SSH_AUTH_SOCK").filter(|socket| !socket.is_empty());
    Surroundings { home: std::env::home_dir(), agent: agent.map(PathBuf::from) }
}

/// Who runs this program, and where, for others to read on the nodes: `USER@HOST`.
pub fn operator() -> String {
    let named = |name: &str| std::env::var(name).ok().filter(|user| !user.is_empty());
    let user = ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(named);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}@{}", user.as_deref().unwrap_or("somebody"), host.trim())
}
