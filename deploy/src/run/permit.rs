//! Who may change a node.

/// What a command takes to change a node. [`super::Run::step`] and [`super::Run::undo`] give it to their work, and nothing else
/// has one: so the journal knows of every change.
///
/// ```compile_fail
/// use eggo_deploy::remote::Command;
/// use eggo_deploy::run::Permit;
///
/// Command::change(Permit(()), "stop etcd", "systemctl stop etcd");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Permit(());

impl Permit {
    pub(super) fn granted() -> Self {
        Self(())
    }

    /// For tests of what a command does.
    #[cfg(test)]
    pub(crate) fn of_a_test() -> Self {
        Self(())
    }
}
