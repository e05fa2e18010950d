//! Other programs read what is written here, and the other way round.

mod made;

use eggo_bundles::progress::Silent;
use eggo_bundles::reader::{Pipe, Selection};
use eggo_bundles::{Bundle, Digest, PublicKey, SecretKey, TrustedKeys, seal, write};
use made::{Sample, public, trusted};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Each lists and extracts a tar.gz: name of the program, and its command line.
const TARS: &[(&str, &[&str], &[&str])] = &[
    ("tar", &["tar", "tzf", "BUNDLE"], &["tar", "xzf", "BUNDLE", "-C", "FOLDER"]),
    ("busybox", &["busybox", "tar", "tzf", "BUNDLE"], &["busybox", "tar", "xzf", "BUNDLE", "-C", "FOLDER"]),
    ("bsdtar", &["bsdtar", "tzf", "BUNDLE"], &["bsdtar", "xzf", "BUNDLE", "-C", "FOLDER"]),
    (
        "python3",
        &["python3", "-c", "import sys,tarfile\nfor m in tarfile.open(sys.argv[1]): print(m.name)", "BUNDLE"],
        &[
            "python3",
            "-c",
            "import sys,tarfile\ntarfile.open(sys.argv[1]).extractall(sys.argv[2])",
            "BUNDLE",
            "FOLDER",
        ],
    ),
];

/// Runs it; none if there is no such program.
fn run(words: &[&str], bundle: &Path, folder: &Path) -> Option<String> {
    let words: Vec<String> = words
        .iter()
        .map(|word| {
            word.replace("BUNDLE", &bundle.to_string_lossy()).replace("FOLDER", &folder.to_string_lossy())
        })
        .collect();
    let output =
        match Command::new(&words[0]).args(&words[1..]).current_dir(folder).stdin(Stdio::null()).output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("skipped: no {}", words[0]);
                return None;
            }
            other => other.unwrap(),
        };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    assert!(words[0] == "python3" || errors.trim().is_empty(), "{words:?}: {errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Path and digest of every file below `folder`; links by their target.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            if meta.is_dir() {
                folders.push(path);
            } else if meta.is_symlink() {
                found.insert(name, format!("-> {}", std::fs::read_link(&path).unwrap().display()));
            } else {
                let mode = std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777;
                found.insert(name, format!("{mode:o} {}", Digest::of(&std::fs::read(&path).unwrap())));
            }
        }
    }
    found
}

#[test]
fn every_tar_lists_and_extracts_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = Sample::small().write(folder.path());
    let bundle = Bundle::open(&path).unwrap().verify(&trusted()).unwrap();
    let own = folder.path().join("own");
    bundle.extract(&own, &Selection::All, &Silent).unwrap();
    let expected = files(&own);
    let mut listed: Vec<&str> =
        ["eggo-bundle.json", "eggo-bundle.json.minisig", "SHA256SUMS", "sbom.spdx.json"].into();
    listed.extend(bundle.index().items.iter().map(|item| item.path.as_str()));
    assert_eq!(expected.len(), listed.len());

    for (name, list, extract) in TARS {
        let out = folder.path().join(name);
        std::fs::create_dir(&out).unwrap();
        let Some(names) = run(list, &path, &out) else { continue };
        assert_eq!(names.lines().collect::<Vec<_>>(), listed, "{name}");
        run(extract, &path, &out).unwrap();
        assert_eq!(files(&out), expected, "{name}");
        run(&["sha256sum", "-c", "--quiet", "SHA256SUMS"], &path, &out);
    }
    run(&["gzip", "-t", "BUNDLE"], &path, folder.path());
    run(&["pigz", "-t", "BUNDLE"], &path, folder.path());
}

#[test]
fn a_pipe_extracts_the_same_as_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = Sample::small().write(folder.path());
    let bundle = Bundle::open(&path).unwrap().verify(&trusted()).unwrap();
    for (number, selection) in [
        Selection::All,
        Selection::Paths(vec!["arm64".into(), "SHA256SUMS".into()]),
        Selection::Paths(vec!["arm64/pkg/data_1.0_all.deb".into()]),
    ]
    .iter()
    .enumerate()
    {
        let (from_file, from_pipe) =
            (folder.path().join(format!("f{number}")), folder.path().join(format!("p{number}")));
        let one = bundle.extract(&from_file, selection, &Silent).unwrap();
        let pipe = Pipe::open(std::fs::File::open(&path).unwrap(), Path::new("-")).unwrap();
        let other = pipe.verify(&trusted()).unwrap().extract(&from_pipe, selection, &Silent).unwrap();
        assert_eq!(one, other);
        assert_eq!(files(&from_file), files(&from_pipe));
        assert_eq!(files(&from_file).len(), one.files);
    }
    let unknown = Selection::Paths(vec!["arm64/bin/no".into()]);
    let error = bundle.extract(&folder.path().join("x"), &unknown, &Silent).unwrap_err();
    assert!(error.to_string().contains("`arm64/bin/no`"), "{error}");
}

#[test]
fn extraction_does_not_follow_what_lies_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = Sample::small().write(folder.path());
    let bundle = Bundle::open(&path).unwrap().verify(&trusted()).unwrap();
    let (out, outside) = (folder.path().join("out"), folder.path().join("outside"));
    std::fs::create_dir_all(&out).unwrap();
    std::fs::create_dir_all(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, out.join("amd64")).unwrap();
    let error = bundle.extract(&out, &Selection::All, &Silent).unwrap_err();
    assert!(error.to_string().contains("cannot be replaced"), "{error}");
    assert_eq!(files(&outside).len(), 0);

    // A link at a file's own name is replaced, not followed.
    std::fs::remove_file(out.join("amd64")).unwrap();
    std::fs::create_dir_all(out.join("amd64/bin")).unwrap();
    std::os::unix::fs::symlink(outside.join("victim"), out.join("amd64/bin/tool")).unwrap();
    bundle.extract(&out, &Selection::All, &Silent).unwrap();
    assert_eq!(files(&outside).len(), 0);
    assert!(out.join("amd64/bin/tool").symlink_metadata().unwrap().is_file());
    // A second time over the same folder gives the same.
    let before = files(&out);
    bundle.extract(&out, &Selection::All, &Silent).unwrap();
    assert_eq!(files(&out), before);
}

#[test]
fn minisign_accepts_our_signature() {
    let folder = tempfile::tempdir().unwrap();
    let path = Sample::small().write(folder.path());
    let bundle = Bundle::open(&path).unwrap().verify(&trusted()).unwrap();
    let selection = Selection::Paths(vec!["eggo-bundle.json".into(), "eggo-bundle.json.minisig".into()]);
    bundle.extract(folder.path(), &selection, &Silent).unwrap();
    std::fs::write(folder.path().join("key.pub"), public().to_text()).unwrap();
    let Some(said) =
        run(&["minisign", "-V", "-p", "key.pub", "-m", "eggo-bundle.json"], &path, folder.path())
    else {
        return;
    };
    assert!(said.contains("Trusted comment: eggo bundle sample 1.0 amd64,arm64"), "{said}");
}

#[test]
fn we_accept_keys_and_signatures_of_minisign() {
    let folder = tempfile::tempdir().unwrap();
    let path = Sample::small().write(folder.path());
    let make = ["minisign", "-G", "-W", "-f", "-p", "m.pub", "-s", "m.key"];
    if run(&make, &path, folder.path()).is_none() {
        return;
    }
    let at = |name: &str| folder.path().join(name);
    let key = SecretKey::load(&at("m.key"), || None).unwrap();
    let trusted = TrustedKeys::from_files(&[at("m.pub")]).unwrap();

    // Its key, our signature, its check.
    let sample = Sample::small();
    let sealed = seal(sample.index.clone(), &key).unwrap();
    std::fs::write(at("index"), sealed.bytes()).unwrap();
    std::fs::write(at("index.minisig"), sealed.signature()).unwrap();
    run(&["minisign", "-V", "-p", "m.pub", "-m", "index"], &path, folder.path()).unwrap();
    write(&at("theirs.tar.gz"), &sealed, &sample, &Silent).unwrap();
    Bundle::open(&at("theirs.tar.gz")).unwrap().verify(&trusted).unwrap();

    // Its signature, our check; prehashed and legacy.
    for flag in [None, Some("-l")] {
        let sign: Vec<&str> =
            ["minisign", "-S", "-s", "m.key", "-m", "index"].into_iter().chain(flag).collect();
        run(&sign, &path, folder.path()).unwrap();
        let mut forge = made::forge::Forge::open(&at("theirs.tar.gz"));
        let signature = std::fs::read(at("index.minisig")).unwrap();
        forge.replace_signature(&signature);
        std::fs::write(at("signed.tar.gz"), forge.bytes()).unwrap();
        let bundle = Bundle::open(&at("signed.tar.gz")).unwrap().verify(&trusted).unwrap();
        bundle.verify_all(&Silent).unwrap();
    }

    // Its key with a password. It reads the password, twice, from its input.
    let mut make = Command::new("minisign")
        .args(["-G", "-f", "-p", "e.pub", "-s", "e.key"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    make.stdin.take().unwrap().write_all(b"open sesame\nopen sesame\n").unwrap();
    assert!(make.wait().unwrap().success());
    let key = SecretKey::load(&at("e.key"), || Some("open sesame".into())).unwrap();
    assert_eq!(*key.public(), PublicKey::load(&at("e.pub")).unwrap());

    // Our key pair is one that it signs with.
    std::fs::write(at("our.key"), made::secret_text()).unwrap();
    let signed = Command::new("minisign")
        .args(["-S", "-s", "our.key", "-m", "index"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
    assert!(PublicKey::parse(&public().to_text(), "ours").is_ok());
}

#[test]
fn two_builds_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let mut shuffled = Sample::small();
    shuffled.index.items.reverse();
    let one = std::fs::read(Sample::small().write(folder.path())).unwrap();
    let other = std::fs::read(shuffled.write(folder.path())).unwrap();
    assert!(one == other);
}
