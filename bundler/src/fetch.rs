//! From a lock to content within reach: in the cache, or where it is on this machine.

use crate::error::Error;
use crate::files::{self, Local};
use crate::http::{self, Download};
use crate::lock::{Lock, LockedPackage};
use crate::manifest::Manifest;
use crate::packages::{proof, rpm, users::Users};
use crate::{Tools, cache::Cache, images, wanted};
use eggo_bundles::{Content, Digest, Item, Store};
use futures::stream::{self, StreamExt, TryStreamExt};
use std::collections::HashMap;
use std::io;

const AT_ONCE: usize = 6;

/// Where the content of every item is. It is hashed when it is packed, not before.
pub struct Sources<'a> {
    cache: &'a Cache,
    local: Local,
    /// Small files that were made from the lock.
    generated: HashMap<Digest, Vec<u8>>,
    /// Who signed the packages that no signed metadata vouches for, by the file's digest.
    pub signers: HashMap<Digest, String>,
}

/// Fetches what the lock records and the cache lacks.
pub async fn fetch<'a>(manifest: &Manifest, lock: &Lock, tools: Tools<'a>) -> Result<Sources<'a>, Error> {
    let locked: Vec<_> = lock.all_files().cloned().collect();
    let local = files::fetch(manifest, &locked, tools).await?;
    packages(manifest, &lock.packages, tools).await?;
    let signers = rpm::proof::prove(manifest, &lock.packages, tools).await?;
    let registries = wanted::registries(manifest);
    images::fetch(&lock.images, &registries, &manifest.resolve(""), tools).await?;
    for addon in &lock.addons {
        wanted::fetch_addon(manifest, addon, tools).await?;
    }
    Ok(Sources { cache: tools.cache, local, generated: HashMap::new(), signers })
}

async fn packages(manifest: &Manifest, locked: &[LockedPackage], tools: Tools<'_>) -> Result<(), Error> {
    let users = &Users::of(manifest);
    // A package of every arch is locked once for each of ours, and fetched once.
    let mut seen = std::collections::HashSet::new();
    let wanted = locked.iter().filter(|package| seen.insert(package.sha256));
    let work = wanted.map(|package| async move {
        let urls = std::iter::once(&package.url).chain(&package.mirrors);
        let urls = urls.map(|text| http::url(&users.add_to(text))).collect::<Result<Vec<_>, _>>()?;
        let label = format!("{} {}", package.name, package.architecture);
        let download = Download::new(label, urls).expect(Some(package.sha256), Some(package.size));
        tools.http.ensure(&download, tools.cache, tools.progress).await?;
        if proof::examine(package, tools.cache).await.is_err() {
            // A damaged file in the cache looks the same: only an intact one is to blame.
            tools.http.download(&download, tools.cache, tools.progress).await?;
            proof::examine(package, tools.cache).await?;
        }
        Ok(())
    });
    stream::iter(work).buffer_unordered(AT_ONCE).try_collect().await
}

impl<'a> Sources<'a> {
    /// And these, which were made from the lock.
    pub fn with(self, generated: HashMap<Digest, Vec<u8>>) -> Self {
        Self { generated, ..self }
    }

    /// Everything is in the cache, but for what is given here.
    pub fn of_cache(cache: &'a Cache, generated: HashMap<Digest, Vec<u8>>) -> Self {
        Self { cache, local: Local::new(), generated, signers: HashMap::new() }
    }
}

impl Store for Sources<'_> {
    fn content(&self, item: &Item) -> io::Result<Content> {
        if let Some(bytes) = self.generated.get(&item.sha256) {
            return Ok(Content::Bytes(bytes.clone()));
        }
        let path = self.local.get(&item.sha256).cloned();
        Ok(Content::File(path.unwrap_or_else(|| self.cache.path(&item.sha256))))
    }
}
