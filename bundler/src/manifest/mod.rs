//! What to bundle, as its author wrote it: types here, reading in `parse`, its keys in `keys`,
//! the `{version}` and `{arch}` of urls and paths in `template`.
//!
//! Nothing is looked up: what the words lead to is in the lock.

mod keys;
mod parse;
mod template;

pub use keys::KEYS;
pub use template::Template;

use eggo_bundles::version::Relation;
use eggo_bundles::{Arch, Digest, Kind, Role};
use eggo_terminal::Explain;
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct Manifest {
    /// As the user named it: for messages.
    pub file: PathBuf,
    pub name: String,
    pub version: String,
    pub archs: Vec<Arch>,
    pub repos: Vec<Repo>,
    pub baseline: Baseline,
    /// Take weak dependencies (Recommends) too.
    pub recommends: bool,
    /// Of rpm packages that are asked for only the newest version is taken, as dnf does with `best`.
    pub best: bool,
    pub packages: Vec<PackageRequest>,
    /// Binaries, files and folders, in the order of the manifest.
    pub files: Vec<FileRequest>,
    pub registries: Vec<Registry>,
    pub images: Vec<ImageRequest>,
    pub addons: Vec<AddonRequest>,
}

/// A repository of OS packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    pub name: String,
    pub line: usize,
    pub source: RepoSource,
    /// Key files (relative to the manifest) or, for rpm, their urls.
    pub keys: Vec<String>,
    /// Metadata without a signature is accepted; the bundle records it.
    pub allow_unsigned: bool,
    /// Metadata whose last day is over is refused; only deb repositories have one.
    pub check_valid_until: bool,
    /// Whether rpm metadata must be signed itself; not said: if it was when the lock was made before.
    pub repo_gpgcheck: Option<bool>,
    /// Package names, with `*`, that are not to be taken from here.
    pub exclude: Vec<String>,
    /// The archs that it serves; empty: whatever its metadata lists.
    pub archs: Vec<Arch>,
    pub tls: Tls,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepoSource {
    /// The machine's own apt sources, with their keys.
    DebSystem,
    Deb {
        /// Mirrors of one repository.
        urls: Vec<String>,
        /// A suite that ends in `/` makes a flat repository.
        suites: Vec<String>,
        components: Vec<String>,
    },
    Rpm {
        /// Mirrors of one repository; `$basearch` and `$releasever` are replaced.
        urls: Vec<String>,
        mirrorlist: Option<String>,
        metalink: Option<String>,
        releasever: Option<String>,
        /// Streams to enable besides the default ones: `nodejs:12`.
        modules: Vec<String>,
    },
    /// A `.repo` file as dnf and yum read it, relative to the manifest.
    RpmFile { file: String, releasever: Option<String>, modules: Vec<String> },
}

/// What a target is sure to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Baseline {
    Minimal,
    None,
    /// Captured on a node; relative to the manifest; may contain `{arch}`.
    File(Template),
}

/// `name` or `name >= 1.2`, for the nodes of one role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageRequest {
    pub name: String,
    pub constraint: Option<Constraint>,
    pub role: Role,
    pub line: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    pub relation: Relation,
    pub version: String,
}

/// A binary, a file or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRequest {
    /// `bin`, `file` or `dir`.
    pub kind: Kind,
    pub name: String,
    pub version: String,
    pub line: usize,
    pub archs: Vec<Arch>,
    pub roles: Vec<Role>,
    /// Normalised and inside of the whitelist.
    pub dst: Option<String>,
    pub mode: Option<u32>,
    pub from: From,
    /// Which member of an archive; for a folder, which folder of it.
    pub member: Option<Template>,
    pub checksums: Checksums,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// The preferred place first.
    Urls(Vec<Template>),
    /// Relative to the manifest.
    Path(Template),
}

/// What the manifest says of the sha256 of what is fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checksums {
    /// Nothing: recorded when the lock is made, and said.
    Unknown,
    /// The same file for every arch.
    Same(Digest),
    PerArch(Vec<(Arch, Digest)>),
}

/// How to reach a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    /// Host and port as in image names: `docker.io`, `registry.lan:5000`.
    pub name: String,
    pub line: usize,
    /// Asked first, in this order: `host[:port][/prefix]`.
    pub mirrors: Vec<String>,
    pub plain_http: bool,
    pub tls: Tls,
}

/// Certificates for one server. Files are relative to the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// Its CA, or its own certificate.
    pub ca: Option<String>,
    /// What is shown to it: certificate and key.
    pub client: Option<(String, String)>,
    /// Any certificate will do.
    pub insecure: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRequest {
    /// As written: `nginx`, `calico/node:v3.19.1`, `host:5000/a/b@sha256:…`.
    pub name: String,
    pub line: usize,
    /// Empty: every node.
    pub roles: Vec<Role>,
    /// Empty: all that the manifest has.
    pub archs: Vec<Arch>,
    /// A local docker-archive, OCI layout or OCI archive in place of a registry, relative to
    /// the manifest.
    pub from: Option<Template>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddonRequest {
    pub name: String,
    pub line: usize,
    pub from: From,
    pub images: AddonImages,
    /// Discovered images, with `*`, that do not come along.
    pub exclude: Vec<String>,
    pub checksum: Option<Digest>,
}

/// Which images an addon brings along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddonImages {
    /// Those in its pod specs.
    Discover,
    /// Those, and the references found in args, environment and ConfigMaps.
    DiscoverAll,
    /// Those of the pod specs, and these.
    Also(Vec<String>),
    /// None: the manifest's `images` has what it needs.
    None,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the manifest `{}`", .file.display())]
    Read { file: PathBuf, source: std::io::Error },
    #[error("{}", first(.0))]
    Problems(eggo_yaml::Problems),
    #[error("`{}` is not for {arch}, but for {}", .file.display(), joined(.archs))]
    NotFor { file: PathBuf, arch: Arch, archs: Vec<Arch> },
    #[error("no manifest: neither `bundle.yaml` nor `manifests/default.yaml` is here")]
    NotFound,
}

impl Explain for Error {
    fn notes(&self) -> Vec<String> {
        match self {
            Error::Problems(problems) if problems.list.len() > 1 => {
                let rest = problems.list[1..].to_vec();
                vec![eggo_yaml::Problems { file: problems.file.clone(), list: rest }.to_string()]
            }
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Problems(problems) => problems.list[0].hint.clone(),
            Error::NotFound => {
                Some("`eggo-bundle init` writes one to begin with, or name yours with `-m`".to_string())
            }
            Error::NotFor { .. } => {
                Some("leave it out of `--arch`, or add it to the manifest's `archs`".to_string())
            }
            Error::Read { .. } => None,
        }
    }
}

fn joined(archs: &[Arch]) -> String {
    let names: Vec<&str> = archs.iter().map(|arch| arch.as_str()).collect();
    names.join(" and ")
}

fn first(problems: &eggo_yaml::Problems) -> String {
    let problem = &problems.list[0];
    format!("{}:{}:{}: {}", problems.file, problem.line, problem.column, problem.message)
}

/// Where the manifest is looked for when none is named.
pub const DEFAULTS: [&str; 2] = ["bundle.yaml", "manifests/default.yaml"];

impl Manifest {
    /// Reads `file`, or the first of [`DEFAULTS`] that exists.
    pub fn load(file: Option<&Path>) -> Result<Self, Error> {
        let file = match file {
            Some(file) => file,
            None => {
                let mut candidates = DEFAULTS.iter().map(Path::new);
                candidates.find(|candidate| candidate.exists()).ok_or(Error::NotFound)?
            }
        };
        let bytes = std::fs::read(file).map_err(|source| Error::Read { file: file.into(), source })?;
        Self::parse(file, &bytes)
    }

    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Self, Error> {
        parse::parse(file, bytes).map_err(Error::Problems)
    }

    /// Those of its archs that `chosen` names; all of them where nobody chose.
    pub fn choose(&self, chosen: Option<Vec<Arch>>) -> Result<Vec<Arch>, Error> {
        let Some(chosen) = chosen else { return Ok(self.archs.clone()) };
        match chosen.iter().find(|arch| !self.archs.contains(arch)) {
            Some(&arch) => Err(Error::NotFor { file: self.file.clone(), arch, archs: self.archs.clone() }),
            None => Ok(chosen),
        }
    }

    /// Paths in the manifest are relative to the manifest.
    pub fn resolve(&self, path: &str) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    /// A file or folder that goes into the bundle, or decides what does: links must not lead
    /// further than what the manifest says itself.
    pub fn local(&self, path: &str) -> std::io::Result<PathBuf> {
        let base = self.file.parent().unwrap_or(Path::new(""));
        Ok(crate::beneath::resolve(base, Path::new(path))?)
    }

    /// `M.lock` beside `M.yaml`.
    pub fn lock_file(&self) -> PathBuf {
        self.file.with_extension("lock")
    }

    /// `manifests/k8s.yaml` line 14: for the chain of who asked.
    pub fn place(&self, line: usize) -> String {
        format!("`{}` line {line}", self.file.display())
    }
}

impl Repo {
    pub fn serves(&self, arch: Arch) -> bool {
        self.archs.is_empty() || self.archs.contains(&arch)
    }
}

impl Checksums {
    pub fn get(&self, arch: Arch) -> Option<Digest> {
        match self {
            Checksums::Unknown => None,
            Checksums::Same(digest) => Some(*digest),
            Checksums::PerArch(list) => list.iter().find(|(a, _)| *a == arch).map(|(_, digest)| *digest),
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.relation, self.version)
    }
}

impl fmt::Display for PackageRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match &self.constraint {
            Some(constraint) => write!(f, " {constraint}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
