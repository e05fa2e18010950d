//! A node may be the machine that we run on: undoing what was done there must not remove the
//! cluster's own state, on which the undoing itself depends.

use crate::journal::Entry;
use crate::undo::removable;
use eggo_errors::Report;
use std::path::{Path, PathBuf};

/// The folder that a cleanup would remove with `state` in it, if this machine were a node.
pub fn removed_folder(state: &Path) -> Option<&'static str> {
    let real = real(state);
    removable().find(|folder| real.starts_with(folder))
}

/// Refuses a journal that would remove `state` from under us. `entries` are those of this machine.
pub(super) fn refuse_own_state(entries: &[Entry], state: &Path) -> Result<(), Report> {
    let real = real(state);
    let undos = entries.iter().flat_map(|entry| &entry.undo);
    let mut trees = undos.flat_map(|undo| undo.trees());
    match trees.find(|path| real.starts_with(path)) {
        None => Ok(()),
        Some(path) => {
            let message = format!("this machine is a node, and `{path}` goes with the cluster's state in it");
            Err(Report::new(message)
                .note(format!("the state is in `{}`", state.display()))
                .hinted("move that folder elsewhere and name its new place with --state-dir"))
        }
    }
}

/// Without links, as far as the path exists.
fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let known = absolute.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match known {
        Some((above, real)) => real.join(absolute.strip_prefix(above).unwrap_or(Path::new(""))),
        None => absolute,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ROOT;
    use crate::undo::Undo;

    #[test]
    fn the_state_is_never_removed_from_under_us() {
        assert_eq!(removed_folder(Path::new("/etc/eggo/one")), None);
        assert_eq!(removed_folder(Path::new("/var/lib/eggo/state/one")), Some(ROOT));
        assert_eq!(removed_folder(Path::new("/var/lib/eggo-state")), None);
        let entry = |path: &str| Entry {
            node: "a".into(),
            phase: "p".into(),
            step: "s".into(),
            fingerprint: String::new(),
            undo: vec![Undo::tree(path)],
            done: true,
        };
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("link/one");
        std::fs::create_dir_all(folder.path().join("real")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("real"), folder.path().join("link")).unwrap();
        let real = folder.path().join("real").canonicalize().unwrap();
        assert!(refuse_own_state(&[entry("/etc/kubernetes")], &state).is_ok());
        assert!(refuse_own_state(&[entry(real.to_str().unwrap())], &state).is_err());
    }
}
