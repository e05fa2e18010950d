//! The parsers of bytes that somebody else wrote, for fuzzing: see [`eggo_bundles::foreign`].

use crate::cache::Cache;
use crate::http::{Http, Options};
use crate::lock::Lock;
use crate::manifest::Manifest;
use crate::packages::deb::{distill, relation, release, sources as deb_sources};
use crate::packages::openpgp::Keyring;
use crate::packages::rpm::metadata::Metadata;
use crate::packages::rpm::modules::Modules;
use crate::packages::rpm::{filelists, repomd, rich, sources as rpm_sources};
use crate::packages::{baseline, sound};
use crate::{Tools, addons, archive, images};
use eggo_bundles::Arch;
use eggo_bundles::foreign::Parser;
use eggo_bundles::progress::Silent;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

pub const PARSERS: [Parser; 9] = [
    ("deb822", deb822),
    ("docker", docker),
    ("http", images::foreign_answer),
    ("lock", lock),
    ("openpgp", openpgp),
    ("packages", packages),
    ("xml", xml),
    ("yaml", yaml),
    ("zip", zip),
];

/// `Release`, `Packages`, and the two forms of apt's sources.
fn deb822(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let _ = release::Release::parse(text);
    let _ = deb_sources::parse_list(Path::new("f"), text);
    let _ = deb_sources::parse_deb822(Path::new("f"), text);
    deb_sources::parse_mirrors(text);
    let _ = distill::distill(&mut &bytes[..]);
    for target in relation::groups(text).flat_map(relation::alternatives) {
        let _ = target.allows(Some("1"));
    }
}

fn xml(bytes: &[u8]) {
    let _ = repomd::parse(bytes);
    let _ = rpm_sources::metalink(bytes);
    let _ = filelists::find(&HashSet::from(["/bin/sh".to_string()]), bytes);
    let Ok(metadata) = Metadata::parse(bytes) else { return };
    for package in &metadata.packages {
        for capability in metadata.capabilities(&package.requires) {
            let _ = metadata.show(capability);
        }
    }
}

/// Manifests, addons and module lists.
fn yaml(bytes: &[u8]) {
    let _ = Manifest::parse(Path::new("m.yaml"), bytes);
    let _ = addons::discover("f", bytes);
    let modules = Modules::parse("f", &String::from_utf8_lossy(bytes));
    let _ = modules.map(|modules| modules.filter(&[]).map(drop));
}

fn lock(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let _ = Lock::parse(Path::new("m.lock"), text);
    let _ = baseline::parse(text);
    rpm_sources::repo_file(text);
    rpm_sources::mirrorlist(text);
    for line in text.lines().take(64) {
        let _ = rich::required(line);
        let _ = rich::forbidden(line);
    }
}

/// Keys, signed text, and signatures beside it.
fn openpgp(bytes: &[u8]) {
    // Any time: whether a signature counts now is not the question.
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    let keyring = Keyring::parse(bytes).unwrap_or_default();
    let _ = keyring.verify_cleartext(bytes, now);
    let _ = keyring.verify_detached(bytes, b"text", now);
}

fn packages(bytes: &[u8]) {
    let _ = sound::check_deb(&mut &bytes[..], bytes.len() as u64);
    let _ = sound::check_rpm(&mut &bytes[..]);
}

/// An archive of images, from its bytes to lines of a lock.
fn docker(bytes: &[u8]) {
    static HTTP: OnceLock<Http> = OnceLock::new();
    let http = HTTP.get_or_init(|| Http::new(Options::default()).expect("a client without options"));
    in_file(bytes, |path, folder| {
        let cache = Cache::open(folder.join("cache")).expect("a folder of our own");
        let tools = Tools { http, cache: &cache, progress: &Silent };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let _ = runtime.block_on(images::lock_archives(&[path.to_path_buf()], Arch::Amd64, tools));
    });
}

fn zip(bytes: &[u8]) {
    in_file(bytes, |path, _| {
        let _ = archive::walk(path, &mut |_, content| {
            io::copy(&mut io::Read::take(content, 1 << 20), &mut io::sink())?;
            Ok(())
        });
    });
}

/// For what reads files by their path.
fn in_file(bytes: &[u8], read: impl FnOnce(&Path, &Path)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).expect("a temporary file");
    read(&path, folder.path());
}
