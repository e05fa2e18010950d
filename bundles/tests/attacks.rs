//! Hostile bundles, one named case per attack. Each must be refused, from a file and from a
//! pipe, with a reason that names what was found.

mod made;

use eggo_bundles::progress::Silent;
use eggo_bundles::reader::Pipe;
use eggo_bundles::{Arch, Bundle, Error, Index, Item, TrustedKeys};
use made::forge::{Forge, Raw, member};
use made::{Sample, deb, elf, item, rpm, secret_text, trusted};
use std::path::{Path, PathBuf};

/// An attack's name, what it does, and what the refusal must say.
type Attack = (&'static str, fn(&mut Forge), &'static str);

const ATTACKS: &[Attack] = &[
    (
        "extra-file-at-the-end",
        |f| f.insert(f.entries.len(), "amd64/bin/evil", b"x"),
        "`amd64/bin/evil` is not listed",
    ),
    ("extra-file-inside", |f| f.insert(7, "amd64/bin/evil", b"x"), "`amd64/bin/evil` is not listed"),
    (
        "duplicate-entry",
        |f| duplicate(f, "amd64/addons/net.yaml"),
        "`amd64/addons/net.yaml` is there more than once",
    ),
    ("duplicate-at-the-end", |f| duplicate_last(f), "is there more than once"),
    ("missing-entry", |f| remove(f, "amd64/bin/tool"), "`amd64/bin/tool` is missing"),
    ("missing-last-entry", |f| drop(f.entries.pop()), "is missing"),
    ("missing-signature", |f| remove(f, "eggo-bundle.json.minisig"), "`SHA256SUMS` is not listed"),
    ("missing-sums", |f| remove(f, "SHA256SUMS"), "`SHA256SUMS` is missing"),
    ("changed-content", |f| f.entry("amd64/bin/tool").content[5000] ^= 1, "`amd64/bin/tool` has sha256"),
    (
        "changed-large-content",
        |f| f.entry("amd64/file/large").content[1_250_000] ^= 1,
        "`amd64/file/large` has sha256",
    ),
    ("changed-sums", |f| f.entry("SHA256SUMS").content[0] ^= 1, "`SHA256SUMS` has sha256"),
    (
        "changed-bill-of-materials",
        |f| f.entry("sbom.spdx.json").content[100] ^= 1,
        "`sbom.spdx.json` has sha256",
    ),
    (
        "longer-content",
        |f| replace(f, "amd64/addons/net.yaml", 0o644, b'0', "", &[b'x'; 99]),
        "is 99 bytes long",
    ),
    (
        "dotdot-path",
        |f| f.insert(7, "amd64/bin/../../../evil", b"x"),
        "`amd64/bin/../../../evil`: the path contains `..`",
    ),
    ("absolute-path", |f| f.insert(7, "/etc/cron.d/evil", b"x"), "`/etc/cron.d/evil`: the path is absolute"),
    ("pax-path", pax_path, "`../evil`: the path contains `..`"),
    ("device", |f| special(f, b'3'), "`amd64/addons/net.yaml` is a device"),
    ("block-device", |f| special(f, b'4'), "`amd64/addons/net.yaml` is a device"),
    ("fifo", |f| special(f, b'6'), "`amd64/addons/net.yaml` is a fifo"),
    ("folder", |f| special(f, b'5'), "`amd64/addons/net.yaml` is a folder"),
    ("setuid", |f| replace(f, "amd64/bin/tool", 0o4755, b'0', "", b""), "`amd64/bin/tool` is setuid"),
    ("other-mode", other_mode, "`amd64/bin/tool` has mode 777"),
    (
        "symlink-for-a-file",
        |f| replace(f, "amd64/bin/tool", 0o755, b'2', "/etc/shadow", b""),
        "a link to `/etc/shadow`",
    ),
    (
        "hardlink-elsewhere",
        |f| replace(f, "arm64/addons/net.yaml", 0o644, b'1', "../../x", b""),
        "a link to `../../x`",
    ),
    (
        "symlink-elsewhere",
        |f| replace(f, "amd64/dir/cni/default", 0o644, b'2', "../../../x", b""),
        "a link to `../../../x`",
    ),
    (
        "unlisted-symlink",
        |f| f.entries.insert(7, Raw::new("amd64/dir/l", 0o777, b'2', "/", b"")),
        "`amd64/dir/l` is not listed",
    ),
    (
        "padding",
        |f| *f.entry("amd64/addons/net.yaml").padding.last_mut().unwrap() = 1,
        "`amd64/addons/net.yaml` is damaged: the padding",
    ),
    (
        "broken-header",
        |f| f.entry("amd64/bin/tool").header[150] ^= 1,
        "`amd64/bin/tool` has an unsound tar header",
    ),
    ("swapped-order", |f| swap(f, "amd64/bin/tool", "amd64/file/empty"), "is missing"),
    ("index-not-first", |f| f.insert(0, "first", b"x"), "not an eggo bundle"),
    (
        "second-archive-behind",
        |f| f.behind.push(member(&archive())),
        "there are bytes behind the archive's end",
    ),
    ("empty-member-behind", |f| f.behind.push(member(b"")), "there are bytes behind the archive's end"),
    ("named-member", |f| f.tamper.push((4, |m| m[3] = 8)), "gzip header"),
    ("bytes-behind-a-stream", |f| f.tamper.push((4, hide_bytes)), "damaged"),
    ("hidden-member", |f| f.tamper.push((4, |m| m.extend(member(b"hidden")))), "damaged"),
    ("bomb", |f| f.tamper.push((4, |m| *m = member(&vec![0; 8 << 20]))), "damaged"),
    (
        "huge-index",
        |f| f.entries[0].header = made::forge::header("eggo-bundle.json", 0o644, b'0', "", 0o77_777_777_777),
        "eggo-bundle.json",
    ),
    (
        "index-swallows-all",
        |f| f.entries[0].header = made::forge::header("eggo-bundle.json", 0o644, b'0', "", 5 << 20),
        "eggo-bundle.json",
    ),
    ("unsigned-change", |f| replace_index(f), "does not hold"),
    (
        "no-signature",
        |f| replace(f, "eggo-bundle.json.minisig", 0o644, b'0', "", b"none\n"),
        "not a minisign signature",
    ),
];

/// What the holder of a stolen key signs: the same, but the index itself is wrong.
type SignedAttack = (&'static str, fn(&mut Sample), &'static str);

const SIGNED: &[SignedAttack] = &[
    (
        "swapped-arch-binary",
        |s| s.add("amd64/bin/other", &elf(Arch::Arm64, 9)),
        "`amd64/bin/other` is in amd64's folder but is for arm64",
    ),
    (
        "swapped-arch-shared",
        |s| s.add("arm64/bin/other", &elf(Arch::Amd64, 70_000)),
        "`arm64/bin/other` is in arm64's folder but is for amd64",
    ),
    (
        "swapped-arch-folder",
        |s| s.add("amd64/dir/x/other", &elf(Arch::Arm64, 9)),
        "`amd64/dir/x/other` is in amd64's folder",
    ),
    (
        "swapped-arch-deb",
        |s| s.add("arm64/pkg/x.deb", &deb("x", "1", "amd64")),
        "`arm64/pkg/x.deb` is in arm64's folder but is for amd64",
    ),
    (
        "swapped-arch-rpm",
        |s| s.add("amd64/pkg/x.rpm", &rpm("x", "aarch64")),
        "`amd64/pkg/x.rpm` is in amd64's folder but is for aarch64",
    ),
    ("foreign-arch", |s| s.add("amd64/pkg/x.deb", &deb("x", "1", "riscv64")), "is for riscv64"),
    (
        "not-a-package",
        |s| s.add("amd64/pkg/x.deb", b"no package"),
        "`amd64/pkg/x.deb` is not what its name says",
    ),
];

/// Indexes that break a rule, although a trusted key signed them.
type BadIndex = (&'static str, fn(&mut serde_json::Value), &'static str);

const INDEXES: &[BadIndex] = &[
    ("newer-format", |i| i["format"] = 2.into(), "format 2"),
    ("unknown-key", |i| i["surprise"] = 1.into(), "surprise"),
    (
        "index-dotdot",
        |i| i["items"][0]["path"] = "amd64/addons/../../x".into(),
        "`amd64/addons/../../x`: the path contains `..`",
    ),
    (
        "index-absolute",
        |i| i["items"][0]["path"] = "/etc/passwd".into(),
        "`/etc/passwd`: the path is absolute",
    ),
    ("index-root-file", |i| i["items"][0]["path"] = "SHA256SUMS".into(), "`SHA256SUMS`: it is not in"),
    ("index-twice", |i| i["items"][1] = i["items"][0].clone(), "listed twice"),
    ("index-setuid", |i| i["items"][0]["mode"] = 0o4755.into(), "mode 4755"),
    (
        "index-dst",
        |i| i["items"][0]["dst"] = "/etc/cron.d".into(),
        "`/etc/cron.d` is outside of the whitelist",
    ),
    ("index-dst-dotdot", |i| i["items"][0]["dst"] = "/usr/bin/../../etc".into(), "contains `..`"),
    ("index-huge-item", |i| i["items"][0]["size"] = (1_u64 << 50).into(), "over the limit"),
    ("index-negative-size", |i| i["items"][0]["size"] = (-1).into(), "not valid"),
    ("index-other-arch", |i| i["archs"] = vec!["arm64"].into(), "the bundle is not for amd64"),
    ("index-other-count", |i| drop(i["items"].as_array_mut().unwrap().pop()), "`SHA256SUMS` is"),
];

#[test]
fn every_attack_on_the_archive_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let honest = Forge::open(&Sample::small().write(folder.path()));
    check(folder.path(), &honest.bytes()).expect("what the document describes is accepted");
    for (name, attack, expected) in ATTACKS {
        let mut forge = honest.clone();
        attack(&mut forge);
        refused(folder.path(), name, &forge.bytes(), expected);
    }
}

#[test]
fn every_signed_lie_about_content_is_refused() {
    for (name, attack, expected) in SIGNED {
        let folder = tempfile::tempdir().unwrap();
        let mut sample = Sample::small();
        attack(&mut sample);
        let bytes = std::fs::read(sample.write(folder.path())).unwrap();
        refused(folder.path(), name, &bytes, expected);
    }
}

#[test]
fn an_image_for_another_arch_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut sample = Sample::small();
    let config = sample.index.images.iter().find(|image| image.arch == Arch::Arm64).unwrap().config;
    let content = sample.content(&format!("arm64/image/blobs/sha256/{config}")).to_vec();
    sample.add(&format!("amd64/image/blobs/sha256/{config}"), &content);
    let image = sample.index.images.iter_mut().find(|image| image.arch == Arch::Amd64).unwrap();
    image.config = config;
    let bytes = std::fs::read(sample.write(folder.path())).unwrap();
    refused(folder.path(), "swapped-arch-image", &bytes, "is in amd64's folder but is for arm64");
}

#[test]
fn every_bad_index_is_refused_though_signed() {
    let folder = tempfile::tempdir().unwrap();
    let honest = Forge::open(&Sample::small().write(folder.path()));
    for (name, change, expected) in INDEXES {
        let mut forge = honest.clone();
        let mut index = serde_json::from_slice(&forge.entries[0].content).unwrap();
        change(&mut index);
        forge.sign(&serde_json::to_vec_pretty(&index).unwrap(), secret_text());
        refused(folder.path(), name, &forge.bytes(), expected);
    }
}

#[test]
fn an_unknown_key_and_none_are_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let path = Sample::small().write(folder.path());
    let other = eggo_bundles::KeyPair::generate(None).unwrap();
    let other = eggo_bundles::PublicKey::parse(&other.public, "other").unwrap();
    let open = |keys: TrustedKeys| Bundle::open(&path).unwrap().verify(&keys).err().unwrap();
    let error = open(TrustedKeys::new([other]));
    assert!(error.to_string().contains(&made::public().id()), "{error}");
    assert!(error.is_untrusted());
    assert!(open(TrustedKeys::default()).to_string().contains("no trusted key"));
}

#[test]
fn truncated_or_lengthened_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(Sample::small().write(folder.path())).unwrap();
    let lengths = (0..200).map(|n| n * bytes.len() / 200).chain(bytes.len() - 100..bytes.len());
    for length in lengths {
        let error = check(folder.path(), &bytes[..length]).unwrap_err();
        assert!(error.is_untrusted(), "{length}: {error}");
    }
    for tail in [&b"x"[..], &[0; 512], &bytes[..1000], &bytes] {
        refused(folder.path(), "trailing", &[&bytes, tail].concat(), "");
    }
}

#[test]
fn hostile_archives_are_no_bundles() {
    let Some(data) = test_data() else { return eprintln!("skipped: no test data") };
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for entry in std::fs::read_dir(data.join("hostile")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(check(folder.path(), &bytes).unwrap_err().is_untrusted());
        seen += 1;
    }
    assert!(seen > 20);
}

/// The same archive entries inside of an otherwise sound bundle.
#[test]
fn hostile_archives_inside_a_bundle_are_refused() {
    let Some(data) = test_data() else { return eprintln!("skipped: no test data") };
    let folder = tempfile::tempdir().unwrap();
    let honest = Forge::open(&Sample::small().write(folder.path()));
    for entry in std::fs::read_dir(data.join("hostile")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".tar.gz") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let mut inflated = Vec::new();
        let _ = std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(&bytes[..]), &mut inflated);
        if inflated.is_empty() {
            continue;
        }
        let mut forge = honest.clone();
        let last = forge.entries.len();
        let raw = Raw { path: name.clone(), header: inflated, content: Vec::new(), padding: Vec::new() };
        forge.entries.insert(last, raw);
        let error = check(folder.path(), &forge.bytes()).unwrap_err();
        assert!(error.is_untrusted() && error.to_string().contains('`'), "{name}: {error}");
    }
}

/// Verifies the bytes as a file and as a pipe; both must agree on whether they are good.
fn check(folder: &Path, bytes: &[u8]) -> Result<(), Error> {
    let path = folder.join("attack.tar.gz");
    std::fs::write(&path, bytes).unwrap();
    let from_file = Bundle::open(&path).and_then(|bundle| bundle.verify(&trusted())?.verify_all(&Silent));
    let from_pipe = Pipe::open(std::io::Cursor::new(bytes.to_vec()), Path::new("-"))
        .and_then(|pipe| pipe.verify(&trusted())?.verify_all(&Silent));
    assert_eq!(from_file.is_ok(), from_pipe.is_ok(), "file: {from_file:?}, pipe: {from_pipe:?}");
    from_file
}

fn refused(folder: &Path, name: &str, bytes: &[u8], expected: &str) {
    let error = match check(folder, bytes) {
        Ok(()) => panic!("{name} was accepted"),
        Err(error) => error,
    };
    assert!(error.is_untrusted(), "{name}: {error}");
    assert!(error.to_string().contains(expected), "{name}: {error}");
    // Nothing but trust in the archive's framing is needed to see most of them.
    let extracted = folder.join("extracted");
    let outcome = Bundle::open(&folder.join("attack.tar.gz"))
        .and_then(|bundle| bundle.verify(&trusted()))
        .and_then(|bundle| bundle.extract(&extracted, &eggo_bundles::reader::Selection::All, &Silent));
    let outside = folder.join("evil");
    assert!(!outside.exists(), "{name} wrote outside");
    let _ = (outcome, std::fs::remove_dir_all(&extracted));
}

fn test_data() -> Option<PathBuf> {
    let named = std::env::var_os("EGGO_TEST_DATA").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    Some(named.unwrap_or(beside)).filter(|path| path.join("hostile").is_dir())
}

fn duplicate(forge: &mut Forge, path: &str) {
    let position = forge.position(path);
    forge.entries.insert(position + 1, forge.entries[position].clone());
}

fn duplicate_last(forge: &mut Forge) {
    let first = forge.entries[5].clone();
    forge.entries.push(first);
}

fn remove(forge: &mut Forge, path: &str) {
    let position = forge.position(path);
    forge.entries.remove(position);
}

fn swap(forge: &mut Forge, one: &str, other: &str) {
    let (one, other) = (forge.position(one), forge.position(other));
    forge.entries.swap(one, other);
}

fn replace(forge: &mut Forge, path: &str, mode: u32, kind: u8, link: &str, content: &[u8]) {
    *forge.entry(path) = Raw::new(path, mode, kind, link, content);
}

fn special(forge: &mut Forge, kind: u8) {
    replace(forge, "amd64/addons/net.yaml", 0o644, kind, "", b"");
}

fn other_mode(forge: &mut Forge) {
    let content = forge.entry("amd64/bin/tool").content.clone();
    replace(forge, "amd64/bin/tool", 0o777, b'0', "", &content);
}

/// A harmless name in the entry, another one in a pax header before it.
fn pax_path(forge: &mut Forge) {
    let entry = forge.entry("amd64/addons/net.yaml");
    let record = b"16 path=../evil\n";
    let pax = Raw::new("pax", 0o644, b'x', "", record);
    entry.header = [pax.header, pax.content, pax.padding, entry.header.clone()].concat();
}

fn hide_bytes(member: &mut Vec<u8>) {
    let trailer = member.split_off(member.len() - 8);
    member.extend(b"hidden");
    member.extend(trailer);
}

fn replace_index(forge: &mut Forge) {
    let index = Index { items: vec![item("amd64/bin/evil", b"x")], ..forge.index() };
    forge.entries[0] = Raw::new("eggo-bundle.json", 0o644, b'0', "", &index.to_bytes());
}

/// A whole small archive.
fn archive() -> Vec<u8> {
    let raw = Raw::new("amd64/bin/evil", 0o755, b'0', "", b"evil");
    [raw.header, raw.content, raw.padding, vec![0; 1024]].concat()
}

#[test]
fn items_of_another_bundle_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = Bundle::open(&Sample::small().write(folder.path())).unwrap().verify(&trusted()).unwrap();
    let foreign = Item { size: 1 << 39, ..item("amd64/bin/tool", b"x") };
    assert!(bundle.read(&foreign).err().unwrap().to_string().contains("amd64/bin/tool"));
}
