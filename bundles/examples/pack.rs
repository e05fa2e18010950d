//! The writer and reader alone, for measuring: `pack seal FOLDER OUT`, `pack verify OUT`,
//! `pack read OUT PATH`. Every file of the folder becomes a `file` item: for arm64 below `arm64/`, else for amd64.
//! The key is beside the bundle, as `OUT.key`.

use eggo_bundles::index::{Index, Item, Kind};
use eggo_bundles::progress::Silent;
use eggo_bundles::{Arch, Bundle, Content, Digest, KeyPair, SecretKey, Store, TrustedKeys, seal, write};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["index", folder, out] => index(Path::new(folder), Path::new(out)),
        ["seal", folder, out] => pack(Path::new(folder), Path::new(out)),
        ["verify", out] => Ok(open(Path::new(out))?.verify_all(&Silent)?),
        ["read", out, path] => {
            let bundle = open(Path::new(out))?;
            let item = bundle.index().item(path).ok_or("no such item")?;
            io::copy(&mut bundle.read(item)?, &mut io::stdout().lock())?;
            Ok(())
        }
        _ => Err("usage: pack index FOLDER OUT | seal FOLDER OUT | verify OUT | read OUT PATH".into()),
    }
}

fn open(out: &Path) -> Result<Bundle, Box<dyn Error>> {
    let key = SecretKey::load(&beside(out, "key"), || None)?;
    Ok(Bundle::open(out)?.verify(&TrustedKeys::new([key.public().clone()]))?)
}

fn beside(out: &Path, extension: &str) -> PathBuf {
    PathBuf::from(format!("{}.{extension}", out.display()))
}

/// What the lock and the cache know before a build: every file's digest.
fn index(folder: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let mut index = Index::new("bench", "1", vec![Arch::Amd64, Arch::Arm64]);
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let (sha256, size) = Digest::of_reader(&mut std::fs::File::open(&path)?)?;
            let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
            let arch = if name.starts_with("arm64/") { Arch::Arm64 } else { Arch::Amd64 };
            index.items.push(Item::new(arch, Kind::File, &name, sha256, size));
        }
    }
    std::fs::write(beside(out, "json"), index.to_bytes())?;
    std::fs::write(beside(out, "key"), KeyPair::generate(None)?.secret)?;
    Ok(())
}

struct Folder(BTreeMap<String, PathBuf>);

impl Store for Folder {
    fn content(&self, item: &Item) -> io::Result<Content> {
        self.0.get(&item.path).cloned().map(Content::File).ok_or(io::ErrorKind::NotFound.into())
    }
}

fn pack(folder: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let index: Index = serde_json::from_slice(&std::fs::read(beside(out, "json"))?)?;
    let key = SecretKey::load(&beside(out, "key"), || None)?;
    let files = index.items.iter().map(|item| (item.path.clone(), folder.join(&item.name))).collect();
    let written = write(out, &seal(index, &key)?, &Folder(files), &Silent)?;
    eprintln!("{} bytes, {} items shared", written.size, written.shared);
    Ok(())
}
