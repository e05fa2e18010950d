//! One server of the distribution API: requests that carry the right credentials.
//!
//! The steps of the token protocol (distribution spec, "token authentication"):
//! 1. ask without credentials, or with the token that served this repository last;
//! 2. a 401 says what the server wants: a password, or a token and where to get one; that of
//!    another host, to which the server has sent us on, is an error like any other;
//! 3. get the token, with the user's credentials if there are any, else anonymously;
//! 4. ask again, once. A second 401 means no.
//!
//! Retries, redirects, limits and resuming are the HTTP layer's.

use super::challenge::{self, Challenge};
use super::credentials::{Credential, Credentials, Problem};
use super::registries::Endpoint;
use crate::cache::Cache;
use crate::http::{
    Body, Download, Downloaded, Error as HttpError, HeaderMap, HeaderValue, Http, Method, Request, Response,
    header,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use eggo_bundles::progress::{Progress, Task};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use url::Url;

const MAX_TOKEN_ANSWER: u64 = 1 << 20;
/// What the protocol says where a server does not.
const TOKEN_LIFE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("`{registry}` refuses {what}")]
    Denied {
        registry: String,
        what: String,
        /// The user that was refused, if the server was told one.
        username: Option<String>,
        /// Why credentials could not be looked up.
        problems: Vec<Problem>,
    },
    #[error("the token server `{realm}` of `{registry}` {reason}")]
    Token { registry: String, realm: String, reason: String },
}

/// What a token is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Access {
    Pull,
    Push,
}

/// May a request be sent again after a failure?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Freely,
    Never,
}

/// A server and the tokens it gave us. Shared by all downloads from it.
pub(super) struct Registry {
    http: Http,
    endpoint: Endpoint,
    credentials: Credentials,
    tokens: Mutex<HashMap<String, Token>>,
}

#[derive(Clone)]
struct Token {
    header: HeaderValue,
    expires: Option<Instant>,
}

/// What to carry from now on, and whether the server gave it just now and to us.
struct Granted {
    header: HeaderValue,
    fresh: bool,
}

impl Registry {
    pub(super) fn new(http: Http, endpoint: Endpoint, credentials: Credentials) -> Self {
        Self { http, endpoint, credentials, tokens: Mutex::default() }
    }

    pub(super) fn url(&self, repository: &str, rest: &str) -> Url {
        self.endpoint.url(repository, rest)
    }

    /// Sends a request for a repository; every status but 401 is the caller's to judge.
    pub(super) async fn send(
        &self,
        repository: &str,
        access: Access,
        request: Request,
    ) -> Result<Response, Error> {
        self.send_as(Repeat::Freely, repository, access, request).await
    }

    /// As [`Registry::send`], but a failure is not followed by another try. (A 401 is: the
    /// server has not looked at the request.)
    pub(super) async fn send_once(
        &self,
        repository: &str,
        access: Access,
        request: Request,
    ) -> Result<Response, Error> {
        self.send_as(Repeat::Never, repository, access, request).await
    }

    async fn send_as(
        &self,
        repeat: Repeat,
        repository: &str,
        access: Access,
        mut request: Request,
    ) -> Result<Response, Error> {
        let scope = scope(repository, access);
        let mut used = self.token(&scope).await;
        let mut fresh = false;
        loop {
            self.carry(&mut request.headers, &request.url, used.as_ref());
            let response = match repeat {
                Repeat::Freely => self.http.send(&request).await?,
                Repeat::Never => self.http.send_once(&request).await?,
            };
            if response.status != 401 {
                return Ok(response);
            }
            if !self.is_home(&response.url) {
                return Ok(response.success()?);
            }
            let granted = match fresh {
                true => None,
                false => self.authorise(repository, &scope, &response.headers, used.as_ref()).await?,
            };
            match granted {
                Some(granted) => (used, fresh) = (Some(granted.header), granted.fresh),
                None => return Err(self.denied(repository, access).await),
            }
        }
    }

    /// Fetches a blob into the cache. A token that expires midway is renewed and the
    /// download goes on.
    pub(super) async fn download(
        &self,
        repository: &str,
        mut download: Download,
        cache: &Cache,
        progress: &dyn Progress,
    ) -> Result<Downloaded, Error> {
        let scope = scope(repository, Access::Pull);
        let mut used = self.token(&scope).await;
        let counted = Counted { inner: progress, bytes: AtomicU64::new(0) };
        let is_home = |url: &str| Url::parse(url).is_ok_and(|url| self.is_home(&url));
        // How far the download was when it got a token of its own.
        let mut renewed_at = None;
        loop {
            if let Some(url) = download.urls.first().cloned() {
                self.carry(&mut download.headers, &url, used.as_ref());
            }
            let headers = match self.http.download(&download, cache, &counted).await {
                Err(HttpError::Status { status: 401, headers, url, .. }) if is_home(&url) => headers,
                other => return Ok(other?),
            };
            let bytes = counted.bytes.load(Ordering::Relaxed);
            // A fresh token that brought no byte is a no.
            let granted = match renewed_at == Some(bytes) {
                true => None,
                false => self.authorise(repository, &scope, &headers, used.as_ref()).await?,
            };
            let Some(granted) = granted else { return Err(self.denied(repository, Access::Pull).await) };
            renewed_at = granted.fresh.then_some(bytes);
            used = Some(granted.header);
        }
    }

    async fn token(&self, scope: &str) -> Option<HeaderValue> {
        let tokens = self.tokens.lock().await;
        let token = tokens.get(scope)?;
        let alive = token.expires.is_none_or(|expires| Instant::now() < expires);
        alive.then(|| token.header.clone())
    }

    /// Puts the token on a request, but only if it goes to the registry itself: an upload may
    /// be sent on to some other host.
    fn carry(&self, headers: &mut HeaderMap, url: &Url, token: Option<&HeaderValue>) {
        headers.remove(header::AUTHORIZATION);
        if let Some(token) = token
            && self.is_home(url)
        {
            headers.insert(header::AUTHORIZATION, token.clone());
        }
    }

    /// Is this the registry itself? No other host may say where its credentials go.
    fn is_home(&self, url: &Url) -> bool {
        url.origin() == self.endpoint.url("", "").origin()
    }

    /// Steps 2 and 3. `stale` is what the server has just refused; if another download got a
    /// new token meanwhile, that one serves.
    async fn authorise(
        &self,
        repository: &str,
        scope: &str,
        answer: &HeaderMap,
        stale: Option<&HeaderValue>,
    ) -> Result<Option<Granted>, Error> {
        let mut tokens = self.tokens.lock().await;
        if let Some(token) = tokens.get(scope)
            && Some(&token.header) != stale
        {
            return Ok(Some(Granted { header: token.header.clone(), fresh: false }));
        }
        let (credential, _) = self.credentials.find(&self.endpoint.registry, repository).await;
        let token = match (challenge::parse(answer), credential) {
            (Some(Challenge::Bearer { realm, service, scope: asked }), credential) => {
                let scope = match &asked {
                    Some(asked) if !asked.is_empty() && asked != scope => format!("{scope} {asked}"),
                    _ => scope.to_string(),
                };
                self.fetch_token(&realm, service.as_deref(), &scope, credential).await?
            }
            (Some(Challenge::Basic), Some(Credential::Password { username, password })) => {
                Token { header: basic(&username, &password), expires: None }
            }
            _ => return Ok(None),
        };
        let header = token.header.clone();
        tokens.insert(scope.to_string(), token);
        Ok(Some(Granted { header, fresh: true }))
    }

    async fn fetch_token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: &str,
        credential: Option<Credential>,
    ) -> Result<Token, Error> {
        let bad = |reason: String| {
            let (registry, realm) = (self.endpoint.registry.clone(), realm.to_string());
            Error::Token { registry, realm, reason }
        };
        let mut url = Url::parse(realm).map_err(|_| bad("has an address that is not a url".to_string()))?;
        let secure = url.scheme() == "https" || (url.scheme() == "http" && self.endpoint.is_plain());
        if !secure {
            return Err(bad("would receive credentials over plain http".to_string()));
        }
        let mut form = vec![("scope", scope)];
        form.extend(service.map(|service| ("service", service)));
        let request = match &credential {
            Some(Credential::IdentityToken(token)) => {
                form.extend([
                    ("grant_type", "refresh_token"),
                    ("client_id", "eggo-bundle"),
                    ("refresh_token", token.as_str()),
                ]);
                let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&form).finish();
                let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
                Request::get(url, MAX_TOKEN_ANSWER)
                    .method(Method::POST)
                    .header(header::CONTENT_TYPE, kind)
                    .body(Body::Bytes(body.into()))
            }
            Some(Credential::Password { username, password }) => {
                url.query_pairs_mut().extend_pairs(&form).append_pair("account", username);
                Request::get(url, MAX_TOKEN_ANSWER).header(header::AUTHORIZATION, basic(username, password))
            }
            None => {
                url.query_pairs_mut().extend_pairs(&form);
                Request::get(url, MAX_TOKEN_ANSWER)
            }
        };
        let response = self.http.send(&request).await?;
        if matches!(response.status, 401 | 403) {
            let username = credential.as_ref().and_then(Credential::username);
            return Err(bad(match username {
                Some(username) => format!("refuses user `{username}`"),
                None if credential.is_some() => "refuses the identity token".to_string(),
                None => "wants a user".to_string(),
            }));
        }
        let answer: TokenAnswer = serde_json::from_slice(&response.success()?.body)
            .map_err(|_| bad("gave an answer that is not JSON".to_string()))?;
        let token = [answer.token, answer.access_token].into_iter().flatten().find(|token| !token.is_empty());
        let header = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
        let mut header = header.ok_or_else(|| bad("gave no token".to_string()))?;
        header.set_sensitive(true);
        // A token that dies on the way is as bad as none: use it for the first part of its life.
        let life = answer.expires_in.map_or(TOKEN_LIFE, Duration::from_secs).min(Duration::from_secs(86_400));
        Ok(Token { header, expires: Some(Instant::now() + life * 9 / 10) })
    }

    async fn denied(&self, repository: &str, access: Access) -> Error {
        let (credential, problems) = self.credentials.find(&self.endpoint.registry, repository).await;
        let verb = if access == Access::Push { "a push to" } else { "to give" };
        Error::Denied {
            registry: self.endpoint.registry.clone(),
            what: format!("{verb} `{repository}`"),
            username: credential.as_ref().and_then(Credential::username),
            problems,
        }
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

impl Credential {
    fn username(&self) -> Option<String> {
        match self {
            Self::Password { username, .. } => Some(username.clone()),
            Self::IdentityToken(_) => None,
        }
    }
}

fn scope(repository: &str, access: Access) -> String {
    match access {
        Access::Pull => format!("repository:{repository}:pull"),
        Access::Push => format!("repository:{repository}:pull,push"),
    }
}

fn basic(username: &str, password: &str) -> HeaderValue {
    let text = format!("Basic {}", STANDARD.encode(format!("{username}:{password}")));
    let mut header = HeaderValue::from_str(&text).expect("base64 is a header value");
    header.set_sensitive(true);
    header
}

/// Passes progress on and counts it.
struct Counted<'a> {
    inner: &'a dyn Progress,
    bytes: AtomicU64,
}

impl Progress for Counted<'_> {
    fn start(&self, label: &str, total: Option<u64>) -> Task {
        self.inner.start(label, total)
    }

    fn advance(&self, task: Task, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.inner.advance(task, bytes);
    }

    fn finish(&self, task: Task) {
        self.inner.finish(task);
    }

    fn note(&self, line: &str) {
        self.inner.note(line);
    }
}
