//! Images from files: a docker archive (`docker save`), an OCI layout folder, an OCI archive.
//!
//! An archive is read once from front to back, whatever its compression; its members go to
//! the cache under their digests. Docker archives have no manifests: we write one, always the
//! same for the same archive.

use super::documents::{
    BadDocument, Config, Descriptor, Document, MAX_CONFIG, MAX_MANIFEST, OCI_CONFIG, OCI_LAYER, OCI_MANIFEST,
};
use super::error::Error;
use super::reference::Reference;
use super::resolve::Documents;
use crate::Tools;
use crate::archive::{self, MemberKind};
use crate::beneath::{Beneath, Problem};
use crate::cache::Cache;
use crate::lock::Blob;
use eggo_bundles::Digest;
use eggo_bundles::layout::{INDEX_FILE, LAYOUT_FILE, MANIFEST_FILE, blob_path};
use eggo_bundles::progress::{Progress, Task};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

const CONTAINERD_NAME: &str = "io.containerd.image.name";
const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// No layer is larger than this.
const MAX_BLOB: u64 = 64 << 30;

/// An opened archive or folder, and the images in it.
pub(super) struct Local<'a> {
    path: PathBuf,
    files: Files,
    cache: &'a Cache,
    images: Vec<Named>,
}

enum Files {
    /// A folder is foreign too: nothing in it leads out of it.
    Folder(Beneath),
    /// Where the archive's members are in the cache.
    Archive(BTreeMap<String, Stored>),
}

#[derive(Debug, Clone, Copy)]
struct Stored {
    sha256: Digest,
    size: u64,
}

struct Named {
    name: Name,
    descriptor: Descriptor,
}

/// What an archive calls an image.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Full(Reference),
    /// The repository is left out, as OCI allows.
    Tag(String),
    Nameless,
}

impl<'a> Local<'a> {
    pub(super) fn open(path: &Path, tools: Tools<'a>) -> Result<Self, Error> {
        let cache = tools.cache;
        let unreadable = |error: std::io::Error| bad(path, error.to_string());
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        let files = match metadata.file_type() {
            kind if kind.is_dir() => Files::Folder(Beneath::open(path).map_err(unreadable)?),
            kind if kind.is_file() => Files::Archive(import(path, metadata.len(), tools)?),
            _ => return Err(bad(path, "it is neither a file nor a folder".to_string())),
        };
        let mut local = Self { path: path.into(), files, cache, images: Vec::new() };
        local.images = local.read_images()?;
        Ok(local)
    }

    /// The documents of the image called `wanted`: one, or one per platform.
    pub(super) fn roots(&self, wanted: &Reference) -> Result<Vec<Descriptor>, Error> {
        let matching = |fits: &dyn Fn(&Name) -> bool| -> Vec<Descriptor> {
            let images = self.images.iter().filter(|image| fits(&image.name));
            images.map(|image| image.descriptor.clone()).collect()
        };
        let full = matching(&|name| matches!(name, Name::Full(found) if same(found, wanted)));
        if !full.is_empty() {
            return Ok(full);
        }
        let by_tag = matching(&|name| matches!(name, Name::Tag(tag) if Some(tag.as_str()) == wanted.tag()));
        let by_digest = || -> Vec<Descriptor> {
            let images = self.images.iter().map(|image| &image.descriptor);
            images.filter(|found| found.digest().ok() == wanted.digest()).cloned().collect()
        };
        let nameless = || matching(&|name| *name == Name::Nameless);
        for found in [by_tag, by_digest(), nameless()] {
            // An archive of a single image need not know its name.
            if !found.is_empty() && (found.len() == self.images.len() || found.len() == 1) {
                return Ok(found);
            }
        }
        let found = self.images.iter().map(|image| match &image.name {
            Name::Full(reference) => reference.to_string(),
            Name::Tag(tag) => format!("an image with tag `{tag}`"),
            Name::Nameless => "an image without a name".to_string(),
        });
        let found = found.collect();
        Err(Error::NotInArchive { path: self.path.clone(), image: wanted.to_string(), found })
    }

    /// The images that the archive knows by their full names, each once.
    pub(super) fn names(&self) -> BTreeSet<Reference> {
        let full = |image: &Named| match &image.name {
            Name::Full(reference) => Some(reference.clone()),
            Name::Tag(_) | Name::Nameless => None,
        };
        self.images.iter().filter_map(full).collect()
    }

    /// How many images have no full name: nobody could ask a node for them.
    pub(super) fn unnamed(&self) -> usize {
        let (named, others): (Vec<&Named>, Vec<&Named>) =
            self.images.iter().partition(|image| matches!(image.name, Name::Full(_)));
        let digests = |images: Vec<&Named>| -> BTreeSet<Digest> {
            images.iter().filter_map(|image| image.descriptor.digest().ok()).collect()
        };
        digests(others).difference(&digests(named)).count()
    }

    /// Makes sure that a blob is in the cache.
    pub(super) fn fetch(&self, blob: &Blob) -> Result<(), Error> {
        if self.cache.contains(&blob.sha256, blob.size) {
            return Ok(());
        }
        self.import_blob(&blob.sha256, blob.size.min(MAX_BLOB))
    }

    fn import_blob(&self, digest: &Digest, limit: u64) -> Result<(), Error> {
        let name = blob_path(digest);
        let missing = || bad(&self.path, format!("it lacks the blob `{name}`"));
        let found = match &self.files {
            // All members are in the cache already.
            Files::Archive(files) => files.values().find(|stored| stored.sha256 == *digest).map(|s| s.sha256),
            Files::Folder(folder) => {
                let mut reader = folder.file(Path::new(&name)).map_err(|problem| match problem {
                    Problem::Io(error) if error.kind() == std::io::ErrorKind::NotFound => missing(),
                    source @ Problem::LeadsOut { .. } => self.refused(source),
                    source => crate::cache::Error::Content { source: source.into() }.into(),
                })?;
                Some(self.cache.store(&mut reader, limit)?.0)
            }
        };
        match found {
            Some(found) if found == *digest => Ok(()),
            Some(found) => Err(bad(&self.path, format!("the blob `{name}` has sha256 `{found}`"))),
            None => Err(missing()),
        }
    }

    fn document(&self, descriptor: &Descriptor, limit: u64) -> Result<Vec<u8>, Error> {
        let digest = descriptor.digest().map_err(|problem| bad(&self.path, problem.to_string()))?;
        if self.cache.read(&digest, limit)?.is_none() {
            self.import_blob(&digest, limit)?;
        }
        let bytes = self.cache.read(&digest, limit)?;
        bytes.ok_or_else(|| bad(&self.path, format!("it lacks the blob `{}`", blob_path(&digest))))
    }

    /// A small file at the top.
    fn file(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        match &self.files {
            Files::Archive(files) => match files.get(name) {
                Some(stored) => Ok(self.cache.read(&stored.sha256, limit)?),
                None => Ok(None),
            },
            Files::Folder(folder) => match folder.file(Path::new(name)) {
                Ok(file) => {
                    let mut bytes = Vec::new();
                    let read = file.take(limit + 1).read_to_end(&mut bytes);
                    read.map_err(|error| bad(&self.path, error.to_string()))?;
                    if bytes.len() as u64 > limit {
                        return Err(bad(&self.path, format!("`{name}` is larger than {limit} bytes")));
                    }
                    Ok(Some(bytes))
                }
                Err(Problem::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(source) => Err(self.refused(source)),
            },
        }
    }

    fn read_images(&self) -> Result<Vec<Named>, Error> {
        let is_layout = self.file(LAYOUT_FILE, MAX_MANIFEST)?.is_some();
        let oci = match self.file(INDEX_FILE, MAX_MANIFEST)? {
            Some(bytes) if is_layout => self.oci_images(&bytes)?,
            _ => Vec::new(),
        };
        if oci.iter().any(|image| matches!(image.name, Name::Full(_))) {
            return Ok(oci);
        }
        // Some writers leave the names to the docker half of an archive that is both.
        match self.file(MANIFEST_FILE, MAX_MANIFEST)? {
            Some(bytes) => self.docker_images(&bytes),
            None if is_layout => Ok(oci),
            None => Err(bad(
                &self.path,
                "it is neither a docker archive (`manifest.json`) nor an OCI layout (`oci-layout`)"
                    .to_string(),
            )),
        }
    }

    fn oci_images(&self, bytes: &[u8]) -> Result<Vec<Named>, Error> {
        let parsed = Document::parse(bytes, None).map_err(|problem| self.bad_file(INDEX_FILE, &problem))?;
        let Document::Index(manifests) = parsed else {
            return Err(bad(&self.path, format!("`{INDEX_FILE}` is not an index")));
        };
        let named = |descriptor: Descriptor| {
            let name = Name::of(&descriptor);
            Named { name, descriptor }
        };
        Ok(manifests.into_iter().map(named).collect())
    }

    fn docker_images(&self, bytes: &[u8]) -> Result<Vec<Named>, Error> {
        let list: Vec<DockerImage> = serde_json::from_slice(bytes)
            .map_err(|error| bad(&self.path, format!("`{MANIFEST_FILE}` is not valid: {error}")))?;
        let mut images = Vec::new();
        for image in list {
            let descriptor = self.convert(&image)?;
            let tags = image.repo_tags.unwrap_or_default();
            let mut names: Vec<Name> = Vec::new();
            for tag in tags {
                names.push(Name::Full(tag.parse()?));
            }
            if names.is_empty() {
                names.push(Name::Nameless);
            }
            images.extend(names.into_iter().map(|name| Named { name, descriptor: descriptor.clone() }));
        }
        Ok(images)
    }

    /// A manifest for an image that has none.
    fn convert(&self, image: &DockerImage) -> Result<Descriptor, Error> {
        let config = self.stored(&image.config)?;
        let bytes = self.cache.read(&config.sha256, MAX_CONFIG)?;
        let bytes = bytes.ok_or_else(|| bad(&self.path, format!("it lacks `{}`", image.config)))?;
        let parsed = Config::parse(&bytes).map_err(|problem| self.bad_file(&image.config, &problem))?;
        parsed.check_layers(image.layers.len()).map_err(|problem| self.bad_file(&image.config, &problem))?;
        let mut layers = Vec::new();
        for layer in &image.layers {
            let stored = self.stored(layer)?;
            layers.push(Descriptor::new(self.layer_type(&stored.sha256)?, stored.sha256, stored.size));
        }
        let manifest = WrittenManifest {
            schema_version: 2,
            media_type: OCI_MANIFEST,
            config: Descriptor::new(OCI_CONFIG, config.sha256, config.size),
            layers,
        };
        let bytes = serde_json::to_vec(&manifest).expect("a manifest has only JSON types");
        let digest = self.cache.store_bytes(&bytes)?;
        let mut descriptor = Descriptor::new(OCI_MANIFEST, digest, bytes.len() as u64);
        descriptor.platform = Some(parsed.platform);
        Ok(descriptor)
    }

    /// `docker save` writes plain tars, other writers keep what they pulled.
    fn layer_type(&self, digest: &Digest) -> Result<&'static str, Error> {
        let head =
            archive::head(&self.cache.path(digest)).map_err(|error| bad(&self.path, error.to_string()))?;
        Ok(match archive::sniff(&head) {
            Some(archive::Format::TarGz) => "application/vnd.oci.image.layer.v1.tar+gzip",
            Some(archive::Format::TarZst) => "application/vnd.oci.image.layer.v1.tar+zstd",
            _ => OCI_LAYER,
        })
    }

    fn stored(&self, name: &str) -> Result<Stored, Error> {
        let missing = || bad(&self.path, format!("it lacks `{name}`"));
        match &self.files {
            Files::Archive(files) => files.get(name.trim_start_matches("./")).copied().ok_or_else(missing),
            Files::Folder(folder) => {
                let mut file = folder.file(Path::new(name)).map_err(|problem| match problem {
                    Problem::Io(_) => missing(),
                    source => self.refused(source),
                })?;
                let (sha256, size) = self.cache.store(&mut file, MAX_BLOB)?;
                Ok(Stored { sha256, size })
            }
        }
    }

    fn refused(&self, source: Problem) -> Error {
        Error::Place { path: self.path.clone(), source }
    }

    fn bad_file(&self, name: &str, problem: &BadDocument) -> Error {
        bad(&self.path, format!("`{name}`: {problem}"))
    }
}

impl Documents for Local<'_> {
    async fn manifest(&self, descriptor: &Descriptor) -> Result<Vec<u8>, Error> {
        self.document(descriptor, MAX_MANIFEST)
    }

    async fn config(&self, descriptor: &Descriptor) -> Result<Vec<u8>, Error> {
        self.document(descriptor, MAX_CONFIG)
    }
}

impl Name {
    fn of(descriptor: &Descriptor) -> Self {
        let get = |key| descriptor.annotations.get(key).filter(|text| !text.is_empty());
        let Some(text) = get(CONTAINERD_NAME).or_else(|| get(REF_NAME)) else { return Name::Nameless };
        if text.contains(['/', ':', '@'])
            && let Ok(reference) = text.parse()
        {
            return Name::Full(reference);
        }
        Name::Tag(text.clone())
    }
}

/// The same repository, and the same tag or digest as far as both name one.
fn same(found: &Reference, wanted: &Reference) -> bool {
    let repository = found.registry() == wanted.registry() && found.repository() == wanted.repository();
    repository
        && match (found.tag(), wanted.tag()) {
            (Some(found), Some(wanted)) => found == wanted,
            _ => found.digest() == wanted.digest(),
        }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenManifest {
    schema_version: u32,
    media_type: &'static str,
    config: Descriptor,
    layers: Vec<Descriptor>,
}

fn bad(path: &Path, reason: String) -> Error {
    Error::Local { path: path.into(), reason }
}

/// Reads the archive once; every file in it goes to the cache.
fn import(path: &Path, size: u64, tools: Tools<'_>) -> Result<BTreeMap<String, Stored>, Error> {
    let mut files: BTreeMap<String, Stored> = BTreeMap::new();
    let mut links: Vec<(String, String)> = Vec::new();
    let label = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let task = tools.progress.start(&label, Some(size));
    let result = archive::walk(path, &mut |member, content| {
        match &member.kind {
            MemberKind::File { .. } => {
                let mut content = Reported { content, progress: tools.progress, task };
                let (sha256, size) = tools.cache.store(&mut content, MAX_BLOB)?;
                files.insert(member.path.clone(), Stored { sha256, size });
            }
            MemberKind::HardLink { target } => {
                let stored = files.get(target.trim_start_matches("./")).copied();
                files.extend(stored.map(|stored| (member.path.clone(), stored)));
            }
            // `docker save` of old links a layer that several images share; the target may follow.
            MemberKind::Symlink { target } => links.push((member.path.clone(), joined(&member.path, target))),
            MemberKind::Folder => {}
        }
        Ok(())
    });
    tools.progress.finish(task);
    result.map_err(|error| match error {
        archive::Error::Visitor(source) => match source.downcast::<crate::cache::Error>() {
            Ok(error) => match *error {
                crate::cache::Error::Content { source } => {
                    bad(path, format!("it cannot be read to its end: {source}"))
                }
                error => Error::Cache(error),
            },
            Err(other) => bad(path, other.to_string()),
        },
        other => bad(path, other.to_string()),
    })?;
    for (name, target) in links {
        let stored = files.get(&target).copied();
        files.extend(stored.map(|stored| (name, stored)));
    }
    Ok(files)
}

/// A link's target, seen from the top of the archive.
fn joined(link: &str, target: &str) -> String {
    let mut parts: Vec<&str> = link.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

struct Reported<'a> {
    content: &'a mut dyn Read,
    progress: &'a dyn Progress,
    task: Task,
}

impl Read for Reported<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.content.read(buffer)?;
        self.progress.advance(self.task, n as u64);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_seen_from_the_top() {
        assert_eq!(joined("abc/layer.tar", "../def/layer.tar"), "def/layer.tar");
        assert_eq!(joined("a", "./b//c"), "b/c");
    }

    #[test]
    fn names_as_writers_write_them() {
        let name = |key: &str, text: &str| {
            let mut descriptor = Descriptor::new("", Digest::of(b""), 0);
            descriptor.annotations.insert(key.into(), text.into());
            Name::of(&descriptor)
        };
        let full = |text: &str| Name::Full(text.parse().unwrap());
        assert_eq!(name(CONTAINERD_NAME, "docker.io/library/x:1"), full("x:1"));
        assert_eq!(name(REF_NAME, "x:1"), full("x:1"));
        assert_eq!(name(REF_NAME, "1.2"), Name::Tag("1.2".into()));
        assert_eq!(name("other", "x"), Name::Nameless);
    }
}
