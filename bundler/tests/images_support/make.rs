//! Images made from nothing, deterministic, pushed with plain requests.

use eggo_bundle::http::{Body, HeaderValue, Http, Method, Request, Response, header, url};
use eggo_bundles::{Arch, Digest};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Oci,
    Docker,
}

/// The blobs and documents of some images.
#[derive(Default, Clone)]
pub struct Pile {
    pub blobs: BTreeMap<Digest, Vec<u8>>,
    /// Digest and media type of what goes to `/manifests/`, children first.
    pub manifests: Vec<(Digest, String)>,
}

impl Style {
    fn pick(self, oci: &'static str, docker: &'static str) -> &'static str {
        match self {
            Self::Oci => oci,
            Self::Docker => docker,
        }
    }
    pub fn manifest(self) -> &'static str {
        self.pick(
            "application/vnd.oci.image.manifest.v1+json",
            "application/vnd.docker.distribution.manifest.v2+json",
        )
    }
    pub fn index(self) -> &'static str {
        self.pick(
            "application/vnd.oci.image.index.v1+json",
            "application/vnd.docker.distribution.manifest.list.v2+json",
        )
    }
    fn config(self) -> &'static str {
        self.pick(
            "application/vnd.oci.image.config.v1+json",
            "application/vnd.docker.container.image.v1+json",
        )
    }
    fn layer(self) -> &'static str {
        self.pick(
            "application/vnd.oci.image.layer.v1.tar+gzip",
            "application/vnd.docker.image.rootfs.diff.tar.gzip",
        )
    }
}

/// A tar of one file, `size` bytes that do not compress, the same for the same name.
pub fn layer(name: &str, size: usize) -> Vec<u8> {
    let mut content = Vec::with_capacity(size + 32);
    let mut block = Digest::of(name.as_bytes());
    while content.len() < size {
        block = Digest::of(block.as_bytes());
        content.extend_from_slice(block.as_bytes());
    }
    content.truncate(size);
    let mut builder = tar::Builder::new(Vec::new());
    let mut head = tar::Header::new_ustar();
    head.set_size(content.len() as u64);
    head.set_mode(0o644);
    head.set_mtime(0);
    builder.append_data(&mut head, format!("data/{name}"), &content[..]).unwrap();
    builder.into_inner().unwrap()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

impl Pile {
    fn add(&mut self, bytes: Vec<u8>) -> (Digest, usize) {
        let (digest, size) = (Digest::of(&bytes), bytes.len());
        self.blobs.insert(digest, bytes);
        (digest, size)
    }

    fn describe(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let (digest, size) = self.add(bytes);
        json!({"mediaType": media_type, "digest": digest.oci(), "size": size})
    }

    /// An image of one platform; `layers` are names and sizes.
    pub fn image(
        &mut self,
        style: Style,
        arch: &str,
        variant: Option<&str>,
        layers: &[(&str, usize)],
    ) -> Value {
        let tars: Vec<Vec<u8>> = layers.iter().map(|(name, size)| layer(name, *size)).collect();
        let diff_ids: Vec<String> = tars.iter().map(|tar| Digest::of(tar).oci()).collect();
        let mut config = json!({
            "architecture": arch, "os": "linux",
            "config": {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": layers.iter().map(|(name, _)| json!({"created_by": name})).collect::<Vec<_>>(),
        });
        let mut platform = json!({"architecture": arch, "os": "linux"});
        if let Some(variant) = variant {
            config["variant"] = variant.into();
            platform["variant"] = variant.into();
        }
        let config = self.describe(style.config(), config.to_string().into_bytes());
        let layers: Vec<Value> = tars.iter().map(|tar| self.describe(style.layer(), gzip(tar))).collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": style.manifest(), "config": config, "layers": layers,
        });
        let mut descriptor = self.describe(style.manifest(), manifest.to_string().into_bytes());
        self.manifests.push((digest_of(&descriptor), style.manifest().to_string()));
        descriptor["platform"] = platform;
        descriptor
    }

    pub fn index(&mut self, style: Style, manifests: &[Value]) -> Value {
        let index = json!({"schemaVersion": 2, "mediaType": style.index(), "manifests": manifests});
        let descriptor = self.describe(style.index(), index.to_string().into_bytes());
        self.manifests.push((digest_of(&descriptor), style.index().to_string()));
        descriptor
    }

    /// An amd64 and an arm64 image with a layer in common, in one index.
    pub fn multi(&mut self, style: Style, name: &str, size: usize) -> Value {
        let own = |arch: &str| format!("{name}-{arch}");
        let amd64 = self.image(style, "amd64", None, &[("shared", size), (&own("amd64"), size)]);
        let arm64 = self.image(style, "arm64", Some("v8"), &[("shared", size), (&own("arm64"), size)]);
        self.index(style, &[amd64, arm64])
    }

    /// What buildkit adds to an index beside the images.
    pub fn attestation(&mut self, of: &Value) -> Value {
        let config =
            self.describe(Style::Oci.config(), b"{\"architecture\":\"unknown\",\"os\":\"unknown\"}".to_vec());
        let layer = self.describe("application/vnd.in-toto+json", b"{}".to_vec());
        let manifest = json!({
            "schemaVersion": 2, "mediaType": Style::Oci.manifest(), "config": config, "layers": [layer],
        });
        let mut descriptor = self.describe(Style::Oci.manifest(), manifest.to_string().into_bytes());
        self.manifests.push((digest_of(&descriptor), Style::Oci.manifest().to_string()));
        descriptor["platform"] = json!({"architecture": "unknown", "os": "unknown"});
        descriptor["annotations"] = json!({"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": of["digest"]});
        descriptor
    }

    /// Writes an OCI layout whose index names `roots`.
    pub fn write_layout(&self, folder: &std::path::Path, roots: &[(&str, &Value)]) {
        std::fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
        for (digest, bytes) in &self.blobs {
            std::fs::write(folder.join(format!("blobs/sha256/{digest}")), bytes).unwrap();
        }
        let manifests: Vec<Value> = roots
            .iter()
            .map(|(name, descriptor)| {
                let mut descriptor = (*descriptor).clone();
                descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": name});
                descriptor
            })
            .collect();
        let index = json!({"schemaVersion": 2, "manifests": manifests});
        std::fs::write(folder.join("index.json"), index.to_string()).unwrap();
        std::fs::write(folder.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}").unwrap();
    }

    /// Pushes everything to `REPOSITORY` and tags `root`.
    pub async fn push(&self, http: &Http, address: &str, repository: &str, root: &Value, tag: &str) {
        let base = format!("http://{address}/v2/{repository}");
        let documents: Vec<Digest> = self.manifests.iter().map(|(digest, _)| *digest).collect();
        for (digest, bytes) in self.blobs.iter().filter(|(digest, _)| !documents.contains(digest)) {
            let opened = send(http, Method::POST, &format!("{base}/blobs/uploads/"), None, &[]).await;
            let location = opened.url.join(opened.header(&header::LOCATION).unwrap()).unwrap();
            let mut location = location;
            location.query_pairs_mut().append_pair("digest", &digest.oci());
            send(http, Method::PUT, location.as_str(), Some("application/octet-stream"), bytes).await;
        }
        for (digest, media_type) in &self.manifests {
            let tagged = digest_of(root) == *digest;
            let name = if tagged { tag.to_string() } else { digest.oci() };
            let url = format!("{base}/manifests/{name}");
            send(http, Method::PUT, &url, Some(media_type), &self.blobs[digest]).await;
        }
    }
}

pub fn digest_of(descriptor: &Value) -> Digest {
    descriptor["digest"].as_str().unwrap().parse().unwrap()
}

/// The config digest of an image's manifest for an arch, read from its index.
pub fn config_of(pile: &Pile, index: &Value, arch: Arch) -> Digest {
    let parse = |digest: Digest| -> Value { serde_json::from_slice(&pile.blobs[&digest]).unwrap() };
    let list = parse(digest_of(index));
    let manifests = list["manifests"].as_array().unwrap().iter();
    let mut ours = manifests.filter(|manifest| manifest["platform"]["architecture"] == arch.as_str());
    digest_of(&parse(digest_of(ours.next().unwrap()))["config"])
}

async fn send(http: &Http, method: Method, to: &str, media_type: Option<&str>, body: &[u8]) -> Response {
    let mut request = Request::get(url(to).unwrap(), 1 << 20).method(method);
    request = match media_type {
        Some(media_type) => request
            .header(header::CONTENT_TYPE, HeaderValue::from_str(media_type).unwrap())
            .body(Body::Bytes(body.to_vec().into())),
        None => request.header(header::CONTENT_LENGTH, HeaderValue::from_static("0")),
    };
    http.send(&request).await.unwrap().success().unwrap_or_else(|error| panic!("{to}: {error}"))
}
