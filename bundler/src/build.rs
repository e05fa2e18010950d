//! The build: manifest → lock → fetch → index → seal → write.

use crate::Tools;
use crate::error::Error;
use crate::fetch::fetch;
use crate::index::{Planned, index};
use crate::manifest::Manifest;
use crate::resolve::{self, Decided, LockMode};
use crate::{files, images};
use eggo_bundles::output::check_place;
use eggo_bundles::sbom::Created;
use eggo_bundles::{Arch, Bundle, Index, SecretKey, Verified, WriteError, Written};
use eggo_bundles::{seal_created, write};
use std::path::PathBuf;

pub struct Options {
    pub manifest: Option<PathBuf>,
    /// `None`: those of the manifest.
    pub archs: Option<Vec<Arch>>,
    pub lock: LockMode,
    /// Repositories that may have lost their signature, or be older than in the lock.
    pub accepted: Vec<String>,
    /// `None`: `NAME-VERSION.tar.gz` here.
    pub out: Option<PathBuf>,
    /// The parent of the delta to build.
    pub base: Option<Bundle<Verified>>,
    /// What the bill of materials says.
    pub created: Created,
    pub key: SecretKey,
}

#[derive(Debug)]
pub struct Built {
    pub out: PathBuf,
    pub written: Written,
    pub decided: Decided,
    pub archs: Vec<Arch>,
    pub index: Index,
}

/// How many corrupted files of the cache are replaced before the disk itself is to blame.
const MAX_MENDED: usize = 64;

/// Builds a bundle. Content that turns out to be corrupted in the cache is fetched again; what
/// changed on this machine since it was locked is locked again, unless the lock must stay.
pub async fn build(options: &Options, tools: Tools<'_>) -> Result<Built, Error> {
    let mut mode = options.lock;
    for _ in 0..MAX_MENDED {
        match once(options, mode, tools).await {
            Err(error) => match another_chance(&error, mode, tools)? {
                Some(next) => mode = next,
                None => return Err(error),
            },
            built => return built,
        }
    }
    once(options, mode, tools).await
}

async fn once(options: &Options, mode: LockMode, tools: Tools<'_>) -> Result<Built, Error> {
    let manifest = Manifest::load(options.manifest.as_deref())?;
    let archs = manifest.choose(options.archs.clone())?;

    let out = options.out.clone().unwrap_or_else(|| default_out(&manifest));
    check_place(&out).map_err(|source| WriteError::Output { path: out.clone(), source })?;

    let decided = resolve::lock(&manifest, &archs, mode, &options.accepted, tools).await?;
    let lock = decided.lock.clone().only(&archs);
    let sources = fetch(&manifest, &lock, tools).await?;
    let Planned { index, generated } = index(&lock, &sources.signers)?;
    let mut sealed = seal_created(index, options.created, &options.key)?;
    if let Some(base) = &options.base {
        sealed = sealed.delta_from(base.index(), &options.key)?;
    }
    let written = write(&out, &sealed, &sources.with(generated), tools.progress)?;
    Ok(Built { out, written, decided, archs, index: sealed.index().clone() })
}

/// How the next attempt treats the lock, if one makes sense.
fn another_chance(error: &Error, mode: LockMode, tools: Tools<'_>) -> Result<Option<LockMode>, Error> {
    let changed = match error {
        Error::Write(
            WriteError::Changed { file: Some(file), .. }
            | WriteError::Size { file: Some(file), .. }
            | WriteError::Content { file: Some(file), .. },
        ) => {
            if tools.cache.discard_file(file)? {
                tools.progress.note("the cache was corrupted: fetching again what is needed");
                return Ok(Some(mode));
            }
            file.display().to_string()
        }
        Error::Files(files::Error::Changed { from, .. }) | Error::AddonChanged { from, .. } => from.clone(),
        Error::Images(images::Error::Changed { path, .. }) => path.display().to_string(),
        _ => return Ok(None),
    };
    // Locked again once already, and changed again: somebody is writing to it.
    if matches!(mode, LockMode::Locked | LockMode::Update) {
        return Ok(None);
    }
    tools.progress.note(&format!("`{changed}` changed since it was locked: locking it again"));
    Ok(Some(LockMode::Update))
}

fn default_out(manifest: &Manifest) -> PathBuf {
    PathBuf::from(format!("{}-{}.tar.gz", manifest.name, manifest.version))
}
