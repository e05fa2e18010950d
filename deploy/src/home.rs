//! What the caller tells about the machine that installs. Nothing here is looked up: no variable of the
//! environment, no home folder, no agent.

use crate::config::Config;
use std::path::{Path, PathBuf};

/// The user's own things, as far as they may be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The folder that `~` stands for, with the user's own keys in `.ssh`.
    pub home: Option<PathBuf>,
    /// The socket of an ssh agent.
    pub agent: Option<PathBuf>,
}

impl Surroundings {
    /// `~/x` → the user's home; anything else stays.
    pub fn expand(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path.to_path_buf(),
        }
    }

    /// Every path of this machine that deploy.yaml names, in full.
    pub fn settle(&self, config: &mut Config) {
        let etcd =
            config.etcd.external.iter_mut().flat_map(|etcd| [&mut etcd.ca, &mut etcd.cert, &mut etcd.key]);
        let paths = etcd.chain(&mut config.external_ca).chain(config.content.tarballs.values_mut());
        for path in paths {
            *path = self.expand(path);
        }
        for path in config.private_keys_mut() {
            *path = self.expand(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_leading_tilde_is_the_home() {
        let known = Surroundings { home: Some("/home/ops".into()), agent: None };
        assert_eq!(known.expand(Path::new("~/pki/ca.crt")), Path::new("/home/ops/pki/ca.crt"));
        assert_eq!(known.expand(Path::new("~")), Path::new("/home/ops"));
        for path in ["/etc/~/ca", "ca.crt", "~other/ca"] {
            assert_eq!(known.expand(Path::new(path)), Path::new(path));
        }
        assert_eq!(Surroundings::default().expand(Path::new("~/key")), Path::new("~/key"));
    }
}
