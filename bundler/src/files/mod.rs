//! Binaries, files and folders: from urls, local paths, and members of archives.
//!
//! [`lock`] fetches each once and records what it is; [`fetch`] brings back what the lock
//! records; [`items`] says, without I/O, what a bundle then holds. Every file that is an ELF
//! program must be one for the arch it is locked for.

mod error;
mod glob;
mod take;

pub use error::Error;

use crate::Tools;
use crate::http::{self, Download};
use crate::lock::{Content, LockedFile};
use crate::manifest::{Checksums, FileRequest, From, Manifest};
use eggo_bundles::index::Source;
use eggo_bundles::{Arch, Digest, Item, Kind};
use futures::stream::{self, StreamExt, TryStreamExt};
use std::collections::HashMap;
use std::path::PathBuf;
use take::Taken;

const AT_ONCE: usize = 6;

/// Where the content of files is that are not in the cache: local ones stay where they are.
pub type Local = HashMap<Digest, PathBuf>;

/// Fetches everything that the manifest's binaries, files and folders name, and records it.
pub async fn lock(manifest: &Manifest, archs: &[Arch], tools: Tools<'_>) -> Result<Vec<LockedFile>, Error> {
    let wanted = manifest.files.iter().flat_map(|request| {
        let archs = archs.iter().filter(|arch| request.archs.contains(arch));
        archs.map(move |arch| (request, *arch))
    });
    let work = wanted.map(|(request, arch)| async move {
        let taken = obtain(manifest, request, arch, None, tools).await;
        let (locked, _) = taken.map_err(|error| error.asked(manifest, request, arch))?;
        Ok(locked)
    });
    stream::iter(work).buffered(AT_ONCE).try_collect().await
}

/// Brings everything that the lock records within reach, and says where local files are.
pub async fn fetch(manifest: &Manifest, locked: &[LockedFile], tools: Tools<'_>) -> Result<Local, Error> {
    let work = locked.iter().map(|file| fetch_one(manifest, file, tools));
    let found: Vec<Local> = stream::iter(work).buffer_unordered(AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

async fn fetch_one(manifest: &Manifest, locked: &LockedFile, tools: Tools<'_>) -> Result<Local, Error> {
    let is_there =
        |content: &Content| content.link.is_some() || tools.cache.contains(&content.sha256, content.size);
    if locked.path.is_none() && locked.content.iter().all(is_there) {
        tracing::debug!("in the cache: {} {}", locked.name, locked.arch);
        return Ok(Local::new());
    }
    // A single local file of the right length is hashed when it is packed, and not before.
    if let (Some(path), [content], None) = (&locked.path, locked.content.as_slice(), &locked.member)
        && locked.kind != Kind::Dir
    {
        let path =
            manifest.local(path).map_err(|source| Error::Read { path: manifest.resolve(path), source })?;
        if std::fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == content.size)
        {
            return Ok(Local::from([(content.sha256, path)]));
        }
    }
    let request = manifest.files.iter().find(|request| {
        request.kind == locked.kind && request.name == locked.name && request.archs.contains(&locked.arch)
    });
    // The lock was compared with the manifest before: what it records has been asked for.
    let request = request.ok_or_else(|| Error::Unasked { name: locked.name.clone(), arch: locked.arch })?;
    let found = obtain(manifest, request, locked.arch, Some(locked), tools).await;
    let (found, local) = found.map_err(|error| error.asked(manifest, request, locked.arch))?;
    if found.content != locked.content {
        return Err(Error::Changed { name: locked.name.clone(), arch: locked.arch, from: from(locked) });
    }
    Ok(local)
}

/// Fetches one request for one arch. With a lock, exactly what that records.
async fn obtain(
    manifest: &Manifest,
    request: &FileRequest,
    arch: Arch,
    locked: Option<&LockedFile>,
    tools: Tools<'_>,
) -> Result<(LockedFile, Local), Error> {
    let expand =
        |template: &crate::manifest::Template| template.expand(&request.name, &request.version, arch);
    let member = request.member.as_ref().map(expand);
    let mut file = LockedFile {
        name: request.name.clone(),
        kind: request.kind,
        version: request.version.clone(),
        arch,
        url: None,
        path: None,
        mirrors: Vec::new(),
        sha256: None,
        size: 0,
        member,
        roles: request.roles.clone(),
        dst: request.dst.clone(),
        content: Vec::new(),
    };
    let expected = match locked {
        Some(locked) => locked.sha256,
        None => request.checksums.get(arch),
    };
    let (source, is_local) = match &request.from {
        From::Urls(templates) => {
            let urls: Vec<String> = templates.iter().map(expand).collect();
            let parsed = urls.iter().map(|text| http::url(text)).collect::<Result<Vec<_>, _>>()?;
            let mut urls: Vec<String> = urls.iter().map(|text| http::recorded(text)).collect();
            file.url = Some(urls.remove(0));
            file.mirrors = urls;
            let label = format!("{} {arch}", request.name);
            let size = locked.map(|locked| locked.size);
            let download = Download::new(label, parsed).expect(expected, size);
            let downloaded = tools.http.download(&download, tools.cache, tools.progress).await?;
            (file.sha256, file.size) = (Some(downloaded.sha256), downloaded.size);
            (downloaded.path, false)
        }
        From::Path(template) => {
            let text = expand(template);
            let unreadable = |source| Error::Read { path: manifest.resolve(&text), source };
            let path = manifest.local(&text).map_err(unreadable)?;
            file.path = Some(text);
            (path, true)
        }
    };
    let taken = take::take(request, arch, &source, is_local, file.member.as_deref(), tools.cache)?;
    let Taken { content, local, source_digest } = taken;
    if let Some((sha256, size)) = source_digest {
        if let (Checksums::Same(_) | Checksums::PerArch(_), Some(expected)) = (&request.checksums, expected)
            && expected != sha256
        {
            return Err(Error::WrongDigest { path: source, expected, found: sha256 });
        }
        (file.sha256, file.size) = (Some(sha256), size);
    }
    file.content = content;
    Ok((file, local))
}

/// What the locked files add to a bundle.
pub fn items(locked: &[LockedFile]) -> Vec<Item> {
    locked.iter().flat_map(|file| file.content.iter().map(|content| item(file, content))).collect()
}

fn item(file: &LockedFile, content: &Content) -> Item {
    // Each file of a folder goes to its own place below the folder's destination.
    let below = content.path.strip_prefix(&format!("{}/", file.name)).and_then(|path| path.rsplit_once('/'));
    let dst = match (&file.dst, below) {
        (Some(dst), Some((below, _))) if file.kind == Kind::Dir => Some(format!("{dst}/{below}")),
        (dst, _) => dst.clone(),
    };
    Item {
        name: file.name.clone(),
        version: file.version.clone(),
        roles: file.roles.clone(),
        dst,
        mode: content.link.is_none().then_some(content.mode),
        link: content.link.clone(),
        source: Source { url: file.url.as_deref().map(http::recorded), ..Source::default() },
        ..Item::new(file.arch, file.kind, &content.path, content.sha256, content.size)
    }
}

fn from(locked: &LockedFile) -> String {
    locked.path.clone().or_else(|| locked.url.clone()).unwrap_or_default()
}
