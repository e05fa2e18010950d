//! Everything that can end a build, each in the words of the room it comes from.

use crate::beneath::Problem;
use crate::images::{self, BadReference};
use crate::{addons, archive, cache, files, http, lock, manifest, packages};
use eggo_bundles::Arch;
use eggo_bundles::rules::BadIndex;
use eggo_bundles::{WriteError, keys::KeyError};
use eggo_terminal::{Exit, Explain};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    #[error(transparent)]
    Lock(#[from] lock::Error),
    #[error("the lock `{}` is stale", .file.display())]
    Stale { file: PathBuf, staleness: Vec<String> },
    #[error(transparent)]
    Files(#[from] files::Error),
    #[error(transparent)]
    Packages(#[from] packages::Error),
    #[error(transparent)]
    Proof(#[from] packages::proof::Error),
    #[error(transparent)]
    RpmProof(#[from] packages::rpm::proof::Error),
    #[error(transparent)]
    Images(#[from] images::Error),
    #[error(transparent)]
    Addons(#[from] addons::Error),
    #[error("{source}")]
    Image { source: BadReference, place: String },
    #[error("cannot read the addon `{}`", .path.display())]
    ReadAddon { path: PathBuf, source: std::io::Error },
    #[error("addon `{name}` changed since it was locked, at `{from}`")]
    AddonChanged { name: String, from: String },
    /// Who wanted what failed.
    #[error("{inner}")]
    Asked {
        #[source]
        inner: Box<Error>,
        what: String,
        place: String,
    },
    #[error(transparent)]
    Archive(#[from] archive::Error),
    #[error("nothing in `{}` says which arch it is for", .path.display())]
    UnknownArch { path: PathBuf },
    #[error("`{}` is a second tarball for {arch}", .path.display())]
    TwiceArch { path: PathBuf, arch: Arch },
    #[error(transparent)]
    Http(#[from] http::Error),
    #[error(transparent)]
    Cache(#[from] cache::Error),
    #[error("the bundle would not be sound: {0}")]
    Index(#[from] BadIndex),
    #[error(transparent)]
    Write(WriteError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Bundle(#[from] eggo_bundles::Error),
    #[error("package `{file}` is not what it should be: {reason}")]
    BadPackage { file: String, reason: String },
    #[error("cannot write `{}`", .path.display())]
    Release { path: PathBuf, source: std::io::Error },
}

impl Error {
    /// Of a file of a release or an export that could not be written; for `map_err`. What is wrong
    /// with the bundle it is made from is reported as such.
    pub fn unwritten(path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |error| match error.downcast() {
            Ok(bundle) => Error::Bundle(bundle),
            Err(source) => Error::Release { path, source },
        }
    }
}

impl From<WriteError> for Error {
    /// What is wrong with the bundle that content is taken from is reported as such.
    fn from(error: WriteError) -> Self {
        let WriteError::Content { path, file, source } = error else { return Error::Write(error) };
        match source.downcast() {
            Ok(bundle) => Error::Bundle(bundle),
            Err(source) => Error::Write(WriteError::Content { path, file, source }),
        }
    }
}

impl Explain for Error {
    fn notes(&self) -> Vec<String> {
        match self {
            Error::Manifest(error) => error.notes(),
            Error::Lock(error) => error.notes(),
            Error::Stale { staleness, .. } => staleness.clone(),
            Error::Files(error) => error.notes(),
            Error::Packages(error) => error.notes(),
            Error::Proof(error) => error.notes(),
            Error::RpmProof(error) => error.notes(),
            Error::Images(error) => error.notes(),
            Error::Addons(error) => error.notes(),
            Error::Image { place, .. } => vec![format!("required by {place}")],
            Error::Asked { inner, what, place } => {
                let mut notes = vec![format!("required as {what} by {place}")];
                notes.extend(inner.notes());
                notes
            }
            Error::Archive(error) => error.notes(),
            Error::Http(error) => error.notes(),
            Error::Cache(error) => error.notes(),
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Manifest(error) => error.hint(),
            Error::Lock(error) => error.hint(),
            Error::Stale { .. } => {
                Some("run `eggo-bundle lock`, look at what changed, and build again".to_string())
            }
            Error::Files(error) => error.hint(),
            Error::Packages(error) => error.hint(),
            Error::Proof(error) => error.hint(),
            Error::RpmProof(error) => error.hint(),
            Error::Images(error) => error.hint(),
            Error::Addons(error) => error.hint(),
            Error::Image { source, .. } => source.hint(),
            Error::ReadAddon { source, .. } => {
                Some(Problem::hint_in(source).unwrap_or("paths are relative to the manifest".to_string()))
            }
            Error::AddonChanged { .. } => Some("run `eggo-bundle lock` to record it again".to_string()),
            Error::Asked { inner, .. } => inner.hint(),
            Error::Archive(error) => error.hint(),
            Error::UnknownArch { .. } => Some("name the arch: `arm64=FILE`".to_string()),
            Error::TwiceArch { .. } => Some("give one tarball for each arch".to_string()),
            Error::Http(error) => error.hint(),
            Error::Cache(error) => error.hint(),
            Error::Index(error) => error.hint(),
            Error::Write(error) => error.hint(),
            Error::Key(error) => error.hint(),
            Error::Bundle(error) => error.hint(),
            Error::Release { path, source } => eggo_bundles::output::hint(path, source),
            Error::BadPackage { .. } => {
                Some("a node would refuse it, too: leave it out of the tarball, or get it again".to_string())
            }
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Bundle(error) if error.is_untrusted() => Exit::Untrusted,
            Error::Asked { inner, .. } => inner.exit(),
            _ => Exit::User,
        }
    }
}
