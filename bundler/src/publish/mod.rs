//! A release: what goes beside a bundle so that people can judge it before they carry it.

mod notes;

use crate::error::Error;
use eggo_bundles::digest::Hasher;
use eggo_bundles::output::{Output, write_whole};
use eggo_bundles::progress::Progress;
use eggo_bundles::{Bundle, Digest, Index, Verified, parts};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::Release { path, source }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    let stem = stem(bundle.index());
    let mut sums: Vec<(String, Digest)> = Vec::new();

    let name = format!("{stem}.tar.gz");
    let path = folder.join(&name);
    let digest = copy(bundle, &path, progress).map_err(failed(&path))?;
    sums.push((name.clone(), digest));

    let notes = notes::notes(bundle, &name, &digest);
    let small = [
        (format!("{stem}.json"), bundle.index_bytes().to_vec()),
        (format!("{stem}.json.minisig"), bundle.signature().as_bytes().to_vec()),
        (format!("{stem}.spdx.json"), bundle.sbom()?),
        (format!("{stem}.notes.md"), notes.into_bytes()),
    ];
    for (name, bytes) in small {
        let path = folder.join(&name);
        write_whole(&path, &bytes).map_err(failed(&path))?;
        sums.push((name, Digest::of(&bytes)));
    }
    sums.sort();
    let text: String = sums.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
    let path = folder.join("SHA256SUMS");
    write_whole(&path, text.as_bytes()).map_err(failed(&path))?;
    Ok(sums.iter().map(|(name, _)| folder.join(name)).chain([path]).collect())
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
