//! How a change to a node is taken back. Each undo is a piece of shell that may run twice.

use crate::facts::Manager;
use crate::remote::{KEPT, quote, words};
use crate::runtimes::RuntimeKind;
use eggo_bundles::dst;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub enum Undo {
    /// A file that [`crate::remote::Host::write_files`] put there: what was there before comes back, or it goes.
    File { path: String },
    /// The same for an item of the bundle: its place must still be in the whitelist, on the node too.
    Item { path: String },
    /// A folder that was made: it goes with everything in it.
    Tree { path: String },
    /// A folder that was made for others to use: it goes if it is empty.
    Folder { path: String },
    /// A unit that was started: stopped, disabled, and forgotten if it failed.
    Unit { name: String },
    /// Packages that were not there before.
    Packages { manager: Manager, names: Vec<String> },
    /// Images that were loaded; only done on request.
    Images { runtime: RuntimeKind, names: Vec<String> },
    /// Anything else. Must hold no secret.
    Script { title: String, script: String },
}

impl Undo {
    pub fn file(path: impl Into<String>) -> Self {
        Self::File { path: path.into() }
    }

    pub fn tree(path: impl Into<String>) -> Self {
        Self::Tree { path: path.into() }
    }

    pub fn unit(name: impl Into<String>) -> Self {
        Self::Unit { name: name.into() }
    }

    pub fn script(title: impl Into<String>, script: impl Into<String>) -> Self {
        Self::Script { title: title.into(), script: script.into() }
    }

    /// What it does, for the report.
    pub fn title(&self) -> String {
        match self {
            Self::File { path } | Self::Item { path } => format!("restore or remove {path}"),
            Self::Tree { path } => format!("remove {path}"),
            Self::Folder { path } => format!("remove {path} if empty"),
            Self::Unit { name } => format!("stop {name}"),
            Self::Packages { names, .. } => format!("remove {} packages", names.len()),
            Self::Images { names, .. } => format!("remove {} images", names.len()),
            Self::Script { title, .. } => title.clone(),
        }
    }

    /// The shell for it.
    pub fn shell(&self) -> String {
        match self {
            Self::File { path } => {
                let original = quote(&format!("{KEPT}/original{path}"));
                let (absent, path) = (quote(&format!("{KEPT}/absent{path}")), quote(path));
                // With neither note it is not ours: it was like ours before, or was never written.
                format!(
                    "if [ -e {original} ] || [ -L {original} ]; then rm -rf {path}; cp -a {original} {path}; rm -rf {original}\n\
                     elif [ -e {absent} ]; then rm -f {path} {absent}; fi"
                )
            }
            Self::Item { path } => {
                let folder = path.rsplit_once('/').map_or("/", |(folder, _)| folder);
                let allowed = dst::ALLOWED.map(|allowed| format!("{allowed}|{allowed}/*")).join("|");
                let restore = Self::file(path.clone()).shell();
                format!(
                    "case $(readlink -m -- {}) in {allowed}) {restore} ;; *) echo {} leads out of the whitelist >&2; false ;; esac",
                    quote(folder),
                    quote(path)
                )
            }
            Self::Tree { path } => format!("rm -rf {}", quote(path)),
            Self::Folder { path } => {
                let path = quote(path);
                format!("[ ! -d {path} ] || rmdir {path} 2>/dev/null || :")
            }
            Self::Unit { name } => {
                let name = quote(name);
                format!(
                    "systemctl disable --now {name} 2>/dev/null || systemctl stop {name} 2>/dev/null || :\n\
                     systemctl reset-failed {name} 2>/dev/null || :"
                )
            }
            Self::Packages { manager, names } => manager.remove(&words(names)),
            Self::Images { runtime, names } => runtime.call("remove_images").args(names).to_string(),
            Self::Script { script, .. } => script.clone(),
        }
    }

    /// Whether it is safe to do: a journal that was tampered with must not remove a system.
    pub fn is_sound(&self) -> bool {
        let deep = |path: &str, least: usize| {
            path.starts_with('/')
                && !path.split('/').any(|part| part == "..")
                && path.split('/').filter(|part| !part.is_empty() && *part != ".").count() >= least
        };
        match self {
            Self::File { path } => deep(path, 1),
            Self::Item { path } => dst::check(path).is_ok(),
            Self::Images { names, .. } => names.iter().all(|name| !name.starts_with('-')),
            Self::Tree { path } | Self::Folder { path } => deep(path, 2),
            Self::Unit { name } => !name.starts_with('-'),
            Self::Packages { names, .. } => names.iter().all(|name| !name.starts_with('-')),
            Self::Script { .. } => true,
        }
    }
}

impl Manager {
    /// Removes what a list on the node names, one package a line.
    pub(crate) fn remove_listed(self, list: &str) -> String {
        format!("if [ -s {list} ]; then\n{}\nrm -f {list}; fi", self.remove(&format!("$(cat {list})")))
    }

    /// Removes what of `names` is still there, without touching anything else: a package that
    /// someone else's package needs by now stays.
    pub(super) fn remove(self, names: &str) -> String {
        let (there, would, remove) = match self {
            Self::Dpkg => (
                format!(
                    "there=$(dpkg-query -W -f '${{db:Status-Abbrev}} ${{binary:Package}}\\n' {names} 2>/dev/null | \
                     awk '$1 !~ /^.n/ {{ print $2 }}')"
                ),
                "dpkg --no-act --purge",
                "DEBIAN_FRONTEND=noninteractive dpkg --purge",
            ),
            Self::Rpm => (
                format!(
                    "there=; for name in {names}; do rpm -q --quiet \"$name\" && there=\"$there $name\"; done"
                ),
                "rpm -e --test",
                "rpm -e",
            ),
        };
        // All at once, for they may need each other; else one by one, as long as any can go.
        format!(
            "{there}\nif [ -z \"$there\" ]; then :; elif {would} $there >/dev/null 2>&1; then {remove} $there; else\n\
             again=yes; while [ -n \"$again\" ]; do again=; left=; for name in $there; do\n\
             if {would} $name >/dev/null 2>&1; then {remove} $name; again=yes; else left=\"$left $name\"; fi; done\n\
             there=$left; done; fi"
        )
    }
}
