//! Images into the node's container runtime, from the blobs in its store: the archive that the
//! runtime loads is put together on the node, so nothing is sent twice.

use super::Nodes;
use crate::node::Planned;
use crate::remote::{Command, Output, RemoteError, Script};
use crate::run::{Outcome, Permit, Step};
use crate::runtimes::{Identity, RuntimeKind};
use crate::store::{self, Damaged, INTACT, ROOT};
use crate::undo::Undo;
use eggo_bundles::layout::{Layout, Names, blob_path};
use eggo_bundles::{Digest, Image};
use eggo_errors::Report;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(super) const LOAD: &str = "load images";
pub(super) const TIMEOUT: Duration = Duration::from_secs(3600);

/// Has the kubelet keep the images of the bundle when disk gets short: nothing could bring them back by itself. Those
/// that an earlier bundle had may go then.
pub(super) async fn pin(all: &Nodes, node: &Planned<'_>, names: &[String]) -> Result<(), Report> {
    let kind = all.config.runtime.kind;
    if kind.images.pins.is_empty() || names.is_empty() {
        return Ok(());
    }
    let step = Step::new("images/pin", "pin images")
        .fingerprint_of(names)
        .undo(Undo::ReleaseImages { runtime: kind })
        .always();
    let work = async |permit| {
        let pin = kind.call("pin_images").args(names);
        let command = Command::change(permit, "pin images", pin).timeout(TIMEOUT);
        Ok(Outcome::changed_if(!node.remote.run(command).await?.text().trim().is_empty()))
    };
    all.run.step(&node.host.name, step, work).await.map(|_| ())
}

/// As the runtime lists them.
pub(super) fn names(node: &Planned<'_>) -> Vec<String> {
    node.plan.images.iter().map(|image| listed_name(image)).collect()
}

/// Loads the images that the runtime does not have yet.
pub(super) async fn load(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    let images = &node.plan.images;
    if images.is_empty() {
        return Ok(());
    }
    let kind = all.config.runtime.kind;
    let look = Command::look("list images", kind.call("list_images"));
    let absent = absent_images(kind, images, &node.remote.run(look).await?.text());
    if absent.is_empty() {
        return Ok(());
    }
    let layout = layout(node, &absent)?;
    let names: Vec<String> = absent.iter().map(|image| image.name.clone()).collect();
    let step = Step::new("images/load", format!("load {} images", absent.len()))
        .fingerprint_of(absent.iter().map(|image| format!("{} {}", image.name, image.manifest)))
        .undo(Undo::Images { runtime: kind, names })
        .always();
    let work = async |permit| {
        let output = node.remote.run(load_command(permit, kind, &layout)).await?;
        loaded(node, &output)?;
        Ok(Outcome::Changed)
    };
    all.run.step(&node.host.name, step, work).await.map(|_| ())
}

/// How loading images ended.
pub(super) fn loaded(node: &Planned<'_>, output: &Output) -> Result<(), Report> {
    if output.success() {
        return Ok(());
    }
    let name = &node.host.name;
    Damaged::check(name, output, node.plan.items.iter().map(|wanted| &*wanted.item))?;
    Err(RemoteError::failed(name, LOAD, output, false).into())
}

fn layout(node: &Planned<'_>, images: &[&Arc<Image>]) -> Result<Layout, Report> {
    let sizes: BTreeMap<Digest, u64> =
        node.plan.items.iter().map(|wanted| (wanted.item.sha256, wanted.item.size)).collect();
    let images = images.iter().map(|image| &***image);
    Layout::new(node.host.arch, images, |digest| sizes.get(digest).copied())
        .map_err(|error| Report::new(error.to_string()))
}

/// Which of `images` are not in the runtime's list, in name and content.
pub fn absent_images<'a>(kind: RuntimeKind, images: &'a [Arc<Image>], list: &str) -> Vec<&'a Arc<Image>> {
    let listed = Listed::new(kind, list);
    let is_there = |image: &Image| {
        let digest = match kind.images.identity {
            Identity::Manifest => image.manifest.oci(),
            Identity::Config => image.config.oci(),
            Identity::Name => String::new(),
        };
        listed.digest(&listed_name(image)).is_some_and(|found| digest.is_empty() || *found == digest)
    };
    images.iter().filter(|image| !is_there(image)).collect()
}

fn listed_name(image: &Image) -> String {
    let names = Names::of(&image.name);
    names.tagged.or(names.digested).unwrap_or_else(|| image.name.clone())
}

/// What a runtime lists.
pub(super) struct Listed {
    kind: RuntimeKind,
    digests: BTreeMap<String, String>,
}

impl Listed {
    pub(super) fn new(kind: RuntimeKind, list: &str) -> Self {
        let entry = |line: &str| {
            let mut words = line.split_whitespace();
            Some((known_as(kind, words.next()?).to_string(), words.next().unwrap_or("").to_string()))
        };
        Self { kind, digests: list.lines().filter_map(entry).collect() }
    }

    /// By which digest an image, named in full, is listed; empty if the runtime does not say.
    pub(super) fn digest(&self, name: &str) -> Option<&String> {
        self.digests.get(known_as(self.kind, name))
    }
}

/// As the runtime prints it.
fn known_as(kind: RuntimeKind, name: &str) -> &str {
    match name.strip_prefix("docker.io/").filter(|_| kind.images.short_names) {
        Some(short) => short.strip_prefix("library/").unwrap_or(short),
        None => name,
    }
}

/// A folder with the lists and, as links into the store, the blobs; read as one archive.
fn load_command(permit: Permit, kind: RuntimeKind, layout: &Layout) -> Command {
    let script = Script::new([kind.shell, INTACT, include_str!("load.sh")]).set("ROOT", ROOT);
    let mut archive = tar::Builder::new(Vec::new());
    let expect = "writing to memory does not fail";
    for (name, bytes) in &layout.files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, &bytes[..]).expect(expect);
    }
    for digest in layout.blobs.keys() {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        header.set_mode(0o777);
        archive.append_link(&mut header, blob_path(digest), store::path(digest)).expect(expect);
    }
    let archive = archive.into_inner().expect(expect);
    Command::change(permit, LOAD, script).stdin(archive).timeout(TIMEOUT).unchecked()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::sandbox::Sandbox;
    use eggo_bundles::Arch;

    fn kind(name: &str) -> RuntimeKind {
        name.parse().unwrap()
    }

    fn image(name: &str) -> Arc<Image> {
        Arc::new(Image {
            name: name.into(),
            arch: Arch::Amd64,
            manifest: Digest::of(b"manifest"),
            media_type: "application/vnd.oci.image.manifest.v1+json".into(),
            config: Digest::of(b"config"),
            layers: vec![],
            roles: vec![],
        })
    }

    /// The script reads what every version of `isula images` prints.
    #[test]
    fn isulad_lists_names_in_one_column_or_two() {
        let listed = |table: &str| {
            let sandbox = Sandbox::new();
            sandbox.program("isula", &format!("cat <<'END'\n{table}\nEND"));
            sandbox.does(kind("isulad").call("list_images"))
        };
        let new = "REPOSITORY          TAG   IMAGE ID      CREATED              SIZE\n\
                   nginx               1     9319da1f5233  2026-03-01 10:55:44  1.273 MB\n\
                   k8s.gcr.io/pause    3.2   e4db68de4ff2  2026-03-01 10:55:44  1.273 MB";
        let old = "REF                         IMAGE ID      CREATED              SIZE\n\
                   docker.io/library/nginx:1   9319da1f5233  2018-03-01 10:55:44  1.273 MB";
        assert_eq!(listed(new), "nginx:1\nk8s.gcr.io/pause:3.2\n");
        assert_eq!(listed(old), "docker.io/library/nginx:1\n");
    }

    /// A containerd with some images: what it is told, and what is said of it.
    fn pinned(images: &str, names: &[&str]) -> String {
        let script = kind("containerd").call("pin_images").args(names.iter().copied());
        let sandbox = Sandbox::new();
        let ctr = format!(
            "case $* in '-n k8s.io images ls') cat <<'END'\n\
             REF TYPE DIGEST SIZE PLATFORMS LABELS\n{images}END\n;; *) shift 3; echo \"$*\" >&2 ;; esac"
        );
        sandbox.program("ctr", &ctr);
        let said = sandbox.run(script);
        assert!(said.done, "{said:?}");
        said.out + &said.err
    }

    #[test]
    fn what_is_damaged_in_the_store_is_not_loaded() {
        let sandbox = Sandbox::new();
        let (blob, tar) = (Digest::of(b"blob"), sandbox.at("links.tar"));
        sandbox.program("ctr", "echo loaded; cat > /dev/null");
        sandbox.does("mkdir -p root links/blobs/sha256");
        std::os::unix::fs::symlink(
            sandbox.path(&blob.hex()),
            sandbox.path(&format!("links/{}", blob_path(&blob))),
        )
        .unwrap();
        sandbox.does(format!("tar -c -C links -f {tar} ."));
        let script = || {
            let load = Script::new([kind("containerd").shell, INTACT, include_str!("load.sh")]);
            sandbox.feed(load.set("ROOT", sandbox.at("root")), &std::fs::read(&tar).unwrap())
        };
        let archive = || {
            let load = Script::new([kind("containerd").shell, INTACT, include_str!("load_archive.sh")]);
            sandbox.run(load.arg(sandbox.at(&blob.hex())))
        };
        for (content, out) in [("blob", "loaded\n".to_string()), ("blOb", format!("damaged {blob}\n"))] {
            sandbox.write(&blob.hex(), content);
            for said in [script(), archive()] {
                assert_eq!((said.done, &said.out), (content == "blob", &out), "{said:?}");
            }
        }
        assert_eq!(std::fs::read_dir(sandbox.path("root")).unwrap().count(), 0);
    }

    #[test]
    fn images_of_the_bundle_are_pinned_and_others_released() {
        let (label, ours) = ("io.cri-containerd.pinned=pinned", "io.eggo.pinned=bundle");
        let row = |name: &str, digest: &str, labels: &str| {
            format!(
                "{name} application/vnd.oci.image.manifest.v1+json sha256:{digest} 4.0 MiB linux/amd64 {labels}\n"
            )
        };
        let images = [
            row("k8s.gcr.io/pause:3.2", "1", "io.cri-containerd.image=managed"),
            row("sha256:aa", "1", "-"),
            row("bundled:1", "2", &format!("{label},{ours}")),
            row("former:1", "3", &format!("{label},{ours}")),
            row("users:1", "4", label),
            row("pulled:1", "5", "-"),
        ];
        let said = pinned(&images.concat(), &["k8s.gcr.io/pause:3.2", "bundled:1", "users:1"]);
        let expected = format!(
            "pinned k8s.gcr.io/pause:3.2\npinned sha256:aa\nreleased former:1\n\
             label k8s.gcr.io/pause:3.2 {label} {ours}\nlabel sha256:aa {label} {ours}\n\
             label former:1 io.cri-containerd.pinned= io.eggo.pinned=\n"
        );
        assert_eq!(said, expected);
        assert_eq!(
            pinned(&images.concat(), &["bundled:1"]).matches("released").count(),
            1,
            "the user's stays"
        );
        assert_eq!(
            pinned(&images.concat(), &[]).lines().filter(|line| line.starts_with("released")).count(),
            2
        );
    }

    #[test]
    fn only_what_is_not_there_in_name_and_content_is_loaded() {
        let images = [image("docker.io/library/nginx:1"), image("k8s.gcr.io/pause:3.2")];
        let (manifest, config) = (Digest::of(b"manifest").oci(), Digest::of(b"config").oci());
        let other = Digest::of(b"other").oci();
        let cases = [
            (
                kind("containerd"),
                format!("docker.io/library/nginx:1 {manifest}\nk8s.gcr.io/pause:3.2 {other}\n"),
                1,
            ),
            (kind("containerd"), String::new(), 2),
            (kind("docker"), format!("nginx:1 {config}\nk8s.gcr.io/pause:3.2 {config}\n"), 0),
            (kind("docker"), format!("nginx:1 {other}\n"), 2),
            (kind("isulad"), "docker.io/library/nginx:1\n".into(), 1),
            (kind("isulad"), "nginx:1\nk8s.gcr.io/pause:3.2\n".into(), 0),
        ];
        for (kind, list, count) in cases {
            assert_eq!(absent_images(kind, &images, &list).len(), count, "{kind} {list}");
        }
    }
}
