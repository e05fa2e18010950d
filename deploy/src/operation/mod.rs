//! The operations as a program sees them: everything that a command does, without a terminal.
//!
//! A caller gives a config, a way onto the nodes, content, and a sink for events; it gets a value or
//! a report. The command line is one caller; a server can be another.

mod access;
mod cleanup;
mod install;
mod life;
mod survey;
mod upgrade;
mod whole;

pub use access::{Access, Passwords, Prompts, unreadable_key};
pub use cleanup::{Afterwards, CleanedUp, CleanupRequest, Fate, cleanup};
pub use install::{
    Confirm, Deployment, InstallRequest, Installed, Options, check, install, phases, plan_for,
};
pub use life::{LifeRequest, backup, certificates, delete, renew, restore, status};
pub use survey::{Surveyed, connect, facts_of, is_this_machine, survey};
pub use upgrade::upgrade;
