//! `docs/format.md` suffices: `second/bundle.py` was written from that page alone. It reads what is written here, refuses what
//! is damaged, and what it writes is read here.

mod made;

use eggo_bundles::progress::Silent;
use eggo_bundles::{Arch, Bundle};
use made::{Sample, elf, public, trusted};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const FLIPS: usize = 24;

fn second(words: &[&Path]) -> Output {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/second/bundle.py");
    Command::new("python3").arg("-B").arg(program).args(words).output().unwrap()
}

fn can_run() -> bool {
    let missing =
        ["python3", "minisign"].into_iter().find(|name| Command::new(name).arg("-v").output().is_err());
    if let Some(name) = missing {
        eprintln!("skipped: the second reader: no {name}");
    }
    missing.is_none()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_string()
}

#[test]
fn it_reads_our_bundles_and_no_others() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (bundle, key) = (Sample::small().write(folder.path()), folder.path().join("key.pub"));
    fs::write(&key, public().to_text()).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let (old, old_key) = (golden.join("format-1.tar.gz"), golden.join("format-1.pub"));
    for (bundle, key) in [(&bundle, &key), (&old, &old_key)] {
        let read = second(&[Path::new("verify"), bundle, key]);
        assert!(text(&read.stdout).starts_with("ok: "), "{}", text(&read.stderr));
    }
    let other = second(&[Path::new("verify"), &bundle, &old_key]);
    assert!(!other.status.success(), "signed by another key");

    let sound = fs::read(&old).unwrap();
    for flip in 0..FLIPS {
        let mut bytes = sound.clone();
        bytes[flip * sound.len() / FLIPS] ^= 1;
        let damaged = folder.path().join("damaged.tar.gz");
        fs::write(&damaged, bytes).unwrap();
        let told = second(&[Path::new("verify"), &damaged, &old_key]);
        assert!(text(&told.stderr).starts_with("refused: "), "flip {flip}: {}", text(&told.stdout));
    }
}

#[test]
fn we_read_what_it_writes() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let put = |path: &str, content: &[u8]| {
        fs::create_dir_all(at("content").join(path).parent().unwrap()).unwrap();
        fs::write(at("content").join(path), content).unwrap();
    };
    for arch in Arch::ALL {
        put(&format!("{arch}/bin/tool"), &elf(arch, 3 << 20));
        put(&format!("{arch}/file/shared"), b"the same for both");
    }
    put(&format!("amd64/dir/tree/{}/deep", "long".repeat(40)), b"");
    std::os::unix::fs::symlink("..", at("content/amd64/dir/tree").join("long".repeat(40)).join("up"))
        .unwrap();
    fs::write(at("key"), made::secret_text()).unwrap();
    let out = at("out.tar.gz");
    let written = second(&[Path::new("write"), &at("content"), &at("key"), &out]);
    assert_eq!(text(&written.stdout), "ok: 6 items", "{}", text(&written.stderr));
    let bundle = Bundle::open(&out).unwrap().verify(&trusted()).unwrap();
    bundle.verify_all(&Silent).unwrap();
    assert_eq!(bundle.index().items.len(), 6);
}
