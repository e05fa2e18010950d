//! Files → an OCI artifact on a registry, which `oras pull` gives back as the same files.
//!
//! The steps of a blob's upload (distribution spec, "pushing blobs"):
//! 1. ask whether the blob is there (`HEAD`): then nothing is sent;
//! 2. open an upload (`POST`), or go on with the one that an earlier run left behind;
//! 3. small blobs go whole (`PUT`), large ones in chunks (`PATCH`); after a failure the
//!    registry says how far it got, and the upload goes on there;
//! 4. close the upload with the digest (`PUT`), which the registry checks.
//!
//! The manifest comes last, so that the tag never names something incomplete.

use super::documents::{Descriptor, MAX_MANIFEST, OCI_MANIFEST};
use super::error::Error;
use super::reference::Reference;
use super::registries::Registries;
use super::registry::{self, Access, Registry};
use crate::Tools;
use crate::cache::Remembered;
use crate::http::{self, Body, HeaderValue, Method, Request, Response, header};
use eggo_bundles::Digest;
use eggo_bundles::progress::Task;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use url::Url;

const EMPTY_CONFIG: &str = "application/vnd.oci.empty.v1+json";
const TITLE: &str = "org.opencontainers.image.title";
/// Larger files go in pieces of this size: what a broken connection can cost.
const CHUNK: u64 = 32 << 20;
/// Failures in a row that are forgiven before a push gives up.
const MAX_FAILURES: u32 = 5;
/// No answer to a push is larger than a page of error text.
const MAX_ANSWER: u64 = 64 << 10;

/// What is pushed under one tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// What it is, as a media type.
    pub artifact_type: String,
    pub annotations: BTreeMap<String, String>,
    pub files: Vec<ArtifactFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactFile {
    pub path: PathBuf,
    /// The name it gets when it is pulled.
    pub title: String,
    pub media_type: String,
}

/// What a push did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// `host/repo:tag`
    pub reference: String,
    /// Of the manifest: `host/repo@sha256:…` is this and nothing else, for ever.
    pub digest: Digest,
    /// Bytes sent in this run.
    pub sent: u64,
    /// Bytes that the registry had already.
    pub present: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactManifest<'a> {
    schema_version: u32,
    media_type: &'static str,
    artifact_type: &'a str,
    config: Descriptor,
    layers: Vec<Descriptor>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
}

/// Pushes an artifact. Run again after a failure, it goes on where it stopped.
pub async fn push(
    target: &Reference,
    artifact: &Artifact,
    registries: &Registries,
    tools: Tools<'_>,
) -> Result<Pushed, Error> {
    let Some(tag) = target.tag().filter(|_| target.digest().is_none()) else {
        return Err(Error::PushToDigest(target.to_string()));
    };
    let endpoint = registries.endpoint(target.registry())?;
    let registry = Registry::new(tools.http.clone(), endpoint, registries.credentials.clone());
    let failed = |source| Error::Push { target: target.to_string(), source };
    let mut push = Push { registry, repository: target.repository(), tools, sent: 0, present: 0 };

    let config = Blob::bytes("its config", b"{}");
    push.blob(&config).await.map_err(failed)?;
    let mut layers = Vec::new();
    for file in &artifact.files {
        let blob = Blob::file(file).map_err(failed)?;
        push.blob(&blob).await.map_err(failed)?;
        let mut layer = Descriptor::new(&file.media_type, blob.digest, blob.size);
        layer.annotations.insert(TITLE.to_string(), file.title.clone());
        layers.push(layer);
    }
    let manifest = ArtifactManifest {
        schema_version: 2,
        media_type: OCI_MANIFEST,
        artifact_type: &artifact.artifact_type,
        config: Descriptor::new(EMPTY_CONFIG, config.digest, config.size),
        layers,
        annotations: &artifact.annotations,
    };
    let manifest = serde_json::to_vec(&manifest).expect("a manifest has only JSON types");
    let digest = push.manifest(tag, manifest).await.map_err(failed)?;
    Ok(Pushed { reference: target.to_string(), digest, sent: push.sent, present: push.present })
}

struct Push<'a> {
    registry: Registry,
    repository: &'a str,
    tools: Tools<'a>,
    sent: u64,
    present: u64,
}

/// Something to upload, and where its bytes are.
struct Blob {
    label: String,
    digest: Digest,
    size: u64,
    content: Body,
}

impl Blob {
    fn bytes(label: &str, bytes: &'static [u8]) -> Self {
        let (label, content) = (label.to_string(), Body::Bytes(bytes.into()));
        Self { label, digest: Digest::of(bytes), size: bytes.len() as u64, content }
    }

    fn file(file: &ArtifactFile) -> Result<Self, registry::Error> {
        let unreadable = |source| http::Error::Read { file: file.path.clone(), source };
        let mut reader = std::fs::File::open(&file.path).map_err(unreadable)?;
        let (digest, size) = Digest::of_reader(&mut reader).map_err(unreadable)?;
        let content = Body::File { path: file.path.clone(), offset: 0, length: size };
        Ok(Self { label: file.title.clone(), digest, size, content })
    }

    fn piece(&self, offset: u64, length: u64) -> Body {
        match &self.content {
            Body::File { path, .. } => Body::File { path: path.clone(), offset, length },
            Body::Bytes(bytes) => Body::Bytes(bytes.slice(offset as usize..(offset + length) as usize)),
            Body::Empty => Body::Empty,
        }
    }
}

/// An open upload: where its next request goes, and how much the registry has of it.
struct Session {
    location: Url,
    offset: u64,
}

impl Push<'_> {
    async fn blob(&mut self, blob: &Blob) -> Result<(), registry::Error> {
        let url = self.registry.url(self.repository, &format!("blobs/{}", blob.digest.oci()));
        let response = self.send(Request::get(url, MAX_ANSWER).method(Method::HEAD)).await?;
        if response.is_success() {
            self.present += blob.size;
            return Ok(());
        }
        let task = self.tools.progress.start(&blob.label, Some(blob.size));
        let result = self.upload(blob, task).await;
        self.tools.progress.finish(task);
        result
    }

    async fn upload(&mut self, blob: &Blob, task: Task) -> Result<(), registry::Error> {
        let key = self.memory_key(blob);
        let mut session = match self.recalled(&key).await? {
            Some(session) if session.offset <= blob.size => {
                self.tools.progress.advance(task, session.offset);
                session
            }
            _ => self.open().await?,
        };
        self.remember(&key, blob, &session)?;
        let mut failures = 0;
        let mut whole = blob.size <= CHUNK && session.offset == 0;
        while !whole && session.offset < blob.size {
            match self.chunk(blob, &mut session, task).await {
                Ok(()) => {
                    failures = 0;
                    self.remember(&key, blob, &session)?;
                }
                Err(error) if refuses_chunks(&error) && session.offset == 0 => {
                    session = self.open().await?;
                    whole = true;
                }
                Err(error) => {
                    failures += 1;
                    session = self.after_failure(error, failures, session).await?;
                }
            }
        }
        let rest = if whole { blob.size } else { 0 };
        self.close(blob, &session, rest).await?;
        self.tools.progress.advance(task, rest);
        self.sent += rest;
        Ok(())
    }

    async fn open(&self) -> Result<Session, registry::Error> {
        let url = self.registry.url(self.repository, "blobs/uploads/");
        let request = Request::get(url, MAX_ANSWER)
            .method(Method::POST)
            .header(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        let response = self.send(request).await?.success()?;
        Ok(Session { location: location(&response)?, offset: 0 })
    }

    async fn chunk(&mut self, blob: &Blob, session: &mut Session, task: Task) -> Result<(), registry::Error> {
        let length = CHUNK.min(blob.size - session.offset);
        let range = format!("{}-{}", session.offset, session.offset + length - 1);
        let request = Request::get(session.location.clone(), MAX_ANSWER)
            .method(Method::PATCH)
            .header(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))
            .header(header::CONTENT_RANGE, HeaderValue::from_str(&range).expect("digits are a header value"))
            .body(blob.piece(session.offset, length));
        // Not repeated blindly: some of the piece may have arrived.
        let response = self.registry.send_once(self.repository, Access::Push, request).await?.success()?;
        session.location = location(&response)?;
        session.offset += length;
        self.sent += length;
        self.tools.progress.advance(task, length);
        Ok(())
    }

    /// Step 3's second half: how far the registry got, or the error if that does not help.
    async fn after_failure(
        &self,
        error: registry::Error,
        failures: u32,
        session: Session,
    ) -> Result<Session, registry::Error> {
        let passing = match &error {
            registry::Error::Http(http::Error::Unreachable { .. } | http::Error::Silent { .. }) => true,
            registry::Error::Http(error) => error.status().is_some_and(|s| s == 416 || http::is_passing(s)),
            _ => false,
        };
        if !passing || failures >= MAX_FAILURES {
            return Err(error);
        }
        // The status request waits and retries by itself.
        match self.status(&session.location).await? {
            Some(session) => Ok(session),
            None => self.open().await,
        }
    }

    /// How much of an upload the registry has; `None` if it has forgotten it.
    async fn status(&self, location: &Url) -> Result<Option<Session>, registry::Error> {
        let response = self.send(Request::get(location.clone(), MAX_ANSWER)).await?;
        if response.status == 404 || response.status == 400 {
            return Ok(None);
        }
        let response = response.success()?;
        let received = response.header(&header::RANGE).unwrap_or("0-0");
        let last =
            received.trim_start_matches("bytes=").split_once('-').and_then(|(_, last)| last.parse().ok());
        let offset = match last {
            Some(0) | None => 0,
            Some(last) => u64::saturating_add(last, 1),
        };
        let location = self::location(&response).unwrap_or_else(|_| location.clone());
        Ok(Some(Session { location, offset }))
    }

    async fn close(&self, blob: &Blob, session: &Session, rest: u64) -> Result<(), registry::Error> {
        let mut url = session.location.clone();
        url.query_pairs_mut().append_pair("digest", &blob.digest.oci());
        let mut request = Request::get(url, MAX_ANSWER).method(Method::PUT);
        request = match rest {
            0 => request.header(header::CONTENT_LENGTH, HeaderValue::from_static("0")),
            rest => request
                .header(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))
                .body(blob.piece(0, rest)),
        };
        self.registry.send_once(self.repository, Access::Push, request).await?.success()?;
        Ok(())
    }

    async fn manifest(&self, tag: &str, manifest: Vec<u8>) -> Result<Digest, registry::Error> {
        let digest = Digest::of(&manifest);
        let url = self.registry.url(self.repository, &format!("manifests/{tag}"));
        let request = Request::get(url, MAX_MANIFEST)
            .method(Method::PUT)
            .header(header::CONTENT_TYPE, HeaderValue::from_static(OCI_MANIFEST))
            .body(Body::Bytes(manifest.into()));
        self.send(request).await?.success()?;
        Ok(digest)
    }

    async fn send(&self, request: Request) -> Result<Response, registry::Error> {
        self.registry.send(self.repository, Access::Push, request).await
    }

    /// Under this name the cache keeps where an upload was left.
    fn memory_key(&self, blob: &Blob) -> String {
        self.registry.url(self.repository, &format!("blobs/uploads/#{}", blob.digest)).to_string()
    }

    async fn recalled(&self, key: &str) -> Result<Option<Session>, registry::Error> {
        let recalled = self.tools.cache.recall(key).map_err(http::Error::from)?;
        match recalled.and_then(|recalled| Url::parse(&recalled.url).ok()) {
            Some(location) => self.status(&location).await,
            None => Ok(None),
        }
    }

    fn remember(&self, key: &str, blob: &Blob, session: &Session) -> Result<(), registry::Error> {
        let entry = Remembered {
            url: session.location.to_string(),
            etag: None,
            last_modified: None,
            sha256: blob.digest,
            size: blob.size,
        };
        Ok(self.tools.cache.remember(key, &entry).map_err(http::Error::from)?)
    }
}

/// Where the next request of an upload goes; registries write it with and without host.
fn location(response: &Response) -> Result<Url, registry::Error> {
    let text = response.header(&header::LOCATION).unwrap_or("");
    let url = if text.is_empty() { None } else { response.url.join(text).ok() };
    url.ok_or_else(|| {
        let reason = "without saying where to upload to".to_string();
        http::Error::Redirect { url: http::shown(&response.url), reason }.into()
    })
}

fn refuses_chunks(error: &registry::Error) -> bool {
    match error {
        registry::Error::Http(error) => {
            matches!(error.status(), Some(400 | 404 | 405 | 411 | 413 | 415 | 501))
        }
        _ => false,
    }
}
