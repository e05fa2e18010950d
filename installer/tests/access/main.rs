//! The program against nodes over real connections: a real sshd on loopback stands in for each.

mod access;
#[allow(dead_code, reason = "the library's own tests use all of it")]
#[path = "../../../deploy/tests/nodes/hostile.rs"]
mod hostile;
mod hostile_nodes;
mod jump;
#[allow(dead_code, reason = "the library's own tests use all of it")]
#[path = "../../../deploy/tests/nodes/sshd.rs"]
mod sshd;
mod stopping;
#[path = "../../../tests/src/terminal.rs"]
mod terminal;
