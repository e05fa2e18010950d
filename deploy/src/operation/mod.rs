//! The operations as a program sees them: everything that a command does, without a terminal.
//!
//! A caller gives a config, a way onto the nodes, content, and a sink for events; it gets a value or
//! a report. The command line is one caller; a server can be another. What brings a bundle onto nodes
//! is prepared first ([`prepare`]): a value that somebody can look at, and approve now ([`Ready::run`]) or
//! later ([`run`]).

mod access;
mod cleanup;
mod delete;
mod etcd;
mod install;
mod life;
mod prepare;
mod ready;
mod renew;
mod request;
mod shelf;
mod survey;
mod upgrade;
mod verdict;
mod whole;

pub use crate::limits::Limits;
pub use crate::node::{Node, Surveyed};
pub use access::{Access, Passwords, Prompts, unreadable_key};
pub use cleanup::{Afterwards, CleanedUp, CleanupRequest, Fate, Leaving, cleanup, phases as cleanup_phases};
pub use delete::{DeleteOptions, Deleting, delete, phases as delete_phases};
pub use etcd::{BackingUp, backup, backup_phases, restore, restore_phases};
pub use install::{Deployment, Installed, phases};
pub use life::{LifeRequest, certificates, status};
pub use prepare::{MadeFrom, Prepared};
pub use ready::{Ready, plan, prepare, run};
pub use renew::{phases as renew_phases, renew};
pub use request::{Goal, InstallRequest, Options};
pub use survey::{connect, facts_of, is_this_machine, survey};
pub use upgrade::{Upgrading, phases as upgrade_phases};
