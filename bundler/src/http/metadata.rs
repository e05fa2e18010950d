//! Small files that change under one url: kept with their digest, asked for again each time.

use super::{Error, Http, Request, header, shown};
use crate::cache::{Cache, Remembered};
use bytes::Bytes;
use eggo_bundles::Digest;
use reqwest::header::HeaderValue;
use tracing::debug;
use url::Url;

#[derive(Debug, Clone)]
pub struct Metadata {
    pub bytes: Bytes,
    pub sha256: Digest,
    /// Where the answer came from, after redirects.
    pub url: Url,
    pub freshness: Freshness,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The server sent it just now.
    New,
    /// The server said that the cached one is still right.
    Revalidated,
    /// Offline: nobody was asked.
    Cached,
}

impl Http {
    /// The current content behind a url. A cached copy saves the transfer, never the question:
    /// it is used only if the server confirms it, or if this run is offline.
    pub async fn metadata(&self, request: &Request, cache: &Cache) -> Result<Metadata, Error> {
        // What the cache keeps may be copied elsewhere: no user or password.
        let key = shown(&request.url);
        let remembered = cache.recall(&key)?;
        let kept = match &remembered {
            Some(entry) if entry.size <= request.max_bytes => cache.read(&entry.sha256, request.max_bytes)?,
            _ => None,
        };
        let kept = remembered.zip(kept);

        if self.is_offline() && request.url.scheme() != "file" {
            let (entry, bytes) = kept.ok_or_else(|| Error::Offline { url: shown(&request.url) })?;
            let url = super::url(&entry.url)?;
            debug!("offline: {key} as it was fetched before");
            let freshness = Freshness::Cached;
            return Ok(Metadata { bytes: bytes.into(), sha256: entry.sha256, url, freshness });
        }

        let mut asked = request.clone();
        if let Some((entry, _)) = &kept {
            for (name, value) in
                [(header::IF_NONE_MATCH, &entry.etag), (header::IF_MODIFIED_SINCE, &entry.last_modified)]
            {
                if let Some(value) = value.as_deref().and_then(|text| HeaderValue::from_str(text).ok()) {
                    asked.headers.insert(name, value);
                }
            }
        }
        let response = self.send(&asked).await?;
        if let (304, Some((entry, bytes))) = (response.status, kept) {
            debug!("in the cache, and still current: {key}");
            let (sha256, freshness) = (entry.sha256, Freshness::Revalidated);
            return Ok(Metadata { bytes: bytes.into(), sha256, url: response.url, freshness });
        }
        let response = response.success()?;
        let sha256 = cache.store_bytes(&response.body)?;
        cache.remember(
            &key,
            &Remembered {
                url: shown(&response.url),
                etag: response.header(&header::ETAG).map(str::to_string),
                last_modified: response.header(&header::LAST_MODIFIED).map(str::to_string),
                sha256,
                size: response.body.len() as u64,
            },
        )?;
        Ok(Metadata { bytes: response.body, sha256, url: response.url, freshness: Freshness::New })
    }
}
