//! A release: what goes beside a bundle so that people can judge it before they carry it.

mod notes;

use crate::Tools;
use crate::error::Error;
use crate::images::{self, Artifact, ArtifactFile, Pushed, Reference, Registries};
use eggo_bundles::digest::Hasher;
use eggo_bundles::output::{Output, write_whole};
use eggo_bundles::progress::Progress;
use eggo_bundles::{Bundle, Digest, Index, Verified, parts};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What a registry calls the artifact, and the bundle in it.
const ARTIFACT_TYPE: &str = "application/vnd.eggo.bundle.v1";
const BUNDLE_TYPE: &str = "application/vnd.eggo.bundle.v1.tar+gzip";

/// `NAME-VERSION`, with `-delta` for a delta.
pub fn stem(index: &Index) -> String {
    let delta = if index.parent.is_some() { "-delta" } else { "" };
    format!("{}-{}{delta}", index.name, index.version)
}

/// Writes the release set into `folder`: bundle, index, signature, bill of materials, notes,
/// and the checksums of them all. Gives what was written.
pub fn to_folder(
    bundle: &Bundle<Verified>,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<Vec<PathBuf>, Error> {
    std::fs::create_dir_all(folder).map_err(Error::unwritten(folder))?;
    let stem = stem(bundle.index());
    let name = format!("{stem}.tar.gz");
    let path = folder.join(&name);
    let digest = copy(bundle, &path, progress).map_err(Error::unwritten(&path))?;
    let mut written = vec![path];
    written.extend(write_small(bundle, &name, digest, folder)?);
    Ok(written)
}

/// Pushes the same set to a registry, under one tag.
pub async fn to_registry(
    bundle: &Bundle<Verified>,
    target: &Reference,
    registries: &Registries,
    tools: Tools<'_>,
) -> Result<Pushed, Error> {
    let scratch = tempfile::tempdir().map_err(Error::unwritten(&std::env::temp_dir()))?;
    let name = format!("{}.tar.gz", stem(bundle.index()));
    // A bundle in parts is joined first; a whole one is read where it is.
    let source = bundle.path().to_path_buf();
    let whole = std::fs::metadata(&source).map_err(Error::unwritten(&source))?.len() == bundle.size();
    let (path, digest) = match whole {
        true => {
            let mut file = std::fs::File::open(&source).map_err(Error::unwritten(&source))?;
            let (digest, _) = Digest::of_reader(&mut file).map_err(Error::unwritten(&source))?;
            (source, digest)
        }
        false => {
            let path = scratch.path().join(&name);
            let digest = copy(bundle, &path, tools.progress).map_err(Error::unwritten(&path))?;
            (path, digest)
        }
    };
    let small = write_small(bundle, &name, digest, scratch.path())?;
    let mut files = vec![ArtifactFile { path, title: name, media_type: BUNDLE_TYPE.to_string() }];
    files.extend(small.into_iter().map(|path| {
        let title = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let media_type = if title.ends_with(".json") { "application/json" } else { "text/plain" };
        ArtifactFile { path, title, media_type: media_type.to_string() }
    }));
    let index = bundle.index();
    let annotations = BTreeMap::from([
        ("org.opencontainers.image.title".to_string(), index.name.clone()),
        ("org.opencontainers.image.version".to_string(), index.version.clone()),
    ]);
    let artifact = Artifact { artifact_type: ARTIFACT_TYPE.to_string(), annotations, files };
    Ok(images::push(target, &artifact, registries, tools).await?)
}

/// Everything of a release but the bundle itself; gives what was written.
fn write_small(
    bundle: &Bundle<Verified>,
    name: &str,
    digest: Digest,
    folder: &Path,
) -> Result<Vec<PathBuf>, Error> {
    let stem = stem(bundle.index());
    let notes = notes::notes(bundle, name, &digest);
    let small = [
        (format!("{stem}.json"), bundle.index_bytes().to_vec()),
        (format!("{stem}.json.minisig"), bundle.signature().as_bytes().to_vec()),
        (format!("{stem}.spdx.json"), bundle.sbom()?),
        (format!("{stem}.notes.md"), notes.into_bytes()),
    ];
    let mut sums: Vec<(String, Digest)> = vec![(name.to_string(), digest)];
    let mut written = Vec::new();
    let mut write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        write_whole(&path, bytes).map_err(Error::unwritten(&path))?;
        written.push(path);
        Ok::<(), Error>(())
    };
    for (name, bytes) in small {
        write(&name, &bytes)?;
        sums.push((name, Digest::of(&bytes)));
    }
    sums.sort();
    let text: String = sums.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
    write("SHA256SUMS", text.as_bytes())?;
    Ok(written)
}

/// The bundle's bytes, parts joined.
fn copy(bundle: &Bundle<Verified>, path: &Path, progress: &dyn Progress) -> io::Result<Digest> {
    let source = parts::open(bundle.path())?;
    let length = source.length();
    let task = progress.start("publishing", Some(length));
    let mut output = Output::create(path)?;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < length {
        let piece = &mut buffer[..usize::try_from(length - offset).unwrap_or(usize::MAX).min(1 << 20)];
        source.read_exact_at(piece, offset)?;
        hasher.update(piece);
        output.file().write_all(piece)?;
        offset += piece.len() as u64;
        progress.advance(task, piece.len() as u64);
    }
    progress.finish(task);
    output.finish()?;
    Ok(hasher.finish())
}
