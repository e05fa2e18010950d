//! Deltas: what they carry, whom they fit, and that a merge is the full bundle again.

mod made;

use eggo_bundles::progress::Silent;
use eggo_bundles::reader::{Pipe, Selection};
use eggo_bundles::{Bundle, Error, Verified, seal, write};
use made::forge::Forge;
use made::{Sample, key, noise, trusted};
use std::io::Read as _;
use std::path::{Path, PathBuf};

fn open(path: &Path) -> Bundle<Verified> {
    Bundle::open(path).unwrap().verify(&trusted()).unwrap()
}

/// The old bundle, the new one as a full bundle, and the delta between them.
fn family(folder: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let old = Sample::small();
    let mut new = Sample::small();
    new.index.version = "1.1".into();
    new.index.items.retain(|item| item.path != "amd64/file/text");
    new.add("amd64/file/new", &noise(30_000, 9));
    new.add("arm64/file/new", &noise(30_000, 9));
    new.add("arm64/file/large", old.content("amd64/file/large"));
    let at = |name: &str| {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        folder.join(name)
    };
    let old_path = old.write(&at("old"));
    let new_path = new.write(&at("new"));
    let sealed = seal(new.index.clone(), key()).unwrap().delta_from(open(&old_path).index(), key()).unwrap();
    let delta_path = at("delta").join("delta.tar.gz");
    write(&delta_path, &sealed, &new, &Silent).unwrap();
    (old_path, new_path, delta_path)
}

#[test]
fn a_delta_carries_only_what_is_new_and_merges_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new, delta) = family(folder.path());
    let length = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(length(&delta) < length(&new) / 10, "{} of {}", length(&delta), length(&new));

    let base = open(&old);
    let alone = open(&delta);
    alone.verify_all(&Silent).unwrap();
    assert_eq!(alone.index().parent, Some(base.identity()));
    assert_eq!(alone.identity(), open(&new).identity());
    let inherited = alone.index().item("amd64/bin/tool").unwrap().clone();
    assert!(!alone.index().carries(&inherited));
    assert!(alone.index().carries(alone.index().item("arm64/file/new").unwrap()));
    assert!(matches!(alone.read(&inherited), Err(Error::NeedsBase { .. })));

    let both = alone.with_base(&base).unwrap();
    both.verify_all(&Silent).unwrap();
    let full = open(&new);
    for item in &full.index().items {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        full.read(item).unwrap().read_to_end(&mut one).unwrap();
        both.read(item).unwrap().read_to_end(&mut other).unwrap();
        assert!(one == other, "{}", item.path);
    }
    let merged = folder.path().join("merged.tar.gz");
    write(&merged, &both.sealed().unwrap(), &both, &Silent).unwrap();
    assert!(std::fs::read(&merged).unwrap() == std::fs::read(&new).unwrap());
}

#[test]
fn a_delta_between_two_finished_bundles_merges_too() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new, _) = family(folder.path());
    let (base, full) = (open(&old), open(&new));
    let made = folder.path().join("diff.tar.gz");
    write(&made, &full.delta_from(&base, key()).unwrap(), &full, &Silent).unwrap();
    let both = open(&made).with_base(&base).unwrap();
    let merged = folder.path().join("merged.tar.gz");
    write(&merged, &both.sealed().unwrap(), &both, &Silent).unwrap();
    assert!(std::fs::read(&merged).unwrap() == std::fs::read(&new).unwrap());
}

#[test]
fn another_parent_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new, delta) = family(folder.path());
    let error = open(&delta).with_base(&open(&new)).err().unwrap();
    assert!(matches!(error, Error::WrongBase { .. }), "{error}");
    let error = open(&new).with_base(&open(&old)).err().unwrap();
    assert!(matches!(error, Error::NotADelta { .. }), "{error}");
}

#[test]
fn a_delta_that_lacks_what_it_says_it_carries_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, delta) = family(folder.path());
    let mut forge = Forge::open(&delta);
    let position = forge.position("amd64/file/new");
    forge.entries.remove(position);
    std::fs::write(&delta, forge.bytes()).unwrap();
    let error = Bundle::open(&delta).unwrap().verify(&trusted()).err().unwrap();
    assert!(error.to_string().contains("`amd64/file/new` is missing"), "{error}");
}

#[test]
fn a_forged_full_signature_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, delta) = family(folder.path());
    let mut forge = Forge::open(&delta);
    let own = forge.entry("eggo-bundle.json.minisig").content.clone();
    let position = forge.position("eggo-bundle.full.json.minisig");
    forge.entries[position] = made::forge::Raw::new("eggo-bundle.full.json.minisig", 0o644, b'0', "", &own);
    std::fs::write(&delta, forge.bytes()).unwrap();
    let error = Bundle::open(&delta).unwrap().verify(&trusted()).err().unwrap();
    assert!(error.to_string().contains("does not hold"), "{error}");
}

#[test]
fn deltas_extract_with_their_base_and_come_through_pipes() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new, delta) = family(folder.path());
    let both = open(&delta).with_base(&open(&old)).unwrap();
    let out = folder.path().join("out");
    both.extract(&out, &Selection::All, &Silent).unwrap();
    for item in open(&new).index().items.iter().filter(|item| item.link.is_none()) {
        let found = eggo_bundles::Digest::of(&std::fs::read(out.join(&item.path)).unwrap());
        assert_eq!(found, item.sha256, "{}", item.path);
    }
    let pipe = Pipe::open(std::fs::File::open(&delta).unwrap(), &delta).unwrap();
    pipe.verify(&trusted()).unwrap().verify_all(&Silent).unwrap();
}
