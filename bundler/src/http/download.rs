//! A large file into the cache: from the first mirror that has it, from the byte where the
//! last attempt stopped, and only if it is what was expected.

use super::{Body, Error, Http, Request, forget_credentials, header, local_path, same_origin, shown};
use crate::cache::{Cache, Partial};
use eggo_bundles::Digest;
use eggo_bundles::progress::{Progress, Task};
use reqwest::header::{HeaderMap, HeaderValue};
use std::path::PathBuf;
use tracing::debug;
use url::Url;

/// A server that cuts every answer short still gets us there, but not for ever.
const MAX_CUTS: u32 = 1000;

#[derive(Debug, Clone)]
pub struct Download {
    /// What a person calls it, beside the progress bar.
    pub label: String,
    /// The same file in several places, the preferred one first.
    pub urls: Vec<Url>,
    /// Credentials among them go only to the first url's host.
    pub headers: HeaderMap,
    pub sha256: Option<Digest>,
    pub size: Option<u64>,
    /// The most to accept where `size` is not known.
    pub max_bytes: u64,
}

#[derive(Debug, Clone)]
pub struct Downloaded {
    pub sha256: Digest,
    pub size: u64,
    /// Where it is in the cache.
    pub path: PathBuf,
    /// The mirror that had it; `None` if the cache did.
    pub url: Option<Url>,
}

/// Why an attempt ended early.
enum Failure {
    /// Worth another attempt at the same place.
    Passing(Error, Option<Box<HeaderMap>>),
    /// Another mirror may do better.
    Final(Error),
}

impl Download {
    pub fn new(label: impl Into<String>, urls: Vec<Url>) -> Self {
        Self {
            label: label.into(),
            urls,
            headers: HeaderMap::new(),
            sha256: None,
            size: None,
            max_bytes: 16 << 30,
        }
    }

    pub fn expect(mut self, sha256: Option<Digest>, size: Option<u64>) -> Self {
        (self.sha256, self.size) = (sha256, size);
        self
    }

    pub fn at_most(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    fn limit(&self) -> u64 {
        self.size.unwrap_or(self.max_bytes)
    }

    /// Partial content of a known digest can be continued from any mirror, as the whole is
    /// verified at the end; of an unknown one only from the same url.
    fn key(&self) -> String {
        match (&self.sha256, self.urls.first()) {
            (Some(sha256), _) => format!("sha256-{sha256}"),
            (None, Some(url)) => format!("url-{}", Digest::of(url.as_str().as_bytes())),
            (None, None) => "nowhere".to_string(),
        }
    }

    /// May what came from `url` be continued later?
    fn is_continued_at(&self, url: &Url) -> bool {
        self.sha256.is_some() || self.urls.first() == Some(url)
    }
}

impl Http {
    /// As [`Http::download`], but a cached file of the right size is taken without hashing it:
    /// for content that is hashed anyway when it is used.
    pub async fn ensure(
        &self,
        download: &Download,
        cache: &Cache,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        if let (Some(sha256), Some(size)) = (&download.sha256, download.size)
            && cache.contains(sha256, size)
        {
            debug!("in the cache: {}, {sha256}", download.label);
            return Ok(());
        }
        self.download(download, cache, progress).await.map(drop)
    }

    /// Fetches into the cache, unless it is there and intact.
    pub async fn download(
        &self,
        download: &Download,
        cache: &Cache,
        progress: &dyn Progress,
    ) -> Result<Downloaded, Error> {
        if let Some(cached) = from_cache(download, cache)? {
            return Ok(cached);
        }
        let mut partial = cache.partial(&download.key()).await?;
        // Another process may have fetched it while we waited for the lock.
        if let Some(cached) = from_cache(download, cache)? {
            partial.discard();
            return Ok(cached);
        }
        let task = progress.start(&download.label, download.size);
        let result = self.try_mirrors(download, &mut partial, progress, task).await;
        progress.finish(task);
        let (sha256, url) = result?;
        let size = partial.length();
        let path = cache.adopt(partial, &sha256)?;
        Ok(Downloaded { sha256, size, path, url: Some(url) })
    }

    async fn try_mirrors(
        &self,
        download: &Download,
        partial: &mut Partial,
        progress: &dyn Progress,
        task: Task,
    ) -> Result<(Digest, Url), Error> {
        let mut errors = Vec::new();
        for url in &download.urls {
            if !download.is_continued_at(url) {
                partial.restart()?;
            }
            match self.try_mirror(download, url, partial, progress, task).await {
                Ok(sha256) => return Ok((sha256, url.clone())),
                // Our own disk, or our own wish: no mirror can help.
                Err(error @ (Error::Cache(_) | Error::Offline { .. })) => return Err(error),
                Err(error) => errors.push(error),
            }
        }
        match errors.len() {
            1 => Err(errors.remove(0)),
            _ => Err(Error::Mirrors { label: download.label.clone(), errors }),
        }
    }

    async fn try_mirror(
        &self,
        download: &Download,
        url: &Url,
        partial: &mut Partial,
        progress: &dyn Progress,
        task: Task,
    ) -> Result<Digest, Error> {
        let mut attempt = 1;
        let mut cuts = 0;
        loop {
            let before = partial.length();
            let result = match url.scheme() {
                "file" => copy_local(download, url, partial, progress, task),
                _ => self.continue_from(download, url, partial, progress, task).await,
            };
            let failure = match result.and_then(|()| check(download, url, partial)) {
                Ok(sha256) => return Ok(sha256),
                Err(failure) => failure,
            };
            let (error, headers) = match failure {
                Failure::Passing(error, headers) => (error, headers),
                Failure::Final(error @ (Error::WrongDigest { .. } | Error::WrongSize { .. })) => {
                    partial.restart()?;
                    // The wrong bytes may be those of an earlier run or another mirror.
                    if before > 0 && cuts < MAX_CUTS {
                        cuts = MAX_CUTS;
                        continue;
                    }
                    return Err(error);
                }
                Failure::Final(error) => return Err(error),
            };
            if partial.length() > before && cuts < MAX_CUTS {
                cuts += 1;
                attempt = 1;
            }
            let wait = match headers {
                Some(headers) => self.pause(attempt, Some(&headers)),
                None => self.pause_after(attempt, &error),
            };
            let Some(wait) = wait else { return Err(error) };
            self.announce(attempt, wait, &error.to_string());
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// One request for what is still missing.
    async fn continue_from(
        &self,
        download: &Download,
        url: &Url,
        partial: &mut Partial,
        progress: &dyn Progress,
        task: Task,
    ) -> Result<(), Failure> {
        let request = resuming(download, url, partial)?;
        let answer = self.open(&request).await.map_err(passing)?;
        let mut inner = answer.inner;
        match inner.status().as_u16() {
            206 if download.sha256.is_none() && is_other_version(inner.headers(), partial) => {
                partial.restart()?;
                let reason = "it changed while it was fetched".to_string();
                return Err(passing(Error::Unreachable { url: shown(url), reason }));
            }
            206 if range_start(inner.headers()) == Some(partial.length()) => {}
            200 => partial.restart()?,
            // Nothing is missing, or the file is shorter than what we have: the check decides.
            416 if partial.length() > 0 && download.size == Some(partial.length()) => return Ok(()),
            206 | 416 => {
                partial.restart()?;
                let reason = "the server sent another range than the one requested".to_string();
                return Err(passing(Error::Unreachable { url: shown(url), reason }));
            }
            status => {
                let headers = inner.headers().clone();
                let response =
                    super::Answer { url: answer.url, inner }.read(self, super::MAX_ERROR_BODY, false).await;
                let error = match response.and_then(super::Response::success) {
                    Err(error) => error,
                    Ok(response) => Error::Status {
                        url: shown(&response.url),
                        status,
                        headers: Box::new(response.headers),
                        body: String::new(),
                    },
                };
                return Err(match super::retry::is_passing(status) {
                    true => Failure::Passing(error, Some(Box::new(headers))),
                    false => Failure::Final(error),
                });
            }
        }
        // The rest of a file may come without its date: it keeps the one that it began with.
        if partial.length() == 0 {
            let validator = validator(inner.headers()).filter(|_| download.is_continued_at(url));
            partial.remember_validator(validator)?;
        }
        let limit = download.limit();
        let too_large = || match download.size {
            Some(expected) => {
                Failure::Final(Error::WrongSize { url: shown(url), expected, found: limit.saturating_add(1) })
            }
            None => Failure::Final(Error::TooLarge { url: shown(url), limit }),
        };
        if inner.content_length().is_some_and(|more| partial.length().saturating_add(more) > limit) {
            return Err(too_large());
        }
        progress.advance(task, partial.take_unreported());
        while let Some(chunk) = inner.chunk().await.map_err(|error| passing(self.unreachable(url, &error)))? {
            if partial.length() + chunk.len() as u64 > limit {
                return Err(too_large());
            }
            partial.append(&chunk)?;
            progress.advance(task, partial.take_unreported());
        }
        Ok(())
    }
}

fn from_cache(download: &Download, cache: &Cache) -> Result<Option<Downloaded>, Error> {
    let Some(sha256) = download.sha256 else { return Ok(None) };
    let found = cache.verified(&sha256)?;
    if found.is_some() {
        debug!("in the cache: {}, {sha256}", download.label);
    }
    Ok(found.map(|(path, size)| Downloaded { sha256, size, path, url: None }))
}

fn resuming(download: &Download, url: &Url, partial: &mut Partial) -> Result<Request, Failure> {
    let mut headers = download.headers.clone();
    if download.urls.first().is_none_or(|first| !same_origin(first, url)) {
        forget_credentials(&mut headers);
    }
    if partial.length() > 0 {
        let validator = partial.validator().and_then(|text| HeaderValue::from_str(text).ok());
        if download.sha256.is_none() && validator.is_none() {
            // Nothing proves that the rest belongs to what we have.
            partial.restart()?;
        } else {
            let range = format!("bytes={}-", partial.length());
            headers.insert(header::RANGE, HeaderValue::from_str(&range).expect("digits are a header value"));
            // A known digest proves more than a validator, and another mirror's validator differs.
            if let (None, Some(validator)) = (download.sha256, validator) {
                headers.insert(header::IF_RANGE, validator);
            }
        }
    }
    let method = reqwest::Method::GET;
    Ok(Request { method, url: url.clone(), headers, body: Body::Empty, max_bytes: download.limit() })
}

fn copy_local(
    download: &Download,
    url: &Url,
    partial: &mut Partial,
    progress: &dyn Progress,
    task: Task,
) -> Result<(), Failure> {
    use std::io::Read;
    let file = local_path(url).map_err(Failure::Final)?;
    let unreadable = |source| Failure::Final(Error::Read { file: file.clone(), source });
    let mut reader = std::fs::File::open(&file).map_err(unreadable)?;
    partial.restart()?;
    let mut buffer = vec![0; 1 << 17];
    loop {
        let n = reader.read(&mut buffer).map_err(unreadable)?;
        if n == 0 {
            return Ok(());
        }
        if partial.length() + n as u64 > download.limit() {
            return Err(Failure::Final(Error::TooLarge { url: shown(url), limit: download.limit() }));
        }
        partial.append(&buffer[..n])?;
        progress.advance(task, partial.take_unreported());
    }
}

fn check(download: &Download, url: &Url, partial: &Partial) -> Result<Digest, Failure> {
    let found = partial.length();
    if let Some(expected) = download.size
        && found != expected
    {
        let url = shown(url);
        // Too short is what a connection that closes early looks like.
        return Err(match found < expected {
            true => passing(Error::Unreachable {
                url,
                reason: format!("the answer ended after {found} of {expected} bytes"),
            }),
            false => Failure::Final(Error::WrongSize { url, expected, found }),
        });
    }
    let sha256 = partial.digest();
    match download.sha256 {
        Some(expected) if expected != sha256 => {
            Err(Failure::Final(Error::WrongDigest { url: shown(url), expected, found: sha256 }))
        }
        _ => Ok(sha256),
    }
}

/// A strong etag, or else the modification date: what `If-Range` takes.
fn validator(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let strong = text(header::ETAG).filter(|etag| !etag.starts_with("W/"));
    strong.or_else(|| text(header::LAST_MODIFIED)).map(str::to_string)
}

/// Is the answer part of another version than what we have? A strong etag must be repeated
/// with every part, a date need not be.
fn is_other_version(headers: &HeaderMap, partial: &Partial) -> bool {
    let Some(known) = partial.validator() else { return false };
    let found = |name| headers.get(name).map(HeaderValue::as_bytes);
    match known.starts_with('"') {
        true => found(header::ETAG) != Some(known.as_bytes()),
        false => found(header::LAST_MODIFIED).is_some_and(|date| date != known.as_bytes()),
    }
}

fn range_start(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    text.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
}

pub(super) fn foreign_headers(headers: &HeaderMap) {
    range_start(headers);
    validator(headers);
}

fn passing(error: Error) -> Failure {
    match error {
        Error::Unreachable { .. } | Error::ProxyUnreachable { .. } | Error::Silent { .. } => {
            Failure::Passing(error, None)
        }
        error => Failure::Final(error),
    }
}

impl From<crate::cache::Error> for Failure {
    fn from(error: crate::cache::Error) -> Self {
        Failure::Final(error.into())
    }
}
