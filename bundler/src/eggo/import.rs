//! Tarballs → lock-like contents: every file in the cache, and an item for each.

use crate::Tools;
use crate::archive::{self, MemberKind};
use crate::cache::Cache;
use crate::error::Error;
use crate::images;
use crate::packages::sound::{self, Unsound};
use eggo_bundles::content::{deb, elf, rpm};
use eggo_bundles::{Arch, Digest, Index, Item, Kind};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

const MAX_FILE: u64 = 16 << 30;

/// A tarball, and its arch where the user said it.
#[derive(Debug, Clone)]
pub struct Tarball {
    pub path: PathBuf,
    pub arch: Option<Arch>,
}

pub struct Imported {
    pub index: Index,
    /// Small files that are in no tarball: the image layout's own.
    pub generated: HashMap<Digest, Vec<u8>>,
}

/// A file of a tarball, in the cache.
struct Found {
    path: String,
    sha256: Digest,
    size: u64,
    mode: u32,
    link: Option<String>,
}

/// Reads the tarballs of all archs.
pub async fn import(
    name: &str,
    version: &str,
    tarballs: &[Tarball],
    tools: Tools<'_>,
) -> Result<Imported, Error> {
    let mut index = Index::new(name, version, Vec::new());
    let mut generated = HashMap::new();
    for tarball in tarballs {
        let found = unpack(&tarball.path, tools)?;
        let arch = match tarball.arch.or_else(|| guess(&found, tools)) {
            Some(arch) => arch,
            None => return Err(Error::UnknownArch { path: tarball.path.clone() }),
        };
        if index.archs.contains(&arch) {
            return Err(Error::TwiceArch { path: tarball.path.clone(), arch });
        }
        index.archs.push(arch);
        let mut archives = Vec::new();
        for file in found {
            match place(&file.path) {
                Place::Images => archives.push(tools.cache.path(&file.sha256)),
                Place::Item(kind, below) => index.items.push(item(arch, kind, below, &file, tools)?),
                Place::Guess => {
                    let head = archive::head(&tools.cache.path(&file.sha256));
                    let program =
                        head.is_ok_and(|head| elf::parse(&head).is_some() || head.starts_with(b"#!"));
                    let kind = if program { Kind::Bin } else { Kind::File };
                    index.items.push(item(arch, kind, &file.path, &file, tools)?);
                }
            }
        }
        let locked = images::lock_archives(&archives, arch, tools).await?;
        let contents = images::contents(&locked).map_err(images::Error::from)?;
        index.items.extend(contents.items);
        index.images.extend(contents.images);
        generated.extend(contents.generated.into_values().map(|bytes| (Digest::of(&bytes), bytes)));
    }
    Ok(Imported { index, generated })
}

fn unpack(path: &Path, tools: Tools<'_>) -> Result<Vec<Found>, Error> {
    let mut found: Vec<Found> = Vec::new();
    archive::walk(path, &mut |member, reader| {
        let (sha256, size, link) = match &member.kind {
            MemberKind::Folder => return Ok(()),
            MemberKind::File { .. } => {
                let (sha256, size) = tools.cache.store(reader, MAX_FILE)?;
                (sha256, size, None)
            }
            MemberKind::Symlink { target } => (Digest::of(b""), 0, Some(target.clone())),
            MemberKind::HardLink { target } => {
                let original = found.iter().find(|file| file.path == *target);
                let original = original.ok_or_else(|| format!("`{target}` is not in it"))?;
                (original.sha256, original.size, None)
            }
        };
        found.push(Found { path: member.path.clone(), sha256, size, mode: member.mode, link });
        Ok(())
    })?;
    Ok(found)
}

/// Where a path of a tarball belongs.
enum Place<'a> {
    Item(Kind, &'a str),
    /// A docker archive.
    Images,
    /// At the top, and the name does not tell.
    Guess,
}

fn place(path: &str) -> Place<'_> {
    let is_package = |name: &str| name.ends_with(".rpm") || name.ends_with(".deb");
    match path.split_once('/') {
        Some(("image", _)) => Place::Images,
        Some(("bin", below)) => Place::Item(Kind::Bin, below),
        Some(("file", below)) => Place::Item(Kind::File, below),
        Some(("dir", below)) => Place::Item(Kind::Dir, below),
        Some(("addons", below)) => Place::Item(Kind::Addon, below),
        Some(("pkg", below)) if is_package(below) => Place::Item(Kind::Pkg, below),
        Some(("pkg", below)) => Place::Item(Kind::File, below),
        None if path == "images.tar" => Place::Images,
        _ if is_package(path) => Place::Item(Kind::Pkg, path),
        _ => Place::Guess,
    }
}

fn item(arch: Arch, kind: Kind, below: &str, file: &Found, tools: Tools<'_>) -> Result<Item, Error> {
    let first = below.split('/').next().unwrap_or(below);
    let (mut name, mut version) = (first.to_string(), String::new());
    if kind == Kind::Addon {
        name = first.trim_end_matches(".yaml").trim_end_matches(".yml").to_string();
    }
    if kind == Kind::Pkg {
        (name, version) = package(&file.sha256, below, tools.cache)?;
    }
    Ok(Item {
        name,
        version,
        mode: match kind {
            Kind::Bin => Some(0o755),
            Kind::Dir if file.link.is_none() => Some(if file.mode & 0o111 != 0 { 0o755 } else { 0o644 }),
            _ => None,
        },
        link: file.link.clone(),
        ..Item::new(arch, kind, below, file.sha256, file.size)
    })
}

/// Name and version from the package's own header.
fn package(sha256: &Digest, shown: &str, cache: &Cache) -> Result<(String, String), Error> {
    let bad = |reason: String| Error::BadPackage { file: shown.to_string(), reason };
    sound::check_once(shown, sha256, cache).map_err(|unsound| match unsound {
        Unsound::Cache(error) => error.into(),
        Unsound::Problem(problem) => bad(problem.to_string()),
    })?;
    let mut file = File::open(cache.path(sha256)).map_err(|error| bad(error.to_string()))?;
    if shown.ends_with(".deb") {
        let package = deb::read(&mut file).map_err(|error| bad(error.to_string()))?;
        return Ok((package.name().to_string(), package.version().to_string()));
    }
    let package = rpm::read(&mut file).map_err(|error| bad(error.to_string()))?;
    Ok((package.name.clone(), package.evr()))
}

/// The arch that the first program or package in a tarball is for.
fn guess(found: &[Found], tools: Tools<'_>) -> Option<Arch> {
    found.iter().filter(|file| file.link.is_none()).find_map(|file| {
        let path = tools.cache.path(&file.sha256);
        let mut open = File::open(path).ok()?;
        let architecture = if file.path.ends_with(".deb") {
            deb::read(&mut open).ok()?.architecture().to_string()
        } else if file.path.ends_with(".rpm") {
            rpm::read(&mut open).ok()?.architecture
        } else {
            return elf::read(&mut open).ok()??.arch();
        };
        architecture.parse().ok()
    })
}
