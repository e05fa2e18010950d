//! Kubernetes versions, and the rules about which may be beside which.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// `1.20.2`. What a build adds (`-00`, `+deb`, `-4.oe1`) does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Version {
    pub major: u16,
    pub minor: u16,
    pub patch: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version such as 1.20.2")]
pub struct BadVersion(pub String);

/// The oldest and newest minor version of Kubernetes whose flags are known here.
pub const OLDEST: u16 = 20;
pub const NEWEST: u16 = 36;

impl Version {
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// One of Kubernetes whose flags are known here.
    pub fn is_known(&self) -> bool {
        self.major == 1 && (OLDEST..=NEWEST).contains(&self.minor)
    }

    /// The first version in the output of `PROGRAM --version`: `Kubernetes v1.20.2`, `etcd Version: 3.4.23`.
    pub fn find(text: &str) -> Option<Self> {
        let words = text.split(|c: char| c.is_whitespace() || c == ',' || c == '/' || c == '"');
        words.filter(|word| word.contains('.')).find_map(|word| word.parse().ok())
    }
}

impl FromStr for Version {
    type Err = BadVersion;

    fn from_str(text: &str) -> Result<Self, BadVersion> {
        let bad = || BadVersion(text.to_string());
        // Debian writes an epoch, Kubernetes a `v`.
        let bare = text.rsplit_once(':').map_or(text, |(_, rest)| rest).trim_start_matches('v');
        let end = bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare.len());
        let mut numbers = bare[..end].trim_end_matches('.').split('.').map(str::parse::<u16>);
        let mut next = || numbers.next().map(|number| number.map_err(|_| bad()));
        let major = next().ok_or_else(bad)??;
        let minor = next().ok_or_else(bad)??;
        let patch = next().transpose()?.unwrap_or(0);
        Ok(Self { major, minor, patch })
    }
}

impl TryFrom<String> for Version {
    type Error = BadVersion;

    fn try_from(text: String) -> Result<Self, BadVersion> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}.{}", self.major, self.minor, self.patch))
    }
}

/// Why a step from one version to another is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Skew {
    #[error("{to} is older than {from}: a control plane is never taken back")]
    Backwards { from: Version, to: Version },
    #[error("from {from} to {to} is more than one minor version")]
    TooFar { from: Version, to: Version },
    #[error("a kubelet {kubelet} does not work with a control plane {control}: {reason}")]
    Kubelet { kubelet: Version, control: Version, reason: &'static str },
}

/// A control plane goes forward, one minor version at a time.
pub fn check_upgrade(from: Version, to: Version) -> Result<(), Skew> {
    if to < from {
        return Err(Skew::Backwards { from, to });
    }
    if to.major != from.major || to.minor > from.minor + 1 {
        return Err(Skew::TooFar { from, to });
    }
    Ok(())
}

/// A kubelet is never newer than the API; it may be two minor versions older, three since 1.28.
pub fn check_kubelet(kubelet: Version, control: Version) -> Result<(), Skew> {
    let refused = |reason| Err(Skew::Kubelet { kubelet, control, reason });
    let allowed = if control.minor >= 28 { 3 } else { 2 };
    if (kubelet.major, kubelet.minor) > (control.major, control.minor) {
        return refused("a kubelet must not be newer than the API");
    }
    if control.minor - kubelet.minor > allowed {
        return refused("it is too old");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_programs_and_packages_say() {
        let expected = Version::new(1, 20, 2);
        for text in ["1.20.2", "v1.20.2", "1.20.2-00", "1.20.2+deb1", "1:1.20.2-4.oe1", "1.20.2.oe1"] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert_eq!(Version::find("Kubernetes v1.20.2\n"), Some(expected));
        assert_eq!(Version::find("etcd Version: 3.4.23\nGit SHA: x\n"), Some(Version::new(3, 4, 23)));
        let containerd = "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+b1";
        assert_eq!(Version::find(containerd), Some(Version::new(1, 6, 20)));
        assert_eq!(Version::find("nginx version: nginx/1.22.1"), Some(Version::new(1, 22, 1)));
        assert!("latest".parse::<Version>().is_err());
    }

    #[test]
    fn skew_rules() {
        let v = |minor, patch| Version::new(1, minor, patch);
        assert_eq!(check_upgrade(v(20, 2), v(20, 2)), Ok(()));
        assert_eq!(check_upgrade(v(20, 2), v(21, 0)), Ok(()));
        assert!(matches!(check_upgrade(v(20, 2), v(22, 0)), Err(Skew::TooFar { .. })));
        assert!(matches!(check_upgrade(v(20, 2), v(20, 1)), Err(Skew::Backwards { .. })));
        assert_eq!(check_kubelet(v(20, 9), v(20, 2)), Ok(()), "patches do not matter");
        assert!(check_kubelet(v(21, 0), v(20, 2)).is_err());
        assert_eq!(check_kubelet(v(20, 0), v(22, 2)), Ok(()));
        assert!(check_kubelet(v(20, 0), v(23, 0)).is_err());
        assert_eq!(check_kubelet(v(27, 0), v(30, 0)), Ok(()));
    }
}
