//! What is proven of packages after they were fetched: that each file is what the metadata
//! said, and that a bundle's packages need nothing but each other and the baseline.

use super::solver::Unsolvable;
use super::sound::{self, Unsound};
use super::{deb, rpm};
use crate::cache::{self, Cache};
use crate::lock::LockedPackage;
use eggo_bundles::content::deb::Deb;
use eggo_bundles::content::rpm::Rpm;
use eggo_bundles::content::{self, Problem};
use eggo_bundles::index::PackageFormat;
use eggo_bundles::{Arch, Bundle, Kind, Readable};
use eggo_terminal::{Exit, Explain};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{file}`")]
    Read { file: String, source: io::Error },
    #[error("`{file}` is not a package: {reason}")]
    NotAPackage { file: String, reason: String },
    #[error("`{file}` says that it is {found}, its metadata that it is {expected}")]
    Differs { file: String, found: String, expected: String },
    #[error(transparent)]
    Cache(#[from] cache::Error),
    #[error(transparent)]
    Bundle(#[from] eggo_bundles::Error),
    #[error("the bundle's packages do not suffice on {arch}: {reason}")]
    Incomplete { arch: Arch, reason: Box<Unsolvable> },
}

impl Explain for Error {
    fn notes(&self) -> Vec<String> {
        match self {
            Error::Incomplete { reason, .. } => reason.notes(),
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Differs { .. } => {
                Some("do not use this repository: its metadata lies about its packages".to_string())
            }
            Error::NotAPackage { .. } => Some(
                "a node would refuse it, too: take another version of it, or another repository".to_string(),
            ),
            Error::Cache(error) => error.hint(),
            Error::Bundle(error) => error.hint(),
            Error::Incomplete { .. } => {
                Some("build the bundle again, with its baseline captured on a target".into())
            }
            Error::Read { .. } => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Bundle(error) if error.is_untrusted() => Exit::Untrusted,
            _ => Exit::User,
        }
    }
}

impl Error {
    /// What is wrong with the bundle itself comes as the error: it says nothing of the packages.
    pub fn into_bundle(self) -> Result<Self, eggo_bundles::Error> {
        match self {
            Error::Bundle(error) => Err(error),
            Error::Read { file, source } => match source.downcast() {
                Ok(error) => Err(error),
                Err(source) => Ok(Error::Read { file, source }),
            },
            other => Ok(other),
        }
    }
}

/// What a package file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Header {
    name: String,
    version: String,
    architecture: String,
}

impl std::fmt::Display for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{} {}` for {}", self.name, self.version, self.architecture)
    }
}

/// Whether the fetched file is the package that the lock speaks of, and in order.
pub async fn examine(package: &LockedPackage, cache: &Cache) -> Result<(), Error> {
    agree(package, &cache.path(&package.sha256))?;
    let (file, sha256, cache) = (file_name(package), package.sha256, cache.clone());
    let named = file.clone();
    super::blocking(move || sound::check_once(&named, &sha256, &cache)).await.map_err(|unsound| match unsound
    {
        Unsound::Cache(error) => Error::Cache(error),
        Unsound::Problem(problem) => bad(&file, problem),
    })
}

fn file_name(package: &LockedPackage) -> String {
    package.url.rsplit('/').next().unwrap_or(&package.name).to_string()
}

fn bad(file: &str, problem: Problem) -> Error {
    match problem {
        Problem::Io(source) => Error::Read { file: file.to_string(), source },
        Problem::Malformed(reason) => Error::NotAPackage { file: file.to_string(), reason },
    }
}

/// Whether the fetched file is the package that the lock speaks of.
pub fn agree(package: &LockedPackage, path: &Path) -> Result<(), Error> {
    let file = file_name(package);
    let unreadable = |source| Error::Read { file: file.clone(), source };
    let mut reader = BufReader::new(File::open(path).map_err(unreadable)?);
    let found = read(&file, &mut reader)?.header();
    let expected = Header {
        name: package.name.clone(),
        version: without_zero_epoch(&package.version).to_string(),
        architecture: package.architecture.clone(),
    };
    if found != expected {
        let (found, expected) = (found.to_string(), expected.to_string());
        return Err(Error::Differs { file, found, expected });
    }
    Ok(())
}

enum Package {
    Deb(Deb),
    Rpm(Box<Rpm>),
}

impl Package {
    fn header(&self) -> Header {
        let of = |name: &str, version: &str, architecture: &str| Header {
            name: name.to_string(),
            version: without_zero_epoch(version).to_string(),
            architecture: architecture.to_string(),
        };
        match self {
            Package::Deb(deb) => of(deb.name(), deb.version(), deb.architecture()),
            Package::Rpm(rpm) => of(&rpm.name, &rpm.evr(), &rpm.architecture),
        }
    }
}

fn read(file: &str, reader: &mut dyn Read) -> Result<Package, Error> {
    let bad = |problem| bad(file, problem);
    if file.ends_with(".rpm") {
        return content::rpm::read(reader).map(|rpm| Package::Rpm(Box::new(rpm))).map_err(bad);
    }
    content::deb::read(reader).map(Package::Deb).map_err(bad)
}

/// `0:1.2` and `1.2` are the same version.
fn without_zero_epoch(version: &str) -> &str {
    version.strip_prefix("0:").unwrap_or(version)
}

/// What was found out about the packages of one arch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sufficient {
    pub arch: Arch,
    pub packages: usize,
    /// How many packages the baseline was assumed to have.
    pub baseline: usize,
    /// Where no baseline is recorded: the needs that nothing in the bundle meets.
    pub unproven: BTreeSet<String>,
}

/// Solves again, from the headers of the packages inside of the bundle alone plus the baseline
/// that the bundle names: every one must be installable, all of them together.
pub fn check<T: Readable>(bundle: &Bundle<T>) -> Result<Vec<Sufficient>, Error> {
    let index = bundle.index();
    let mut proven = Vec::new();
    for arch in &index.archs {
        let (mut debs, mut rpms) = (Vec::new(), Vec::new());
        for item in index.items.iter().filter(|item| item.kind == Kind::Pkg && item.arch == *arch) {
            let mut reader = bundle.read(item)?;
            let package = read(&item.path, &mut reader)?;
            let found = package.header();
            if found.name != item.name || found.version != without_zero_epoch(&item.version) {
                return Err(Error::Differs {
                    file: item.path.clone(),
                    found: found.to_string(),
                    expected: format!("`{} {}`", item.name, item.version),
                });
            }
            match package {
                Package::Deb(deb) => debs.push(deb),
                Package::Rpm(rpm) => rpms.push(*rpm),
            }
        }
        // A manifest with repos of both formats has a baseline for each.
        let baseline_of = |format| {
            index.baselines.iter().find(|baseline| baseline.arch == *arch && baseline.format == format)
        };
        let incomplete = |reason| Error::Incomplete { arch: *arch, reason: Box::new(reason) };
        let (mut assumed, mut unproven) = (0, BTreeSet::new());
        if !debs.is_empty() {
            let baseline = baseline_of(PackageFormat::Deb);
            assumed += baseline.map_or(0, |baseline| baseline.packages.len());
            unproven.extend(deb::suffices(*arch, &debs, baseline).map_err(incomplete)?);
        }
        if !rpms.is_empty() {
            let baseline = baseline_of(PackageFormat::Rpm);
            assumed += baseline.map_or(0, |baseline| baseline.packages.len());
            unproven.extend(rpm::suffices(&rpms, baseline).map_err(incomplete)?);
        }
        let packages = debs.len() + rpms.len();
        proven.push(Sufficient { arch: *arch, packages, baseline: assumed, unproven });
    }
    Ok(proven)
}
