//! The package managers that nodes have.

use serde::{Deserialize, Serialize};

/// The program that installs packages on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manager {
    Dpkg,
    Rpm,
}

impl Manager {
    /// As the functions for it end in scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dpkg => "dpkg",
            Self::Rpm => "rpm",
        }
    }
}
