//! How the part of a bundle is named, and what can be wrong with one.

use crate::Digest;
use std::path::{Path, PathBuf};

pub(crate) const MOST_PARTS: usize = 999;

#[derive(Debug, thiserror::Error)]
pub enum BadPart {
    #[error("part `{}` is missing", .0.display())]
    Missing(PathBuf),
    #[error("part `{}` is {found} bytes long, and those before it are {expected}", path.display())]
    Length { path: PathBuf, found: u64, expected: u64 },
    #[error("part `{}` has sha256 {found}, and its sidecar says {expected}", path.display())]
    Changed { path: PathBuf, found: Digest, expected: Digest },
    #[error("`{}` is not the checksum of a part", .0.display())]
    Sidecar(PathBuf),
    #[error("`{}` is not the first part", .0.display())]
    NotFirst(PathBuf),
    #[error("parts of {size} bytes would be more than {MOST_PARTS}")]
    TooMany { size: u64 },
}

impl BadPart {
    pub fn is_untrusted(&self) -> bool {
        matches!(self, BadPart::Length { .. } | BadPart::Changed { .. } | BadPart::Sidecar(_))
    }

    pub fn hint(&self) -> Option<String> {
        match self {
            BadPart::Missing(_) => Some("put all parts into one folder".into()),
            BadPart::Length { path, .. } | BadPart::Changed { path, .. } => {
                Some(format!("copy `{}` again", path.display()))
            }
            BadPart::NotFirst(path) => Some(match base_of(path) {
                Some((base, _)) => format!("give `{}`", numbered(&base, 1).display()),
                None => "the name of a first part ends in `.001`".into(),
            }),
            BadPart::Sidecar(_) => None,
            BadPart::TooMany { .. } => Some("choose a larger size".into()),
        }
    }
}

/// Whether `path` names a split bundle, by its first part or as the whole that is not there.
pub(crate) fn are_named_by(path: &Path) -> bool {
    base_of(path).is_some() || !path.exists()
}

/// `X.tar.gz.007` → `X.tar.gz` and 7.
pub(crate) fn base_of(path: &Path) -> Option<(PathBuf, usize)> {
    let digits = path.extension()?.to_str()?;
    let number =
        digits.parse().ok().filter(|_| digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit()))?;
    Some((path.with_extension(""), number))
}

pub(crate) fn numbered(base: &Path, number: usize) -> PathBuf {
    suffixed(base, &format!(".{number:03}"))
}

pub(crate) fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}
