//! Container images: from the names in a manifest to blobs in the cache and items in a bundle.
//!
//! [`lock`] asks registries (or opens local archives) and records digests; [`fetch`] brings
//! everything locked into the cache; [`contents`] says, without I/O, what a bundle then holds.
//! Layers stay as the registry served them. Loading images into a runtime is the installer's
//! work, the format of the layout is `eggo_bundles::layout`'s.

mod challenge;
mod contents;
mod credentials;
mod documents;
mod error;
mod local;
mod pull;
mod push;
mod reference;
mod registries;
mod registry;
mod resolve;

pub use contents::{Contents, contents};
pub use credentials::{Credential, Credentials};
pub use error::Error;
pub use push::{Artifact, ArtifactFile, Pushed, push};
pub use reference::{BadReference, Reference};
pub use registries::Registries;

use crate::http::{HeaderMap, HeaderName, HeaderValue};
use crate::lock::{Blob, LockedImage};
use crate::{Tools, beneath, cache};
use eggo_bundles::{Arch, Digest, Role};
use eggo_terminal::Count;
use futures::stream::{self, StreamExt, TryStreamExt};
use local::Local;
use pull::Servers;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Requests in flight: enough to hide a registry's latency, few enough not to be throttled.
const AT_ONCE: usize = 6;

/// An image that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub reference: Reference,
    /// For each arch the local archive or layout to take it from, relative to the manifest.
    /// Empty: from its registry.
    pub from: BTreeMap<Arch, String>,
    pub roles: Vec<Role>,
    /// For which archs, if the bundle has them.
    pub archs: Vec<Arch>,
    /// As in [`LockedImage::required_by`].
    pub required_by: Vec<String>,
    /// Where the text is that looks like an image, if nothing says that it is one: it is left out if there is no
    /// such image.
    pub guess: Option<String>,
}

impl Wanted {
    /// From its registry, for every arch.
    pub fn new(reference: Reference, roles: Vec<Role>, required_by: String) -> Self {
        let (archs, required_by) = (Arch::ALL.to_vec(), vec![required_by]);
        Self { reference, from: BTreeMap::new(), roles, archs, required_by, guess: None }
    }

    fn archs_of<'a>(&'a self, archs: &'a [Arch]) -> impl Iterator<Item = Arch> + 'a {
        archs.iter().copied().filter(|arch| self.archs.contains(arch))
    }
}

/// Decides on a manifest for every image and arch, and records what it is made of.
///
/// `folder` is the manifest's, for local archives. The same image wanted twice is locked
/// once, for the union of roles and archs.
pub async fn lock(
    wanted: &[Wanted],
    archs: &[Arch],
    registries: &Registries,
    folder: &Path,
    tools: Tools<'_>,
) -> Result<Vec<LockedImage>, Error> {
    let servers = Servers::new(tools.http, registries);
    let wanted = merged(wanted);
    let (local, remote): (Vec<_>, Vec<_>) = wanted.iter().partition(|wanted| !wanted.from.is_empty());
    let work = remote.into_iter().map(|wanted| lock_remote(wanted, archs, &servers, tools));
    let mut locked: Vec<LockedImage> = stream::iter(work).buffered(AT_ONCE).try_concat().await?;
    let mut opened: BTreeMap<&str, Local<'_>> = BTreeMap::new();
    for wanted in local {
        for arch in wanted.archs_of(archs) {
            let Some(from) = wanted.from.get(&arch) else { continue };
            let local = match opened.entry(from) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(Local::open(&place(folder, from)?, tools)?)
                }
            };
            locked.push(lock_local(wanted, arch, from, local).await?);
        }
    }
    locked.sort_by(|a, b| (&a.name, a.arch).cmp(&(&b.name, b.arch)));
    Ok(locked)
}

/// Brings everything that the locked images are made of into the cache.
pub async fn fetch(
    locked: &[LockedImage],
    registries: &Registries,
    folder: &Path,
    tools: Tools<'_>,
) -> Result<(), Error> {
    let servers = Servers::new(tools.http, registries);
    let mut seen: HashSet<Digest> = HashSet::new();
    let mut work = Vec::new();
    for image in locked {
        let missing = |blob: &Blob| !tools.cache.contains(&blob.sha256, blob.size);
        let blobs: Vec<Blob> =
            image.blobs().filter(|blob| missing(blob) && seen.insert(blob.sha256)).collect();
        match &image.from {
            _ if blobs.is_empty() => {}
            Some(from) => fetch_local(image, &blobs, &place(folder, from)?, tools)?,
            None => work.extend(blobs.into_iter().map(|blob| (image, blob))),
        }
    }
    // The largest first, so that none is left alone at the end.
    work.sort_by_key(|(_, blob)| std::cmp::Reverse(blob.size));
    let (servers, failed) = (&servers, &AtomicBool::new(false));
    let downloads = stream::iter(work).map(|(image, blob)| async move {
        if failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let reference: Reference = image.name.parse()?;
        let result = servers.repository(&reference, tools.cache)?.fetch(&blob, tools.progress).await;
        failed.fetch_or(result.is_err(), Ordering::Relaxed);
        result
    });
    // After a failure nothing new begins, but what is under way is brought home: the next run
    // need not fetch it again.
    let results: Vec<Result<(), Error>> = downloads.buffer_unordered(AT_ONCE).collect().await;
    results.into_iter().collect()
}

/// Where the manifest says that an archive is.
fn place(folder: &Path, from: &str) -> Result<PathBuf, Error> {
    let refused = |source| Error::Place { path: folder.join(from), source };
    beneath::resolve(folder, Path::new(from)).map_err(refused)
}

/// Locks every image of local archives under the name it has there; all of them are then in
/// the cache.
pub async fn lock_archives(
    paths: &[PathBuf],
    arch: Arch,
    tools: Tools<'_>,
) -> Result<Vec<LockedImage>, Error> {
    let mut locked = Vec::new();
    for path in paths {
        let local = Local::open(path, tools)?;
        if let unnamed @ 1.. = local.unnamed() {
            let things = Count(unnamed, "image without a full name is", "images without a full name are");
            tools.progress.note(&format!("warning: `{}`: {things} left out", path.display()));
        }
        for reference in local.names() {
            let wanted = Wanted::new(reference, Vec::new(), "manifest".to_string());
            locked.push(lock_local(&wanted, arch, &path.display().to_string(), &local).await?);
        }
    }
    Ok(locked)
}

/// The images of every arch; of a guess, those that exist.
async fn lock_remote(
    wanted: &Wanted,
    archs: &[Arch],
    servers: &Servers<'_>,
    tools: Tools<'_>,
) -> Result<Vec<LockedImage>, Error> {
    let mut locked = Vec::new();
    if wanted.archs_of(archs).next().is_none() {
        return Ok(locked);
    }
    let guessed_wrong = |error: Error| match &wanted.guess {
        Some(place) if error.is_absent() => {
            tools.progress.note(&format!("warning: {error}: `{place}` only looks like one, and is left out"));
            Ok(())
        }
        _ => Err(error),
    };
    let name = wanted.reference.to_string();
    let repository = servers.repository(&wanted.reference, tools.cache)?;
    let root = match repository.root(&wanted.reference).await {
        Ok(root) => root,
        Err(error) => return guessed_wrong(error).map(|()| locked),
    };
    let leaves = resolve::leaves(&name, vec![root], &repository).await?;
    for arch in wanted.archs_of(archs) {
        match resolve::choose(&name, &leaves, arch) {
            Ok(leaf) => {
                let resolved = resolve::describe(&name, leaf, arch, &repository).await?;
                locked.push(locked_image(wanted, arch, None, resolved));
            }
            Err(error) => guessed_wrong(error)?,
        }
    }
    Ok(locked)
}

async fn lock_local(
    wanted: &Wanted,
    arch: Arch,
    from: &str,
    local: &Local<'_>,
) -> Result<LockedImage, Error> {
    let name = wanted.reference.to_string();
    let leaves = resolve::leaves(&name, local.roots(&wanted.reference)?, local).await?;
    let leaf = resolve::choose(&name, &leaves, arch)?;
    let resolved = resolve::describe(&name, leaf, arch, local).await?;
    let locked = locked_image(wanted, arch, Some(from.to_string()), resolved);
    for blob in locked.blobs() {
        local.fetch(&blob)?;
    }
    Ok(locked)
}

fn fetch_local(image: &LockedImage, blobs: &[Blob], path: &Path, tools: Tools<'_>) -> Result<(), Error> {
    let local = Local::open(path, tools)?;
    for blob in blobs {
        match local.fetch(blob) {
            Ok(()) if tools.cache.contains(&blob.sha256, blob.size) => {}
            // Our own disk, or one that cannot be read: that says nothing of what is in it.
            Err(Error::Cache(cache::Error::Content { source })) => {
                let reason = format!("it cannot be read to its end: {source}");
                return Err(Error::Local { path: path.into(), reason });
            }
            Err(
                error @ (Error::Place { .. }
                | Error::Cache(cache::Error::Write { .. } | cache::Error::Read { .. })),
            ) => return Err(error),
            _ => {
                let (image, arch) = (image.name.clone(), image.arch);
                return Err(Error::Changed { path: path.into(), image, arch });
            }
        }
    }
    Ok(())
}

fn locked_image(
    wanted: &Wanted,
    arch: Arch,
    from: Option<String>,
    resolved: resolve::Resolved,
) -> LockedImage {
    let resolve::Resolved { manifest, config, layers } = resolved;
    LockedImage {
        name: wanted.reference.to_string(),
        arch,
        manifest: manifest.sha256,
        media_type: manifest.media_type,
        size: manifest.size,
        config,
        layers,
        roles: wanted.roles.clone(),
        from,
        required_by: wanted.required_by.clone(),
    }
}

/// Each image once. An image that anyone wants everywhere (no roles) is wanted everywhere.
fn merged(wanted: &[Wanted]) -> Vec<Wanted> {
    let mut by_name: BTreeMap<&Reference, Wanted> = BTreeMap::new();
    for one in wanted {
        let Some(known) = by_name.get_mut(&one.reference) else {
            by_name.insert(&one.reference, one.clone());
            continue;
        };
        if known.roles.is_empty() || one.roles.is_empty() {
            known.roles.clear();
        } else {
            known.roles.extend(&one.roles);
        }
        known.roles.sort();
        known.roles.dedup();
        known.archs.extend(&one.archs);
        known.archs.sort();
        known.archs.dedup();
        // What one addon's text hints at, another one's pod may need.
        if one.guess.is_none() {
            known.guess = None;
        }
        known.required_by.extend(one.required_by.iter().cloned());
        known.required_by.sort();
        known.required_by.dedup();
        if known.from.is_empty() {
            known.from = one.from.clone();
        }
    }
    by_name.into_values().collect()
}

/// What a registry may answer: lines of headers, an empty line, a document. For fuzzing.
pub(crate) fn foreign_answer(bytes: &[u8]) {
    let end = bytes.windows(2).position(|two| two == b"\n\n").unwrap_or(bytes.len());
    let (head, body) = bytes.split_at(end);
    let body = body.get(2..).unwrap_or_default();
    let mut headers = HeaderMap::new();
    for line in head.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&line[colon + 1..])) {
            headers.append(name, value);
        }
    }
    let _ = challenge::parse(&headers);
    crate::http::foreign_headers(&headers);
    let content_type = headers.get("content-type").and_then(|value| value.to_str().ok());
    let _ = documents::Document::parse(body, content_type);
    let _ = documents::Config::parse(body).map(|config| config.check_layers(1));
    let _ = String::from_utf8_lossy(body).parse::<Reference>();
}
