//! A node's programs before an upgrade, and the way back to them: what the node kept when they were
//! replaced, or its store. Programs of packages are in neither.

use crate::cluster::context::{Cluster, Node};
use crate::events::Event;
use crate::remote::{COMMON, Command, KEPT, Script};
use crate::run::{Outcome, Step, WhenStopped};
use crate::store::{FORMER, STORE};
use eggo_errors::Report;
use std::collections::BTreeMap;

/// Name, path and digest of each.
pub(super) struct Former(pub(super) Vec<(String, String, String)>);

impl Former {
    /// An upgrade that goes on where another was interrupted finds new programs there already, and must
    /// still know the way back: the first note stays until the node is through.
    pub(super) async fn of(cluster: &Cluster, node: &Node) -> Result<Self, Report> {
        let facts = node.facts(&cluster.config).await?;
        let paths = facts.programs.values().map(|program| program.path.as_str());
        let step = Step::new("upgrade/programs", "note the programs");
        let work = async |permit| {
            let command = Command::change(permit, "look at the programs", note(paths));
            // The note is ours.
            Ok((Outcome::Unchanged, node.remote.run(command).await?.text()))
        };
        let text = cluster.run.step_for(&node.host.name, step, work).await?;
        let digests: BTreeMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.split_once("  "))
            .map(|(digest, path)| (path, digest))
            .collect();
        let programs = facts.programs.iter().filter_map(|(name, program)| {
            let digest = digests.get(program.path.as_str())?;
            Some((name.clone(), program.path.clone(), digest.to_string()))
        });
        Ok(Self(programs.collect()))
    }

    /// The node is through, with the new programs or with its former ones.
    pub(super) async fn forget(cluster: &Cluster, node: &Node) -> Result<(), Report> {
        let title = "forget the former programs";
        let work = async |permit| {
            let script = Script::new(["rm -f \"$1\"\n"]).arg(FORMER);
            node.remote.run(Command::change(permit, title, script)).await?;
            Ok(Outcome::Unchanged)
        };
        let step = Step::new("upgrade/forget", title).always().when_stopped(WhenStopped::Done);
        cluster.run.step(&node.host.name, step, work).await.map(|_| ())
    }

    /// Puts the former programs back in place of those that differ; those that are to `stay` stay as they
    /// are. Returns the paths of those that the node has no copy of.
    pub(super) async fn give_back(
        &self,
        cluster: &Cluster,
        node: &Node,
        stay: &[&str],
    ) -> Result<Vec<String>, Report> {
        let going = self.0.iter().filter(|(name, ..)| !stay.contains(&name.as_str()));
        let script = Script::new([include_str!("back.sh")])
            .set("KEPT", KEPT)
            .set("STORE", STORE)
            .args(going.flat_map(|(_, path, digest)| [path, digest]));
        let title = "put the kept programs back";
        let work = async |permit| {
            let text = node.remote.run(Command::change(permit, title, script)).await?.text();
            Ok((Outcome::changed_if(text.lines().any(|line| line.starts_with("back "))), text))
        };
        let step = Step::new("upgrade/back", title);
        let text = cluster.run.step_for(&node.host.name, step, work).await?;
        let paths = |word: &str| -> Vec<String> {
            text.lines().filter_map(|line| line.strip_prefix(word)).map(String::from).collect()
        };
        let back = paths("back ").join(", ");
        let back = if back.is_empty() { "nothing" } else { &back };
        cluster.run.event(Event::note(Some(&node.host.name), format!("back in place: {back}")));
        Ok(paths("lost "))
    }
}

/// Notes the programs' digests, if there is no note yet, and prints the note.
fn note<'a>(paths: impl Iterator<Item = &'a str>) -> Script {
    Script::new([COMMON, include_str!("note.sh")]).set("NOTED", FORMER).args(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::upgrade::tests::{DEPLOY, cluster};
    use crate::remote::Host;
    use crate::remote::local::Local;
    use crate::run::Permit;
    use eggo_bundles::Digest;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::sync::Arc;

    fn write(path: &Path, text: &str, mode: u32) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[tokio::test]
    async fn programs_come_back_from_what_was_kept_or_from_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let remote = Arc::new(Local::new("m"));
        let digest = |text: &str| Digest::of(text.as_bytes()).hex();
        let place = |name: &str| folder.path().join("bin").join(name);
        for name in ["kept", "stored", "packaged", "same", "etcd"] {
            let text = if name == "same" { "same 1" } else { "broken 3" };
            write(&place(name), text, 0o755);
        }
        let kept = |kind: &str, name: &str| remote.path(&format!("{KEPT}/{kind}{}", place(name).display()));
        write(&kept("previous", "kept"), "kept 1", 0o700);
        // The upgrade before was interrupted: what it had put in place is what was kept last.
        write(&kept("previous", "stored"), "stored 2", 0o755);
        write(&remote.path(&format!("{STORE}/{}", digest("stored 1"))), "stored 1", 0o600);
        write(&kept("previous", "etcd"), "etcd 1", 0o755);

        let cluster = cluster(&folder.path().join("state"), DEPLOY, &[remote as Arc<dyn Host>]);
        let former = ["kept", "stored", "packaged", "same", "etcd"]
            .map(|name| (name.to_string(), place(name).display().to_string(), digest(&format!("{name} 1"))));
        let node = cluster.node("m").unwrap();
        let lost = Former(former.into()).give_back(&cluster, node, &["etcd"]).await.unwrap();
        assert_eq!(lost, [place("packaged").display().to_string()]);
        for (name, text, mode) in [
            ("kept", "kept 1", 0o700),
            ("stored", "stored 1", 0o755),
            ("packaged", "broken 3", 0o755),
            ("same", "same 1", 0o755),
            ("etcd", "broken 3", 0o755),
        ] {
            assert_eq!(std::fs::read_to_string(place(name)).unwrap(), text);
            assert_eq!(std::fs::metadata(place(name)).unwrap().permissions().mode() & 0o777, mode, "{name}");
        }
    }

    #[tokio::test]
    async fn a_note_is_whole_and_the_first_one_stays() {
        let (folder, node) = (tempfile::tempdir().unwrap(), Local::new("m"));
        let program = folder.path().join("kubelet");
        let noted = || {
            let script = note([program.to_str().unwrap()].into_iter());
            node.run(Command::change(Permit::of_a_test(), "note", script))
        };
        write(&program, "1", 0o755);
        std::fs::create_dir_all(node.path(KEPT)).unwrap();
        let new = node.path(&format!("{FORMER}.new"));
        std::os::unix::fs::symlink("/dev/full", &new).unwrap();
        assert!(noted().await.is_err(), "the disk is full");
        assert!(!node.path(FORMER).exists());
        std::fs::remove_file(&new).unwrap();
        let first = noted().await.unwrap().text();
        assert!(first.contains(&Digest::of(b"1").hex()), "{first}");
        write(&program, "2", 0o755);
        assert_eq!(noted().await.unwrap().text(), first);
    }
}
