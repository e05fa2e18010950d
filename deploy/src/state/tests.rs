use super::*;
use std::os::unix::fs::PermissionsExt as _;

fn names() -> Vec<Name> {
    let hook = Name::Hook(Arch::Arm64, "before.sh".into());
    let keys = ["ca.key", "nodes/a/apiserver.key"].map(|path| Name::Pki(path.into()));
    let mut names = vec![Name::Journal, Name::Lock, Name::Config, Name::Admin, hook];
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
