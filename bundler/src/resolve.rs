//! From a manifest to its lock: kept if it is fresh, made again where that is asked for.

use crate::error::Error;
use crate::lock::{self, Lock};
use crate::manifest::{Checksums, From, Manifest};
use crate::packages::history::History;
use crate::{Tools, files, images, packages, wanted};
use eggo_bundles::{Arch, Kind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Decide again, and write the lock.
    Update,
    /// Decide again, and leave the lock as it is.
    DryRun,
    /// Keep a fresh lock; decide again if there is none or it is stale.
    Reuse,
    /// Keep the lock; a stale one is an error.
    Locked,
}

/// A lock, and how it came about.
#[derive(Debug, Clone)]
pub struct Decided {
    pub lock: Lock,
    /// What was in the file before, where the lock was made again.
    pub before: Option<Lock>,
    pub origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Kept,
    Made,
}

/// The lock for `manifest`, with at least `archs` in it. `accepted` are the repositories that may have lost their
/// signature, or be older than in the lock.
pub async fn lock(
    manifest: &Manifest,
    archs: &[Arch],
    mode: LockMode,
    accepted: &[String],
    tools: Tools<'_>,
) -> Result<Decided, Error> {
    let file = manifest.lock_file();
    let before = match (Lock::load(&file), mode) {
        (Ok(before), _) => before,
        // A lock that cannot be read is no reason not to make a new one.
        (Err(error @ lock::Error::Parse { .. }), LockMode::Update | LockMode::DryRun) => {
            tools.progress.note(&format!("warning: {error}"));
            None
        }
        (Err(error), _) => return Err(error.into()),
    };
    if matches!(mode, LockMode::Reuse | LockMode::Locked) {
        let staleness = match &before {
            Some(before) => before.staleness(manifest, archs),
            None => vec![format!("`{}` does not exist", file.display())],
        };
        match before {
            Some(lock) if staleness.is_empty() => {
                return Ok(Decided { lock, before: None, origin: Origin::Kept });
            }
            _ if mode == LockMode::Locked => return Err(Error::Stale { file, staleness }),
            Some(_) => tools.progress.note(&format!("`{}` is stale: locking again", file.display())),
            None => {}
        }
    }
    let archs = &with_pinned(archs, manifest, before.as_ref());
    if mode != LockMode::DryRun {
        Lock::check_place(&file)?;
    }
    let history = History::new(before.as_ref(), accepted);
    let lock = decide(manifest, archs, &history, tools).await?;
    if mode != LockMode::DryRun {
        lock.save(&file)?;
    }
    let decided = Decided { lock, before, origin: Origin::Made };
    let unknown = unknown_checksums(manifest, archs, &decided);
    if !unknown.is_empty() {
        let records = if mode == LockMode::DryRun { "would record" } else { "records" };
        tools.progress.note(&format!(
            "note: no sha256 in the manifest for {}: `{}` {records} what was fetched now",
            unknown.join(", "),
            file.display()
        ));
    }
    Ok(decided)
}

/// A lock that is made again for some archs has the others still, if it had them and the manifest does.
fn with_pinned(archs: &[Arch], manifest: &Manifest, before: Option<&Lock>) -> Vec<Arch> {
    let pinned = |arch: &&Arch| before.is_some_and(|before| before.archs.contains(arch));
    let also = manifest.archs.iter().filter(|arch| !archs.contains(arch)).filter(pinned);
    let mut all: Vec<Arch> = archs.iter().chain(also).copied().collect();
    all.sort();
    all
}

/// Asks every room what the manifest's words lead to.
async fn decide(
    manifest: &Manifest,
    archs: &[Arch],
    history: &History,
    tools: Tools<'_>,
) -> Result<Lock, Error> {
    let packages::decide::Locked { packages, baselines, repos, .. } =
        packages::lock(manifest, archs, history, tools).await?;
    let locked_files = files::lock(manifest, archs, tools).await?;
    let (mut addons, mut wanted_images) = wanted::addons(manifest, tools).await?;
    let named = wanted::named(manifest, archs)?;
    wanted::limit(&mut wanted_images, &named);
    wanted_images.extend(named);
    let registries = wanted::registries(manifest);
    let images = images::lock(&wanted_images, archs, &registries, &manifest.resolve(""), tools)
        .await
        .map_err(|error| wanted::asked(manifest, &wanted_images, error))?;
    wanted::settle(&mut addons, &wanted_images, &images);
    let (binaries, files) = locked_files.into_iter().partition(|file| file.kind == Kind::Bin);
    let mut lock = Lock {
        lock: lock::VERSION,
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        archs: archs.to_vec(),
        asked: lock::asked(manifest),
        baselines,
        repos,
        packages,
        binaries,
        files,
        images,
        addons,
    };
    lock.sort();
    Ok(lock)
}

/// Without a checksum the first download is trusted: that must not go unsaid. One that is as the lock
/// of before has it was told then.
fn unknown_checksums(manifest: &Manifest, archs: &[Arch], decided: &Decided) -> Vec<String> {
    let digest = |lock: &Lock, name: &str, arch: Arch| {
        lock.all_files().find(|file| file.name == name && file.arch == arch).and_then(|file| file.sha256)
    };
    let is_new = |name: &str, arch: Arch| {
        let before = decided.before.as_ref().and_then(|before| digest(before, name, arch));
        before.is_none() || before != digest(&decided.lock, name, arch)
    };
    let mut unknown = Vec::new();
    for request in manifest.files.iter().filter(|request| matches!(request.from, From::Urls(_))) {
        let lacks = |arch: &&Arch| {
            request.archs.contains(arch)
                && !matches!(request.checksums, Checksums::Same(_))
                && request.checksums.get(**arch).is_none()
                && is_new(&request.name, **arch)
        };
        let archs: Vec<&str> = archs.iter().filter(lacks).map(|arch| arch.as_str()).collect();
        if !archs.is_empty() {
            unknown.push(format!("`{}` for {}", request.name, archs.join(" and ")));
        }
    }
    unknown
}
