//! OS packages: from a manifest's names to the exact files that make them work on a target.
//!
//! Each format parses its repositories and lowers them to the one [`provider`] interface; one
//! [`solver`] decides over it. Nothing here needs root or the target OS's tools.

pub mod baseline;
pub mod deb;
pub mod decide;
pub mod history;
pub mod openpgp;
pub mod pattern;
pub mod proof;
pub mod provider;
pub mod rpm;
pub mod solver;
pub mod sound;
pub mod users;

pub use eggo_bundles::version;

use crate::Tools;
use crate::http::Route;
use crate::manifest::{self, Manifest, RepoSource};
use baseline::{BadBaseline, Installed};
use decide::{Locked, Scope};
use eggo_bundles::Arch;
use eggo_terminal::Explain;
use history::History;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Deb(#[from] deb::repository::Error),
    #[error(transparent)]
    Rpm(#[from] rpm::repository::Error),
    #[error("{reason} on {arch}")]
    Unsolvable { arch: Arch, reason: Box<solver::Unsolvable> },
    #[error("no repo has `{name}`")]
    Nowhere { name: String, asked_by: String, near: Option<String> },
    #[error("baseline `{}`", .file.display())]
    ReadBaseline { file: PathBuf, source: io::Error },
    #[error("baseline `{}`: {reason}", .file.display())]
    BadBaseline { file: PathBuf, reason: BadBaseline },
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

impl Explain for Error {
    fn notes(&self) -> Vec<String> {
        match self {
            Error::Deb(error) => error.notes(),
            Error::Rpm(error) => error.notes(),
            Error::Unsolvable { reason, .. } => reason.notes(),
            Error::Nowhere { asked_by, .. } => vec![format!("asked for by {asked_by}")],
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Deb(error) => error.hint(),
            Error::Rpm(error) => error.hint(),
            Error::Unsolvable { reason, .. } => reason.hint(),
            Error::Nowhere { near, .. } => near.as_ref().map(|near| format!("did you mean `{near}`?")),
            Error::ReadBaseline { .. } | Error::BadBaseline { .. } => Some(
                "capture one on a node: `eggo-install facts NODE -f deploy.yaml --baseline > FILE`"
                    .to_string(),
            ),
            _ => None,
        }
    }
}

/// Resolves every package that the manifest asks for, for each of `archs`.
///
/// `history` is what the lock that there was before knows of the repositories.
pub async fn lock(
    manifest: &Manifest,
    archs: &[Arch],
    history: &History,
    tools: Tools<'_>,
) -> Result<Locked, Error> {
    if manifest.packages.is_empty() {
        return Ok(Locked::default());
    }
    let is_deb = |source: &RepoSource| matches!(source, RepoSource::DebSystem | RepoSource::Deb { .. });
    let has_deb = manifest.repos.iter().any(|repo| is_deb(&repo.source));
    let has_rpm = manifest.repos.iter().any(|repo| !is_deb(&repo.source));
    let scope = if has_deb && has_rpm { Scope::Known } else { Scope::All };
    let mut formats = Vec::new();
    if has_deb {
        formats.push(deb::lock(manifest, archs, scope, history, tools).await?);
    }
    if has_rpm {
        formats.push(rpm::lock(manifest, archs, scope, history, tools).await?);
    }
    let nowhere = formats.iter().map(|locked| locked.unknown.clone()).reduce(|l, r| &l & &r);
    if let Some((name, asked_by)) = nowhere.unwrap_or_default().pop_first() {
        let near = formats.iter().find_map(|locked| locked.near.get(&name).cloned());
        return Err(Error::Nowhere { name, asked_by, near });
    }
    let mut locked = Locked::default();
    formats.into_iter().for_each(|format| locked.extend(format));
    Ok(locked)
}

/// How the machine itself reaches the repositories that a manifest takes from it.
pub fn routes(manifest: &Manifest) -> Result<Vec<Route>, Error> {
    let takes = manifest.repos.iter().any(|repo| repo.source == RepoSource::DebSystem);
    if !takes {
        return Ok(Vec::new());
    }
    deb::system::System::default().routes().map_err(|error| deb::repository::Error::from(error).into())
}

/// The captured baseline for an arch, where the manifest names a file.
fn read_baseline(manifest: &Manifest, arch: Arch) -> Result<Option<Vec<Installed>>, Error> {
    let manifest::Baseline::File(template) = &manifest.baseline else { return Ok(None) };
    let written = template.expand(&manifest.name, &manifest.version, arch);
    let file = manifest.resolve(&written);
    let text = manifest
        .local(&written)
        .and_then(std::fs::read_to_string)
        .map_err(|source| Error::ReadBaseline { file: file.clone(), source })?;
    baseline::parse(&text).map(Some).map_err(|reason| Error::BadBaseline { file, reason })
}

/// Runs what keeps a core busy where it holds up nobody else.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("reading metadata does not panic")
}
