//! What the control machine keeps of one cluster. This module alone knows the names in a cluster's
//! folder, and every file there is written the same way: beside, fsync, rename, fsync of the folder.
//!
//! ```text
//! journal.jsonl  lock  config.json  images.json  admin.conf  pki/…  hooks/ARCH/NAME  backups/NAME.db
//! ```
//! A cluster that was removed leaves `CLUSTER.removed-DATE` beside it, with its keys and backups.

mod folder;
mod images;
mod kept;
mod memory;

pub use folder::{Folder, write};
pub(crate) use folder::{make, sync};
pub use images::{NodeImages, images, save_images};
pub use kept::{Listed, hook, list, load, none, save, save_hooks, was_made};
pub use memory::Memory;

use eggo_bundles::Arch;
use std::io;
use std::path::{Path, PathBuf};

const JOURNAL: &str = "journal.jsonl";
const LOCK: &str = "lock";
const CONFIG: &str = "config.json";
const IMAGES: &str = "images.json";
const ADMIN: &str = "admin.conf";
const PKI: &str = "pki";
const HOOKS: &str = "hooks";
const BACKUPS: &str = "backups";

/// A file in a cluster's state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Journal,
    Lock,
    /// The configuration as the last command left the cluster, without passwords.
    Config,
    /// The images of the bundle that each node was given.
    Images,
    /// The administrator's kubeconfig.
    Admin,
    /// A certificate or key, by its path in the pki folder.
    Pki(String),
    /// A hook that a cleanup will run.
    Hook(Arch, String),
    /// A snapshot of etcd.
    Backup(String),
}

impl Name {
    /// The path in the cluster's folder.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Journal => JOURNAL.into(),
            Self::Lock => LOCK.into(),
            Self::Config => CONFIG.into(),
            Self::Images => IMAGES.into(),
            Self::Admin => ADMIN.into(),
            Self::Pki(path) => Path::new(PKI).join(path),
            Self::Hook(arch, name) => [HOOKS, arch.as_str(), name].iter().collect(),
            Self::Backup(name) => Path::new(BACKUPS).join(name),
        }
    }

    /// The name of the file at `path` in the cluster's folder; `None` if it is not one of ours.
    pub fn of(path: &Path) -> Option<Self> {
        let words: Option<Vec<&str>> = path.iter().map(|word| word.to_str()).collect();
        match words?.as_slice() {
            [JOURNAL] => Some(Self::Journal),
            [LOCK] => Some(Self::Lock),
            [CONFIG] => Some(Self::Config),
            [IMAGES] => Some(Self::Images),
            [ADMIN] => Some(Self::Admin),
            [PKI, rest @ ..] if !rest.is_empty() => Some(Self::Pki(rest.join("/"))),
            [HOOKS, arch, name] => Some(Self::Hook(arch.parse().ok()?, name.to_string())),
            [BACKUPS, name] => Some(Self::Backup(name.to_string())),
            _ => None,
        }
    }

    /// Whether it is made only after nodes were changed: a journal beside it has entries.
    pub fn comes_after_changes(&self) -> bool {
        matches!(self, Self::Pki(_) | Self::Admin | Self::Config | Self::Backup(_))
    }
}

/// Where the state of one cluster is kept.
pub trait State: Send + Sync {
    /// `None` if there is no such file.
    fn get(&self, name: &Name) -> io::Result<Option<Vec<u8>>>;
    /// The file is complete and on disk when this returns, or it is as it was.
    fn put(&self, name: &Name, bytes: &[u8]) -> io::Result<()>;
    /// Every file, sorted.
    fn list(&self) -> io::Result<Vec<Name>>;
    /// No error if there is no such file.
    fn remove(&self, name: &Name) -> io::Result<()>;
}

#[cfg(test)]
mod tests;
