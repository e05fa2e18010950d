//! A file as a node is to have it.

use bytes::Bytes;

/// Where the node keeps what was in the way of our files: `original/PATH` is what was there before
/// the first install (or `absent/PATH` if nothing was), `previous/PATH` the bundle's file that the last
/// change replaced. Files that we write ourselves can be written again, and some hold secrets: of them
/// no former one is kept.
pub const KEPT: &str = "/var/lib/eggo/kept";

/// A file to be put on a node.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteFile {
    pub path: String,
    pub content: Bytes,
    pub mode: u32,
    /// `USER:GROUP`.
    pub owner: String,
}

impl RemoteFile {
    /// A file of root's that everyone may read.
    pub fn new(path: impl Into<String>, content: impl Into<Bytes>) -> Self {
        Self { path: path.into(), content: content.into(), mode: 0o644, owner: "root:root".into() }
    }

    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// A file that only root may read.
    pub fn secret(self) -> Self {
        self.mode(0o600)
    }
}

// The content may be a secret.
impl std::fmt::Debug for RemoteFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes, {:o} {})", self.path, self.content.len(), self.mode, self.owner)
    }
}
