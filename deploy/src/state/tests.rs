use super::*;
use std::os::unix::fs::PermissionsExt as _;

fn names() -> Vec<Name> {
    let hook = Name::Hook(Arch::Arm64, "before.sh".into());
    let keys = ["ca.key", "nodes/a/apiserver.key"].map(|path| Name::Pki(path.into()));
    let mut names = vec![Name::Journal, Name::Lock, Name::Config, Name::Images, Name::Admin, hook];
    names.extend(keys);
    names.push(Name::Backup("etcd-1.db".into()));
    names.sort();
    names
}

#[test]
fn a_folder_and_memory_keep_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let states: [&dyn State; 2] = [&Folder::new(folder.path().join("new/one")), &Memory::default()];
    for state in states {
        assert_eq!(state.list().unwrap(), []);
        assert_eq!(state.get(&Name::Config).unwrap(), None);
        state.remove(&Name::Config).unwrap();
        for name in names() {
            state.put(&name, b"old").unwrap();
            state.put(&name, b"new").unwrap();
            assert_eq!(state.get(&name).unwrap().as_deref(), Some(&b"new"[..]));
            assert_eq!(Name::of(&name.path()), Some(name));
        }
        assert_eq!(state.list().unwrap(), names());
        state.remove(&Name::Admin).unwrap();
        assert_eq!(state.get(&Name::Admin).unwrap(), None);
        assert_eq!(state.list().unwrap().len(), names().len() - 1);
    }
}

#[test]
fn files_are_private_and_nothing_is_left_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let state = Folder::new(folder.path().join("one"));
    let (name, path) = (Name::Pki("etcd/ca.key".into()), folder.path().join("one/pki/etcd"));
    state.put(&name, b"key").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&state.path(&name))), (0o700, 0o600));
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
    // A file that cannot be replaced leaves nothing half done.
    std::fs::create_dir(path.join("folder")).unwrap();
    assert!(write(&path.join("folder"), b"x").is_err());
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 2);
}

/// A cluster's folder with all that there can be, and a file of somebody else.
fn full(folder: &Path) -> Folder {
    let state = Folder::new(folder.join("one"));
    for name in names() {
        state.put(&name, name.path().display().to_string().as_bytes()).unwrap();
    }
    for path in ["notes", ".new-x", "pki/nodes/a/.new-y"] {
        std::fs::write(folder.join("one").join(path), path).unwrap();
    }
    state
}

#[test]
fn a_folder_that_is_moved_aside_keeps_everything_under_a_dated_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let state = full(folder.path());
        let before = state.list().unwrap();
        let aside = state.move_aside().unwrap();
        assert!(!folder.path().join("one").exists() && !seen.contains(&aside));
        assert_eq!(Folder::new(&aside).list().unwrap(), before);
        assert!(folder::was_moved_aside(&aside), "{}", aside.display());
        seen.push(aside);
    }
    // One that looks like it is a cluster all the same.
    for name in ["one", "one.removed-", "one.removed-monday", "removed-2026-11-18T170600Z"] {
        assert!(!folder::was_moved_aside(&folder.path().join(name)), "{name}");
    }
    assert_eq!(list(folder.path()).unwrap(), Listed::default());
}

#[test]
fn a_purge_leaves_backups_and_what_is_not_ours() {
    let folder = tempfile::tempdir().unwrap();
    let left = full(folder.path()).purge().unwrap().unwrap();
    let find = std::process::Command::new("find").arg(&left).args(["-type", "f", "-printf", "%P\n"]).output();
    let mut files: Vec<String> =
        String::from_utf8(find.unwrap().stdout).unwrap().lines().map(str::to_string).collect();
    files.sort();
    assert_eq!(files, ["backups/etcd-1.db", "notes"]);
    let state = Folder::new(folder.path().join("two"));
    state.put(&Name::Pki("ca.key".into()), b"key").unwrap();
    assert_eq!(state.purge().unwrap(), None);
    assert!(!folder.path().join("two").exists());
}
