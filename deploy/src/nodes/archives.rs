//! Image archives of eggo's tarballs, as `docker save` writes them: from the node's store straight
//! into its container runtime. What is in them is asked of the archive itself, on the node.

use super::Nodes;
use super::images::{LOAD, Listed, TIMEOUT, loaded};
use crate::node::Planned;
use crate::plan::reference;
use crate::remote::{Command, Script};
use crate::run::{Outcome, Step};
use crate::runtimes::{Identity, RuntimeKind};
use crate::store::{self, INTACT};
use crate::undo::Undo;
use eggo_bundles::{Digest, Item};
use eggo_errors::Report;
use serde::Deserialize;

/// Loads the archives of which the runtime lacks anything. Returns the names of their images.
pub(super) async fn load(all: &Nodes, node: &Planned<'_>) -> Result<Vec<String>, Report> {
    let mut names = Vec::new();
    for wanted in node.plan.image_archives() {
        names.extend(load_one(all, node, &wanted.item).await?);
    }
    Ok(names)
}

async fn load_one(all: &Nodes, node: &Planned<'_>, item: &Item) -> Result<Vec<String>, Report> {
    let (kind, path) = (all.config.runtime.kind, store::path(&item.sha256));
    let look = Script::new([kind.shell, include_str!("archive.sh")]).arg(&path);
    const TITLE: &str = "look into an image archive";
    let waits = all.run.waits_for([node.host.name.as_str()], TITLE);
    let answer = node.remote.run(Command::look(TITLE, look)).await?.text();
    drop(waits);
    let (manifest, list) = answer.split_once("@@").unwrap_or((&answer, ""));
    let held = held(manifest);
    let names: Vec<String> = held.iter().map(|image| image.name.clone()).collect();
    let step = Step::new(format!("images/{}", item.name), format!("load the images of {}", item.name))
        .fingerprint(item.sha256.hex())
        .undo(Undo::Images { runtime: kind, names: names.clone() });
    let known = all.run.journal().is_done(&node.host.name, &step.id, &step.fingerprint);
    if are_there(kind, &held, list, known) {
        return Ok(names);
    }
    let work = async |permit| {
        let script = Script::new([kind.shell, INTACT, include_str!("load_archive.sh")]).arg(path);
        let load = Command::change(permit, LOAD, script).timeout(TIMEOUT).unchecked();
        loaded(node, &node.remote.run(load).await?)?;
        Ok(Outcome::Changed)
    };
    all.run.step(&node.host.name, step.always(), work).await.map(|_| names)
}

/// An image in an archive.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    /// In full.
    name: String,
    config: Option<Digest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Manifest {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
}

/// What the archive's own list names; an archive without one holds nothing that could be compared.
fn held(manifest: &str) -> Vec<Held> {
    let manifests: Vec<Manifest> = serde_json::from_str(manifest.trim()).unwrap_or_default();
    let images = manifests.into_iter().flat_map(|manifest| {
        // `HEX.json`, or `blobs/sha256/HEX`.
        let file = manifest.config.rsplit('/').next().unwrap_or_default();
        let config = file.strip_suffix(".json").unwrap_or(file).parse().ok();
        let tags = manifest.repo_tags.unwrap_or_default();
        tags.into_iter().map(move |tag| Held { name: reference::full(&tag), config })
    });
    images.collect()
}

/// A runtime that lists images by their configuration reports their content; of the others only names can be compared,
/// and the journal must say that it was this archive that they came from.
fn are_there(kind: RuntimeKind, held: &[Held], list: &str, known: bool) -> bool {
    let listed = Listed::new(kind, list);
    let is_there = |image: &Held| match (kind.images.identity, image.config) {
        (Identity::Config, Some(config)) => listed.digest(&image.name) == Some(&config.oci()),
        _ => known && listed.digest(&image.name).is_some(),
    };
    if held.is_empty() { known } else { held.iter().all(is_there) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> RuntimeKind {
        name.parse().unwrap()
    }

    #[test]
    fn an_archive_is_loaded_unless_all_of_it_is_there() {
        let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
        let manifest = format!(
            r#"[{{"Config":"{one}.json","RepoTags":["busybox:1.35"],"Layers":[]}},
                {{"Config":"blobs/sha256/{two}","RepoTags":["k8s.gcr.io/pause:3.2"]}},
                {{"Config":"x.json","RepoTags":null}}]"#
        );
        let held = held(&manifest);
        let names: Vec<&str> = held.iter().map(|image| image.name.as_str()).collect();
        assert_eq!(names, ["docker.io/library/busybox:1.35", "k8s.gcr.io/pause:3.2"]);
        let docker = format!("busybox:1.35 {}\nk8s.gcr.io/pause:3.2 {}\n", one.oci(), two.oci());
        let containerd = "docker.io/library/busybox:1.35 sha256:x\nk8s.gcr.io/pause:3.2 sha256:y\n";
        for (kind, list, known, there) in [
            (kind("docker"), docker.as_str(), false, true),
            (kind("docker"), &docker.replace(&two.oci(), &one.oci()), true, false),
            (kind("docker"), "", true, false),
            (kind("containerd"), containerd, true, true),
            (kind("containerd"), containerd, false, false),
            (kind("containerd"), "k8s.gcr.io/pause:3.2 sha256:y\n", true, false),
        ] {
            assert_eq!(are_there(kind, &held, list, known), there, "{kind} {list}");
        }
        assert!(!are_there(kind("docker"), &[], "", false));
    }
}
