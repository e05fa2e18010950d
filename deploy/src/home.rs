//! Paths of the machine that installs, as people write them.

use std::path::{Path, PathBuf};

/// `~/x` → the user's home; anything else stays.
pub fn expand(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_leading_tilde_is_the_home() {
        let home = std::env::home_dir().unwrap();
        assert_eq!(expand(Path::new("~/pki/ca.crt")), home.join("pki/ca.crt"));
        assert_eq!(expand(Path::new("~")), home);
        for path in ["/etc/~/ca", "ca.crt", "~other/ca"] {
            assert_eq!(expand(Path::new(path)), Path::new(path));
        }
    }
}
