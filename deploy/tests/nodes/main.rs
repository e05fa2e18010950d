//! Nodes over real connections: a real sshd on loopback stands in for each.

mod distribute;
mod jump;
mod ssh;
mod sshd;
