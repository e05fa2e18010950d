//! Nodes over real connections: a real sshd on loopback stands in for each.

mod access;
mod distribute;
mod ssh;
mod sshd;
#[path = "../../../tests/src/terminal.rs"]
mod terminal;
