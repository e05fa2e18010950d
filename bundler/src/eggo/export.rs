//! A bundle → the tarballs that eggo itself takes, one per arch, in rooms.

use super::tarball_name;
use crate::error::Error;
use eggo_bundles::layout::{Layout, blob_items, blob_path};
use eggo_bundles::output::Output;
use eggo_bundles::progress::Progress;
use eggo_bundles::{Arch, Bundle, Item, Kind, Readable};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::HashMap;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Writes one tarball for each arch into `folder`; gives what was written.
pub fn export<T: Readable>(
    bundle: &Bundle<T>,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<Vec<PathBuf>, Error> {
    std::fs::create_dir_all(folder).map_err(Error::unwritten(folder))?;
    let mut written = Vec::new();
    for arch in &bundle.index().archs {
        let path = folder.join(tarball_name(*arch));
        let mut output = Output::create(&path).map_err(Error::unwritten(&path))?;
        let items = bundle.index().items.iter().filter(|item| item.arch == *arch);
        let task = progress.start(tarball_name(*arch), Some(items.map(|item| item.size).sum()));
        let result = tarball(bundle, *arch, (output.file(), folder), &|bytes| progress.advance(task, bytes));
        progress.finish(task);
        result.map_err(Error::unwritten(&path))?;
        output.finish().map_err(Error::unwritten(&path))?;
        written.push(path);
    }
    Ok(written)
}

fn tarball<T: Readable>(
    bundle: &Bundle<T>,
    arch: Arch,
    (out, folder): (&std::fs::File, &Path),
    advance: &dyn Fn(u64),
) -> io::Result<()> {
    let mut tar = tar::Builder::new(GzEncoder::new(io::BufWriter::new(out), Compression::fast()));
    for room in ["pkg", "bin", "file", "dir", "image"] {
        append_folder(&mut tar, room)?;
    }
    let items = bundle.index().items.iter().filter(|item| item.arch == arch && item.kind != Kind::Image);
    for item in items {
        let below = item.path.splitn(3, '/').nth(2).unwrap_or_default();
        // eggo applies yaml files from the same room as other files.
        let room = if item.kind == Kind::Addon { Kind::File.room() } else { item.kind.room() };
        append_item(&mut tar, bundle, item, &format!("{room}/{below}"))?;
        advance(item.size);
    }
    for image in bundle.index().images.iter().filter(|image| image.arch == arch) {
        let layout =
            Layout::of_index(bundle.index(), arch, |other| other == image).map_err(io::Error::other)?;
        // Where the tarball goes there is room, in the folder for temporary files perhaps not.
        let mut archive = tempfile::tempfile_in(folder)?;
        docker_archive(&mut archive, bundle, arch, &layout, advance)?;
        let name = format!("image/{}.tar", image.name.replace(['/', ':', '@'], "_"));
        let mut header = header(0o644, archive.metadata()?.len());
        tar.append_data(&mut header, name, &archive)?;
    }
    tar.into_inner()?.finish()?.flush()
}

/// One image as `docker save` writes it. Its length must be known before the tarball goes on.
fn docker_archive<T: Readable>(
    archive: &mut std::fs::File,
    bundle: &Bundle<T>,
    arch: Arch,
    layout: &Layout,
    advance: &dyn Fn(u64),
) -> io::Result<()> {
    let items: HashMap<_, _> = blob_items(bundle.index(), arch).collect();
    let mut tar = tar::Builder::new(io::BufWriter::new(&mut *archive));
    for (name, bytes) in &layout.files {
        tar.append_data(&mut header(0o644, bytes.len() as u64), name, bytes.as_slice())?;
    }
    for (digest, size) in &layout.blobs {
        let item = items.get(digest).ok_or_else(|| io::Error::other(format!("blob {digest} is missing")))?;
        tar.append_data(&mut header(0o644, *size), blob_path(digest), bundle.read(item)?)?;
        advance(*size);
    }
    tar.into_inner()?.flush()?;
    archive.rewind()
}

fn append_item<T: Readable>(
    tar: &mut tar::Builder<impl Write>,
    bundle: &Bundle<T>,
    item: &Item,
    path: &str,
) -> io::Result<()> {
    if let Some(target) = &item.link {
        let mut header = header(0o777, 0);
        header.set_entry_type(tar::EntryType::Symlink);
        return tar.append_link(&mut header, path, target);
    }
    let mode = item.mode.unwrap_or(if item.kind == Kind::Bin { 0o755 } else { 0o644 });
    let reader: Box<dyn Read> = Box::new(bundle.read(item)?);
    tar.append_data(&mut header(mode, item.size), path, reader)
}

fn append_folder(tar: &mut tar::Builder<impl Write>, path: &str) -> io::Result<()> {
    let mut header = header(0o755, 0);
    header.set_entry_type(tar::EntryType::Directory);
    tar.append_data(&mut header, format!("{path}/"), io::empty())
}

/// Without times and owners: the same bundle gives the same tarball.
fn header(mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}
