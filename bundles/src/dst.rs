//! The dstpath whitelist: where on a node a bundle may put things.
//!
//! Checked when a bundle is built, when a plan is made, on install and on cleanup.
//! Compared by path component, so `/etc/kubernetes-evil` is not below `/etc/kubernetes`.
//! Symlinks on the node are the installer's concern: only a node can tell.

use std::path::{Component, Path};

/// A destination is one of these folders or anything below it.
pub const ALLOWED: [&str; 9] = [
    "/usr/bin",
    "/usr/local/bin",
    "/opt/cni/bin",
    "/usr/libexec/cni",
    "/etc/kubernetes",
    "/usr/lib/systemd/system",
    "/etc/systemd/system",
    "/etc/cni/net.d",
    "/tmp",
];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDst {
    #[error("destination `{0}` is not an absolute path")]
    NotAbsolute(String),
    #[error("destination `{0}` contains `..`")]
    DotDot(String),
    #[error("destination `{0}` contains a control character")]
    Control(String),
    #[error("destination `{0}` is outside of the whitelist")]
    Outside(String),
}

impl BadDst {
    pub fn hint(&self) -> String {
        format!("use one of these folders or anything below: {}", ALLOWED.join(", "))
    }
}

/// Accepts `dst` if it is in the whitelist; returns it normalised (no `//`, `/./` or trailing slash).
pub fn check(dst: &str) -> Result<String, BadDst> {
    if dst.chars().any(char::is_control) {
        return Err(BadDst::Control(dst.escape_debug().to_string()));
    }
    if !dst.starts_with('/') {
        return Err(BadDst::NotAbsolute(dst.to_string()));
    }
    let path = Path::new(dst);
    if path.components().any(|c| c == Component::ParentDir) {
        return Err(BadDst::DotDot(dst.to_string()));
    }
    if !ALLOWED.iter().any(|allowed| path.starts_with(allowed)) {
        return Err(BadDst::Outside(dst.to_string()));
    }
    let normal: std::path::PathBuf = path.components().collect();
    Ok(normal.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_by_component() {
        assert_eq!(check("/usr/bin"), Ok("/usr/bin".into()));
        assert_eq!(check("/usr//bin/./x/"), Ok("/usr/bin/x".into()));
        assert_eq!(check("/etc/kubernetes-evil"), Err(BadDst::Outside("/etc/kubernetes-evil".into())));
        assert_eq!(check("/usr/bin/../../etc"), Err(BadDst::DotDot("/usr/bin/../../etc".into())));
        assert_eq!(check("usr/bin"), Err(BadDst::NotAbsolute("usr/bin".into())));
        assert!(matches!(check("/usr/bin/a\nb"), Err(BadDst::Control(_))));
        assert!(matches!(check("/"), Err(BadDst::Outside(_))));
    }
}
