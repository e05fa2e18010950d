//! Names of files that are not finished: a process that is told to end removes them first.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static NAMES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A temporary name, known as long as this lives. Whoever made the file removes or renames it.
pub(crate) struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Makes a file with a temporary name of its own choice.
    pub(crate) fn make<T>(
        make: impl FnOnce() -> io::Result<T>,
        name: impl Fn(&T) -> &Path,
    ) -> io::Result<(T, Self)> {
        let mut names = names();
        let made = make()?;
        let path = name(&made).to_path_buf();
        names.insert(path.clone());
        Ok((made, Self { path }))
    }

    /// For a file that is about to be made.
    pub(crate) fn new(path: PathBuf) -> Self {
        names().insert(path.clone());
        Self { path }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        names().remove(&self.path);
    }
}

/// Removes what has only a temporary name, and ends the process. No further one is made.
pub fn end_process(code: i32) -> ! {
    let names = names();
    for path in names.iter() {
        // What is gone already was finished in this moment.
        let _ = std::fs::remove_file(path);
    }
    std::process::exit(code)
}

fn names() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    // A set of paths is sound wherever a thread stopped.
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}
