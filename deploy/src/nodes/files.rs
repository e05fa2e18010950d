//! Binaries, files and folders, from the node's store to where they belong: whitelist checked again,
//! symlinks on the node that lead out refused, written beside and renamed, the old one kept.

use super::Nodes;
use crate::node::Planned;
use crate::plan::Wanted;
use crate::remote::{COMMON, Command, KEPT, RemoteError, Script};
use crate::run::{Outcome, Permit, Step};
use crate::store::{self, Damaged, INTACT};
use crate::undo::Undo;
use eggo_bundles::{Item, Kind, dst};
use eggo_errors::{Explain, Report};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// One file on its way to its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub item: Arc<Item>,
    pub path: String,
    pub mode: u32,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum PlaceError {
    #[error(transparent)]
    Bad(#[from] dst::BadDst),
    #[error("{node}: `{path}` leads to `{real}` on the node, outside of the whitelist")]
    LeadsOut { node: String, path: String, real: String },
    #[error("{node}: others than root may change `{path}`")]
    Shared { node: String, path: String },
}

impl Explain for PlaceError {
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new(match self {
            Self::Bad(_) => "bad-destination",
            Self::LeadsOut { .. } | Self::Shared { .. } => "unsafe-destination",
        })
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Bad(error) => Some(error.hint()),
            Self::LeadsOut { .. } => {
                Some("a symbolic link leads there: remove it, or choose another folder".into())
            }
            Self::Shared { .. } => Some(
                "they could redirect the installer there: remove it, give it to root alone, or choose another folder"
                    .into(),
            ),
        }
    }
}

/// Where each of a node's items goes; those without a destination stay in the store.
pub fn placements(items: &[Wanted]) -> Result<Vec<Placement>, PlaceError> {
    let mut placements = Vec::new();
    for Wanted { item, dst } in items {
        let Some(folder) = dst.as_deref().or(item.dst.as_deref()) else { continue };
        let name = match item.kind {
            Kind::Bin | Kind::File | Kind::Dir => item.path.rsplit('/').next().unwrap_or_default(),
            Kind::Pkg | Kind::Image | Kind::Addon => continue,
        };
        let path = dst::check(&format!("{folder}/{name}"))?;
        let mode = item.mode.unwrap_or(if item.kind == Kind::Bin { 0o755 } else { 0o644 }) & 0o777;
        placements.push(Placement { item: item.clone(), path, mode });
    }
    Ok(placements)
}

const STEP: &str = "files/install";

fn step(placements: &[Placement]) -> Step {
    let described = |p: &Placement| format!("{} {} {:o} {:?}", p.item.sha256, p.path, p.mode, p.item.link);
    Step::new(STEP, format!("install {} files", placements.len()))
        .fingerprint_of(placements.iter().map(described))
        .undo_all(undo(placements))
}

/// Whether the journal says so.
pub(super) fn is_in_place(all: &Nodes, node: &Planned<'_>) -> bool {
    placements(&node.plan.items).is_ok_and(|placements| {
        let step = step(&placements);
        placements.is_empty() || all.run.journal().is_done(&node.host.name, &step.id, &step.fingerprint)
    })
}

/// Some of the files are about to be others: the journal no longer says that all are in place.
pub(super) async fn reopen(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    Ok(all.run.reopen(&node.host.name, STEP).await?)
}

/// Puts everything in its place.
pub(super) async fn install(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    let placements = placements(&node.plan.items)?;
    if placements.is_empty() {
        return Ok(());
    }
    let (name, remote) = (&node.host.name, &*node.remote);
    let step = step(&placements);
    // The journal's word and a look at the node together: a file that was removed since comes back.
    let done = all.run.journal().is_done(name, &step.id, &step.fingerprint);
    if done && differing(node, &placements).await?.is_empty() {
        return Ok(());
    }
    let work = async |permit| {
        let output = remote.run(command(permit, &placements)).await?;
        let text = output.text();
        for line in text.lines() {
            if let Some((path, real)) =
                line.strip_prefix("leads out: ").and_then(|rest| rest.split_once(" -> "))
            {
                let (node, path, real) = (name.clone(), path.into(), real.into());
                return Err(PlaceError::LeadsOut { node, path, real }.into());
            }
            if let Some(path) = line.strip_prefix("shared: ") {
                return Err(PlaceError::Shared { node: name.clone(), path: path.into() }.into());
            }
        }
        if !output.success() {
            Damaged::check(name, &output, placements.iter().map(|placement| &*placement.item))?;
            return Err(RemoteError::failed(name, "install files", &output, false).into());
        }
        Ok(Outcome::changed_if(text.lines().any(|line| line == "changed")))
    };
    all.run.step(name, step.always(), work).await.map(|_| ())
}

/// Read backwards: files go back to what was there, then the folders that were made for them, deepest first.
fn undo(placements: &[Placement]) -> Vec<Undo> {
    let files = placements.iter().map(|placement| Undo::Item { path: placement.path.clone() });
    let mut folders = BTreeSet::new();
    for placement in placements {
        let mut folder = placement.path.as_str();
        while let Some((parent, _)) = folder.rsplit_once('/') {
            folder = parent;
            if dst::ALLOWED.contains(&folder) || dst::check(folder).is_err() {
                break;
            }
            folders.insert(folder.to_string());
        }
    }
    let own =
        ["/etc/kubernetes", "/opt/cni/bin", "/opt/cni", "/usr/libexec/cni", "/etc/cni/net.d", "/etc/cni"];
    let own =
        own.into_iter().filter(|folder| placements.iter().any(|p| p.path.starts_with(&format!("{folder}/"))));
    let mut folders: Vec<String> = folders.into_iter().chain(own.map(Into::into)).collect();
    folders.sort_by_key(String::len);
    folders.into_iter().map(|path| Undo::Folder { path }).chain(files).collect()
}

/// What is not on the node with the right size, mode and owner.
async fn differing<'a>(
    node: &Planned<'_>,
    placements: &'a [Placement],
) -> Result<Vec<&'a Placement>, Report> {
    let paths = placements.iter().map(|placement| placement.path.as_str());
    let script = Script::new([include_str!("found.sh")]).args(paths);
    let output = node.remote.run(Command::look("look at installed files", script)).await?;
    let text = output.text();
    let found: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.splitn(4, ' ').nth(3).map(|path| (path, line))).collect();
    let right = |placement: &&Placement| {
        let Placement { item, path, mode } = placement;
        if item.link.is_some() {
            return found.contains_key(path.as_str());
        }
        let wanted = format!("{} {mode:o} root:root {path}", item.size);
        found.get(path.as_str()).is_some_and(|line| *line == wanted)
    };
    Ok(placements.iter().filter(|placement| !right(placement)).collect())
}

fn command(permit: Permit, placements: &[Placement]) -> Command {
    let script = script(placements);
    Command::change(permit, "install files", script).timeout(Duration::from_secs(1800)).unchecked()
}

fn script(placements: &[Placement]) -> Script {
    let script = Script::new([COMMON, INTACT, include_str!("place.sh")])
        .set("KEPT", KEPT)
        .set("STORE", store::STORE)
        .set("WHITELIST", dst::ALLOWED.join(" "));
    placements.iter().fold(script, |script, Placement { item, path, mode }| match &item.link {
        Some(target) => script.args(["link", target, path, "-"]),
        None => script.args(["place", &item.sha256.hex(), path, &format!("{mode:o}")]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::sandbox::Sandbox;
    use eggo_bundles::{Arch, Digest};

    fn wanted(kind: Kind, path: &str, dst: &str) -> Wanted {
        let name = path.rsplit('/').next().unwrap();
        let item = Item::new(Arch::Amd64, kind, name, Digest::of(path.as_bytes()), 1);
        let item = Item { path: path.into(), ..item };
        Wanted { item: Arc::new(item), dst: Some(dst.into()) }
    }

    #[test]
    fn every_file_goes_into_the_folder_of_its_own() {
        let items = [
            wanted(Kind::Bin, "amd64/bin/kubelet", "/usr/bin"),
            wanted(Kind::File, "amd64/file/kubelet.service", "/usr/lib/systemd/system"),
            wanted(Kind::Dir, "amd64/dir/plugins/sub/x", "/opt/cni/bin/plugins/sub"),
            wanted(Kind::File, "amd64/file/settings", "/etc/kubernetes"),
            wanted(Kind::Pkg, "amd64/pkg/a.deb", "/usr/bin"),
        ];
        let placements = placements(&items).unwrap();
        let paths: Vec<(&str, u32)> = placements.iter().map(|p| (p.path.as_str(), p.mode)).collect();
        let expected = [
            ("/usr/bin/kubelet", 0o755),
            ("/usr/lib/systemd/system/kubelet.service", 0o644),
            ("/opt/cni/bin/plugins/sub/x", 0o644),
            ("/etc/kubernetes/settings", 0o644),
        ];
        assert_eq!(paths, expected);
        let folders: Vec<String> = undo(&placements).iter().rev().skip(4).map(Undo::title).collect();
        let expected = [
            "/opt/cni/bin/plugins/sub",
            "/opt/cni/bin/plugins",
            "/etc/kubernetes",
            "/opt/cni/bin",
            "/opt/cni",
        ];
        assert_eq!(folders, expected.map(|path| format!("remove {path} if empty")));
    }

    /// A node below a folder, where no program syncs or gives files to root.
    fn node() -> (Sandbox, String) {
        let sandbox = Sandbox::new();
        sandbox.program("sync", "echo sync $(cat usr/bin/?)");
        sandbox.program("chown", ":");
        sandbox.program("systemctl", ":");
        let root = sandbox.path("usr").parent().unwrap().canonicalize().unwrap().display().to_string();
        (sandbox, root)
    }

    /// Puts a file with such a text in some places on the node; whether it could, and what it said.
    fn install((sandbox, root): &(Sandbox, String), paths: &[&str], text: &str) -> (bool, String) {
        let item = Arc::new(Item::new(Arch::Amd64, Kind::Bin, "x", Digest::of(text.as_bytes()), 1));
        sandbox.write(&format!("store/{}", item.sha256), text);
        let place =
            |path: &&str| Placement { item: item.clone(), path: format!("{root}{path}"), mode: 0o755 };
        let placements: Vec<Placement> = paths.iter().map(place).collect();
        let allowed: Vec<String> = dst::ALLOWED.iter().map(|folder| format!("{root}{folder}")).collect();
        let script = script(&placements)
            .set("KEPT", format!("{root}/kept"))
            .set("STORE", format!("{root}/store"))
            .set("WHITELIST", allowed.join(" "));
        let said = sandbox.run(script);
        assert!(said.err.is_empty(), "{said:?}");
        (said.done, said.out)
    }

    #[test]
    fn what_was_there_is_on_the_disk_before_ours_takes_its_place() {
        let node = node();
        let (sandbox, root) = &node;
        let install = |text: &str| {
            let (done, said) = install(&node, &["/usr/bin/a", "/usr/bin/b"], text);
            assert!(done, "{said}");
            said
        };
        sandbox.write("usr/bin/a", "users\n");
        assert_eq!(install("ours"), "sync users\nchanged\nchanged\n");
        let kept = |kind: &str| sandbox.read(&format!("kept/{kind}{root}/usr/bin/a"));
        assert_eq!(kept("original"), "users\n");
        assert_eq!(install("newer"), "sync oursours\nchanged\nchanged\n", "the previous ones are kept");
        assert_eq!((kept("original"), kept("previous")), ("users\n".into(), "ours".into()));
        assert_eq!(std::fs::read_dir(format!("{root}/usr/bin")).unwrap().count(), 2);
    }

    #[test]
    fn what_is_damaged_in_the_store_changes_nothing() {
        let node = node();
        let (sandbox, root) = &node;
        sandbox.write("usr/bin/a", "users");
        let items = ["good", "bad"]
            .map(|text| Arc::new(Item::new(Arch::Amd64, Kind::Bin, text, Digest::of(text.as_bytes()), 1)));
        sandbox.write(&format!("store/{}", items[0].sha256), "good");
        sandbox.write(&format!("store/{}", items[1].sha256), "bAd");
        let placements: Vec<Placement> = [("a", 0), ("b", 1)]
            .map(|(name, at)| Placement {
                item: items[at].clone(),
                path: format!("{root}/usr/bin/{name}"),
                mode: 0o755,
            })
            .into();
        let script = script(&placements)
            .set("KEPT", format!("{root}/kept"))
            .set("STORE", format!("{root}/store"))
            .set("WHITELIST", format!("{root}/usr/bin"));
        let said = sandbox.run(script);
        assert_eq!((said.done, said.out), (false, format!("damaged {}\n", items[1].sha256)));
        assert_eq!(sandbox.read("usr/bin/a"), "users");
        assert!(!sandbox.has("usr/bin/b"));
    }

    #[test]
    fn nobody_else_leads_a_file_elsewhere() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
        let node = node();
        let (sandbox, root) = &node;
        let at = |path: &str| format!("{root}{path}");
        let all_may = |path: &str, mode| {
            std::fs::set_permissions(at(path), std::fs::Permissions::from_mode(mode)).unwrap()
        };
        sandbox.write("victim", "secret");
        std::fs::create_dir_all(at("/usr/bin")).unwrap();
        for planted in ["a.eggo-new", "a.eggo-new.abcdef"] {
            symlink(at("/victim"), at("/usr/bin/") + planted).unwrap();
        }
        assert_eq!(install(&node, &["/usr/bin/a"], "ours"), (true, "changed\n".into()));
        assert_eq!(std::fs::read_to_string(at("/victim")).unwrap(), "secret");
        assert_eq!(std::fs::read_to_string(at("/usr/bin/a")).unwrap(), "ours");

        std::fs::create_dir_all(at("/usr/bin/x/y")).unwrap();
        let shared = |path: &str| (false, format!("shared: {root}{path}\n"));
        if std::fs::metadata(at("/usr/bin/x")).unwrap().uid() != 0 {
            // Without root's rights all folders here are another's.
            assert_eq!(install(&node, &["/usr/bin/x/a"], "ours"), shared("/usr/bin/x"));
            return;
        }
        chown(at("/usr/bin/x"), None, Some(0)).unwrap();
        chown(at("/usr/bin/x/y"), None, Some(0)).unwrap();
        assert_eq!(install(&node, &["/usr/bin/x/y/z/a"], "ours"), (true, "changed\n".into()));
        let paths = ["/usr/bin/b", "/usr/bin/x/y/b"];
        all_may("/usr/bin/x", 0o777);
        assert_eq!(install(&node, &paths, "ours"), shared("/usr/bin/x"));
        all_may("/usr/bin/x", 0o775);
        chown(at("/usr/bin/x"), None, Some(65534)).unwrap();
        assert_eq!(install(&node, &paths, "ours"), shared("/usr/bin/x"));
        all_may("/usr/bin/x", 0o1777);
        chown(at("/usr/bin/x/y"), Some(65534), None).unwrap();
        assert_eq!(install(&node, &paths, "ours"), shared("/usr/bin/x/y"));
        assert!(!std::path::Path::new(&at("/usr/bin/b")).exists(), "nothing is changed then");
        symlink("x/y", at("/usr/bin/z")).unwrap();
        assert_eq!(install(&node, &["/usr/bin/z/b"], "ours"), shared("/usr/bin/x/y"));
        chown(at("/usr/bin/x/y"), Some(0), None).unwrap();
        assert!(
            install(&node, &["/usr/bin/z/b"], "ours").0,
            "as in /tmp: only root may replace what is root's"
        );
    }

    #[test]
    fn a_destination_outside_of_the_whitelist_is_refused_again() {
        for folder in ["/etc", "/etc/kubernetes-evil", "/usr/bin/../../etc"] {
            assert!(placements(&[wanted(Kind::Bin, "amd64/bin/x", folder)]).is_err(), "{folder}");
        }
    }
}
