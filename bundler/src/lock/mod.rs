//! The lock: what the manifest's words led to, exactly. TOML, sorted, made to be compared.
//!
//! Types and their text here; what a manifest asks for as lines in `asked`, the difference
//! of two locks in `changes`. Deciding what goes in is the rooms' work.

mod asked;
mod changes;
mod octal;

pub use asked::asked;
pub use changes::{Change, changes};

use crate::manifest::Manifest;
use eggo_bundles::index::Baseline;
use eggo_bundles::output::{self, write_whole};
use eggo_bundles::{Arch, Digest, Kind, Role};
use eggo_terminal::Explain;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

pub const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Lock {
    /// The version of this file's layout.
    pub lock: u32,
    pub name: String,
    pub version: String,
    pub archs: Vec<Arch>,
    /// What the manifest asked for, a line each. The lock is stale when the manifest asks
    /// for something else.
    pub asked: Vec<String>,
    #[serde(default, rename = "baseline", skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<Baseline>,
    #[serde(default, rename = "repo", skip_serializing_if = "Vec::is_empty")]
    pub repos: Vec<LockedRepo>,
    #[serde(default, rename = "package", skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<LockedPackage>,
    #[serde(default, rename = "binary", skip_serializing_if = "Vec::is_empty")]
    pub binaries: Vec<LockedFile>,
    #[serde(default, rename = "file", skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<LockedFile>,
    #[serde(default, rename = "image", skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<LockedImage>,
    #[serde(default, rename = "addon", skip_serializing_if = "Vec::is_empty")]
    pub addons: Vec<LockedAddon>,
}

/// A repository's metadata, as it was when the lock was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LockedRepo {
    pub name: String,
    /// As the manifest names the place: its first url, mirror list or metalink.
    pub url: String,
    /// Of a deb repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// Absent where the metadata is the same for every arch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<Arch>,
    /// Fingerprint of the key that signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// When it was made: `2026-11-18T18:42:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// A .deb or .rpm for the nodes of one arch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LockedPackage {
    pub name: String,
    /// In full: `1:2.3-4` for deb, `1:2.3-4.oe1` for rpm.
    pub version: String,
    /// The nodes it is for.
    pub arch: Arch,
    /// As the package spells it: `amd64`, `all`, `x86_64`, `noarch`.
    pub architecture: String,
    pub repo: String,
    pub url: String,
    pub sha256: Digest,
    pub size: u64,
    /// Further places of the same file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<String>,
    /// The roles whose nodes need it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    /// The locked packages that need it, and `role ROLE` where the manifest asks for it.
    pub required_by: Vec<String>,
    /// Fingerprint of the key whose signature vouches for the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A binary, a file or a folder for the nodes of one arch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LockedFile {
    pub name: String,
    pub kind: Kind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    pub arch: Arch,
    /// Where it comes from: a url, or a path relative to the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<String>,
    /// Of the file that is fetched. A local folder has none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
    pub size: u64,
    /// The member or members of an archive that are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<String>,
    /// What goes into the bundle: one file, or those of a folder.
    pub content: Vec<Content>,
}

/// A file as it goes into the bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Content {
    /// Below the room: the name, or `NAME/sub/file` in a folder.
    pub path: String,
    pub sha256: Digest,
    pub size: u64,
    #[serde(with = "octal")]
    pub mode: u32,
    /// A symbolic link's target; it stays inside of its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// An image for the nodes of one arch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LockedImage {
    /// The full reference: `docker.io/library/nginx:1.25`.
    pub name: String,
    pub arch: Arch,
    /// The manifest of this arch.
    pub manifest: Digest,
    pub media_type: String,
    /// Of the manifest.
    pub size: u64,
    pub config: Blob,
    pub layers: Vec<Blob>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    /// A local archive or layout, relative to the manifest; absent: the registry in the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// `manifest` where the manifest asks for it, `addon NAME` where an addon does.
    pub required_by: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Blob {
    pub sha256: Digest,
    pub size: u64,
    pub media_type: String,
}

/// A file of Kubernetes objects, the same for every arch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LockedAddon {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub sha256: Digest,
    pub size: u64,
    /// Full references of the images it needs, all of them locked above.
    pub images: Vec<String>,
    /// What may be an image, and is not bundled: `IMAGE (FILE:LINE, where)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub possible: Vec<String>,
}

impl LockedPackage {
    /// The file's own name, as the repository spells it: the last part of its url.
    pub fn file_name(&self) -> String {
        let path = self.url.split(['?', '#']).next().unwrap_or_default();
        let last = path.rsplit('/').next().unwrap_or_default();
        // Only epochs (`%3a`, also in the file's own name) and pluses are ever written this way.
        last.replace("%25", "%")
            .replace("%3a", ":")
            .replace("%3A", ":")
            .replace("%2b", "+")
            .replace("%2B", "+")
            .replace("%7e", "~")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the lock `{}`", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot write the lock `{}`", .file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("the lock `{}` cannot be parsed: {reason}", .file.display())]
    Parse { file: PathBuf, reason: String },
    #[error("the lock `{}` has layout {found}, this program knows up to {VERSION}", .file.display())]
    Newer { file: PathBuf, found: u32 },
}

impl Explain for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Error::Parse { .. } => Some("`eggo-bundle lock` writes a new one".to_string()),
            Error::Newer { .. } => Some("use a newer eggo-bundle".to_string()),
            Error::Write { file, source } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Some(
                    "copy the manifest to where you can write: its lock is written beside it".to_string(),
                ),
                _ => output::hint(file, source),
            },
            Error::Read { .. } => None,
        }
    }
}

impl Lock {
    /// The lock at `file`, if there is one.
    pub fn load(file: &Path) -> Result<Option<Self>, Error> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Read { file: file.into(), source }),
        };
        Self::parse(file, &text).map(Some)
    }

    pub fn parse(file: &Path, text: &str) -> Result<Self, Error> {
        let bad = |error: toml::de::Error| Error::Parse {
            file: file.into(),
            reason: error.to_string().trim_end().to_string(),
        };
        #[derive(Deserialize)]
        struct Layout {
            lock: u32,
        }
        let Layout { lock: found } = toml::from_str(text).map_err(bad)?;
        if found > VERSION {
            return Err(Error::Newer { file: file.into(), found });
        }
        toml::from_str(text).map_err(bad)
    }

    pub fn to_text(&self) -> String {
        let body = toml::to_string_pretty(self).expect("a lock has only TOML types");
        format!(
            "# Written by `eggo-bundle lock`. Keep it beside the manifest and under version control.\n{body}"
        )
    }

    /// Writes the lock whole or not at all.
    pub fn save(&self, file: &Path) -> Result<(), Error> {
        let failed = |source| Error::Write { file: file.into(), source };
        write_whole(file, self.to_text().as_bytes()).map_err(failed)
    }

    /// Fails where a lock could not be written, before it is made.
    pub fn check_place(file: &Path) -> Result<(), Error> {
        output::check_place(file).map_err(|source| Error::Write { file: file.into(), source })
    }

    /// How this lock differs from what `manifest` asks for now; nothing if it is fresh.
    pub fn staleness(&self, manifest: &Manifest, archs: &[Arch]) -> Vec<String> {
        let mut lines = Vec::new();
        let asked = asked(manifest);
        let new = asked.iter().filter(|line| !self.asked.contains(line));
        lines.extend(new.map(|line| format!("the manifest asks for: {line}")));
        let old = self.asked.iter().filter(|line| !asked.contains(line));
        lines.extend(old.map(|line| format!("the lock was made for: {line}")));
        let missing = archs.iter().filter(|arch| !self.archs.contains(arch));
        lines.extend(missing.map(|arch| format!("the lock has nothing for {arch}")));
        lines
    }

    /// Only what concerns these archs.
    pub fn only(mut self, archs: &[Arch]) -> Self {
        self.archs.retain(|arch| archs.contains(arch));
        self.baselines.retain(|baseline| archs.contains(&baseline.arch));
        self.repos.retain(|repo| repo.arch.is_none_or(|arch| archs.contains(&arch)));
        self.packages.retain(|package| archs.contains(&package.arch));
        self.binaries.retain(|file| archs.contains(&file.arch));
        self.files.retain(|file| archs.contains(&file.arch));
        self.images.retain(|image| archs.contains(&image.arch));
        self
    }

    /// Binaries, files and folders.
    pub fn all_files(&self) -> impl Iterator<Item = &LockedFile> {
        self.binaries.iter().chain(&self.files)
    }

    /// Sorted by name and arch, so that a lock says the same whatever order the work was done in.
    pub fn sort(&mut self) {
        self.archs.sort();
        self.baselines.sort_by_key(|baseline| (baseline.arch, baseline.format));
        self.repos
            .sort_by(|a, b| (&a.name, &a.url, &a.suite, a.arch).cmp(&(&b.name, &b.url, &b.suite, b.arch)));
        self.packages.sort_by(|a, b| (&a.name, a.arch, &a.version).cmp(&(&b.name, b.arch, &b.version)));
        for files in [&mut self.binaries, &mut self.files] {
            files.sort_by(|a, b| (&a.name, a.kind, a.arch).cmp(&(&b.name, b.kind, b.arch)));
        }
        self.images.sort_by(|a, b| (&a.name, a.arch).cmp(&(&b.name, b.arch)));
        self.addons.sort_by(|a, b| a.name.cmp(&b.name));
    }
}
