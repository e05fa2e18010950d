//! An image's documents and blobs from the servers that may have them: mirrors first, then
//! the registry itself.

use super::documents::{ACCEPTED, Descriptor, MAX_CONFIG, MAX_MANIFEST};
use super::error::Error;
use super::reference::Reference;
use super::registries::{BadEndpoint, Registries};
use super::registry::{self, Access, Registry};
use super::resolve::Documents;
use crate::cache::Cache;
use crate::http::{self, Download, HeaderValue, Http, Request, Response, header};
use crate::lock::Blob;
use eggo_bundles::Digest;
use eggo_bundles::progress::Progress;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const MAX_TAGS_ANSWER: u64 = 1 << 20;

/// The servers of this run, with the tokens they gave.
pub(super) struct Servers<'a> {
    http: &'a Http,
    registries: &'a Registries,
    known: Mutex<HashMap<String, Vec<Arc<Registry>>>>,
}

/// One image's repository, on every server that may have it.
pub(super) struct Repository<'a> {
    image: String,
    name: String,
    servers: Vec<Arc<Registry>>,
    cache: &'a Cache,
}

impl<'a> Servers<'a> {
    pub(super) fn new(http: &'a Http, registries: &'a Registries) -> Self {
        Self { http, registries, known: Mutex::default() }
    }

    pub(super) fn repository<'c>(
        &self,
        reference: &Reference,
        cache: &'c Cache,
    ) -> Result<Repository<'c>, BadEndpoint> {
        let mut known = self.known.lock().expect("no one panics while holding it");
        let servers = match known.get(reference.registry()) {
            Some(servers) => servers.clone(),
            None => {
                let endpoints = self.registries.endpoints(reference.registry())?.into_iter();
                let credentials = &self.registries.credentials;
                let servers: Vec<Arc<Registry>> = endpoints
                    .map(|endpoint| Arc::new(Registry::new(self.http.clone(), endpoint, credentials.clone())))
                    .collect();
                known.insert(reference.registry().to_string(), servers.clone());
                servers
            }
        };
        let (image, name) = (reference.to_string(), reference.repository().to_string());
        Ok(Repository { image, name, servers, cache })
    }
}

/// What one server said.
enum Answer<T> {
    Has(T),
    /// It answered, and does not have it.
    Lacks(String),
}

impl Repository<'_> {
    /// The document that a tag or digest names: its descriptor, and its bytes in the cache.
    pub(super) async fn root(&self, reference: &Reference) -> Result<Descriptor, Error> {
        if let Some(digest) = reference.digest()
            && let Some(bytes) = self.cache.read(&digest, MAX_MANIFEST)?
        {
            return Ok(Descriptor::new("", digest, bytes.len() as u64));
        }
        let asked = reference.asked();
        let found = self.first(|server| self.ask_manifest(server, &asked, reference.digest())).await;
        match found? {
            Ok((bytes, media_type)) => {
                let digest = self.cache.store_bytes(&bytes)?;
                Ok(Descriptor::new(&media_type, digest, bytes.len() as u64))
            }
            Err(answers) => {
                let nearest = self.nearest_tag(reference).await;
                Err(Error::NotFound { image: self.image.clone(), answers, nearest })
            }
        }
    }

    /// A layer, config or manifest into the cache.
    pub(super) async fn fetch(&self, blob: &Blob, progress: &dyn Progress) -> Result<(), Error> {
        if self.cache.contains(&blob.sha256, blob.size) {
            return Ok(());
        }
        if ACCEPTED.contains(&blob.media_type.as_str()) {
            return self.manifest_bytes(blob.sha256).await.map(drop);
        }
        let found = self.first(|server| self.ask_blob(server, blob, progress)).await?;
        found.map_err(|answers| self.lost(answers))
    }

    async fn manifest_bytes(&self, digest: Digest) -> Result<Vec<u8>, Error> {
        if let Some(bytes) = self.cache.read(&digest, MAX_MANIFEST)? {
            return Ok(bytes);
        }
        let asked = digest.oci();
        let found = self.first(|server| self.ask_manifest(server, &asked, Some(digest))).await?;
        let (bytes, _) = found.map_err(|answers| self.lost(answers))?;
        self.cache.store_bytes(&bytes)?;
        Ok(bytes)
    }

    fn lost(&self, answers: Vec<String>) -> Error {
        Error::NotFound { image: self.image.clone(), answers, nearest: None }
    }

    /// Asks the servers in order. The outer result is failure to find out, the inner one says
    /// that none has it.
    async fn first<T, F>(&self, ask: impl Fn(Arc<Registry>) -> F) -> Result<Result<T, Vec<String>>, Error>
    where
        F: Future<Output = Result<Answer<T>, registry::Error>>,
    {
        let (mut errors, mut answers) = (Vec::new(), Vec::new());
        let mut itself_lacks = false;
        for server in &self.servers {
            let asked = ask(server.clone()).await;
            itself_lacks = matches!(asked, Ok(Answer::Lacks(_)));
            match asked {
                Ok(Answer::Has(found)) => return Ok(Ok(found)),
                Ok(Answer::Lacks(answer)) => answers.push(answer),
                // Our own disk: no other server can help.
                Err(registry::Error::Http(http::Error::Cache(error))) => return Err(error.into()),
                Err(error) => errors.push(error),
            }
        }
        // The registry itself comes last and knows best.
        if itself_lacks {
            answers.extend(errors.iter().map(|error| format!("a mirror failed: {error}")));
            return Ok(Err(answers));
        }
        Err(Error::Registry { image: self.image.clone(), errors })
    }

    async fn ask_manifest(
        &self,
        server: Arc<Registry>,
        asked: &str,
        expected: Option<Digest>,
    ) -> Result<Answer<(Vec<u8>, String)>, registry::Error> {
        let url = server.url(&self.name, &format!("manifests/{asked}"));
        let accept = HeaderValue::from_str(&ACCEPTED.join(", ")).expect("media types are header values");
        let request = Request::get(url, MAX_MANIFEST).header(header::ACCEPT, accept);
        let response = server.send(&self.name, Access::Pull, request).await?;
        if let Some(answer) = lacks(&response) {
            return Ok(Answer::Lacks(answer));
        }
        let response = response.success()?;
        let found = Digest::of(&response.body);
        let said = response.headers.get("docker-content-digest").and_then(|value| value.to_str().ok());
        let expected = expected.or_else(|| said?.parse().ok());
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            let url = http::shown(&response.url);
            return Err(http::Error::WrongDigest { url, expected, found }.into());
        }
        let media_type = response.header(&header::CONTENT_TYPE).unwrap_or_default().to_string();
        Ok(Answer::Has((response.body.to_vec(), media_type)))
    }

    async fn ask_blob(
        &self,
        server: Arc<Registry>,
        blob: &Blob,
        progress: &dyn Progress,
    ) -> Result<Answer<()>, registry::Error> {
        let url = server.url(&self.name, &format!("blobs/{}", blob.sha256.oci()));
        let download =
            Download::new(self.image.clone(), vec![url]).expect(Some(blob.sha256), Some(blob.size));
        match server.download(&self.name, download, self.cache, progress).await {
            Ok(_) => Ok(Answer::Has(())),
            Err(registry::Error::Http(http::Error::Status { status: 404, url, .. })) => {
                Ok(Answer::Lacks(format!("`{url}` answered 404")))
            }
            Err(error) => Err(error),
        }
    }

    /// Best effort: the tag that was probably meant.
    async fn nearest_tag(&self, reference: &Reference) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Tags {
            tags: Option<Vec<String>>,
        }
        let tag = reference.tag()?;
        let server = self.servers.last()?;
        let request = Request::get(server.url(&self.name, "tags/list"), MAX_TAGS_ANSWER);
        let response = server.send(&self.name, Access::Pull, request).await.ok()?.success().ok()?;
        let tags = serde_json::from_slice::<Tags>(&response.body).ok()?.tags?;
        eggo_yaml::nearest(tag, tags.iter().map(String::as_str)).map(String::from)
    }
}

impl Documents for Repository<'_> {
    async fn manifest(&self, descriptor: &Descriptor) -> Result<Vec<u8>, Error> {
        self.manifest_bytes(self.digest(descriptor)?).await
    }

    async fn config(&self, descriptor: &Descriptor) -> Result<Vec<u8>, Error> {
        let sha256 = self.digest(descriptor)?;
        if descriptor.size > MAX_CONFIG {
            let problem = super::documents::BadDocument(format!("its config has {} bytes", descriptor.size));
            return Err(Error::Document { image: self.image.clone(), problem });
        }
        let media_type = descriptor.media_type.clone();
        let blob = Blob { sha256, size: descriptor.size, media_type };
        // A damaged one in the cache is noticed, and dropped, when it is read: then a second time.
        for _ in 0..2 {
            self.fetch(&blob, &eggo_bundles::progress::Silent).await?;
            if let Some(bytes) = self.cache.read(&sha256, MAX_CONFIG)? {
                return Ok(bytes);
            }
        }
        Err(self.lost(vec![format!("blob `{sha256}` vanished from the cache")]))
    }
}

impl Repository<'_> {
    fn digest(&self, descriptor: &Descriptor) -> Result<Digest, Error> {
        descriptor.digest().map_err(|problem| Error::Document { image: self.image.clone(), problem })
    }
}

/// 404 is the plain answer; some registries say 400 to a name they would never give out.
fn lacks(response: &Response) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Answer {
        errors: Vec<Said>,
    }
    #[derive(serde::Deserialize)]
    struct Said {
        code: String,
        #[serde(default)]
        message: String,
    }
    let said = serde_json::from_slice::<Answer>(&response.body).ok();
    let said = said.and_then(|answer| answer.errors.into_iter().next());
    let unknown = said.as_ref().is_some_and(|said| {
        matches!(said.code.as_str(), "MANIFEST_UNKNOWN" | "NAME_UNKNOWN" | "NAME_INVALID" | "NOT_FOUND")
    });
    if response.status != 404 && !(response.status == 400 && unknown) {
        return None;
    }
    let host = &response.url[url::Position::BeforeHost..url::Position::AfterPort];
    let said = said.map(|said| format!(": {}", said.message)).unwrap_or_default();
    Some(format!("`{host}` answered {}{said}", response.status))
}
