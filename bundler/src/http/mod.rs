//! The one way to the network: bounded answers, retries with back-off, redirects that
//! take no credentials to another host, own CAs, and downloads that go on where they stopped.
//!
//! What a registry or a repository means by its answers is not known here.

mod clients;
mod download;
mod error;
mod metadata;
mod retry;
mod route;
mod trust;

pub use download::{Download, Downloaded};
pub use error::{Error, recorded, shown};
pub use metadata::{Freshness, Metadata};
pub use reqwest::Method;
pub use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
pub use retry::is_passing;
pub use route::{Route, Way};
pub use trust::Trust;

use bytes::{Bytes, BytesMut};
use clients::Clients;
use eggo_terminal::Size;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, warn};
use url::Url;

const MAX_REDIRECTS: usize = 10;
/// How much of an error's body is kept for its message.
const MAX_ERROR_BODY: u64 = 4 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    #[default]
    Online,
    /// Only the cache and local files.
    Offline,
}

#[derive(Debug, Clone)]
pub struct Options {
    pub network: Network,
    /// PEM files of CAs, or of servers' own certificates, to trust besides the system's CAs.
    pub ca_files: Vec<PathBuf>,
    /// Ways to hosts that differ from the environment's; the first that fits counts.
    pub routes: Vec<Route>,
    /// What single hosts are trusted with; the first that fits counts.
    pub trusts: Vec<Trust>,
    pub attempts: u32,
    /// The pause before the second attempt; it doubles from there.
    pub first_pause: Duration,
    pub connect_timeout: Duration,
    /// The longest silence before or in the middle of an answer.
    pub idle_timeout: Duration,
    /// After this long without an answer, the server that is waited for is named.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            network: Network::Online,
            ca_files: Vec::new(),
            routes: Vec::new(),
            trusts: Vec::new(),
            attempts: 5,
            first_pause: Duration::from_millis(500),
            connect_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(30),
            patience: Duration::from_secs(5),
        }
    }
}

/// Cheap to clone; all clones share their connections.
#[derive(Debug, Clone)]
pub struct Http {
    clients: Arc<Clients>,
    options: Options,
}

/// One request. Its answer is held in memory and never larger than `max_bytes`.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Body,
    pub max_bytes: u64,
}

/// What a request carries; it can be sent more than once.
#[derive(Debug, Clone, Default)]
pub enum Body {
    #[default]
    Empty,
    Bytes(Bytes),
    /// `length` bytes of a file from `offset` on, streamed.
    File {
        path: PathBuf,
        offset: u64,
        length: u64,
    },
}

#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    /// Where the answer came from, after redirects.
    pub url: Url,
    pub body: Bytes,
}

/// An answer whose body has not been read yet.
struct Answer {
    url: Url,
    inner: reqwest::Response,
}

pub fn url(text: &str) -> Result<Url, Error> {
    let bad = |reason: String| Error::BadUrl { text: recorded(text), reason };
    let url = Url::parse(text).map_err(|error| bad(error.to_string()))?;
    match url.scheme() {
        "http" | "https" | "file" => Ok(url),
        other => Err(bad(format!("`{other}:` is not one of http, https, file"))),
    }
}

impl Request {
    pub fn get(url: Url, max_bytes: u64) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: Body::Empty, max_bytes }
    }

    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    pub fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }
}

impl Response {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Anything but a 2xx is an error.
    pub fn success(self) -> Result<Self, Error> {
        if self.is_success() {
            return Ok(self);
        }
        let keep = self.body.len().min(MAX_ERROR_BODY as usize);
        Err(Error::Status {
            url: shown(&self.url),
            status: self.status,
            headers: Box::new(self.headers),
            body: String::from_utf8_lossy(&self.body[..keep]).into_owned(),
        })
    }

    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Http {
    pub fn new(options: Options) -> Result<Self, Error> {
        let clients = Arc::new(Clients::new(&options)?);
        Ok(Self { clients, options })
    }

    pub fn is_offline(&self) -> bool {
        self.options.network == Network::Offline
    }

    /// Sends a request, again where that may help, and reads the whole answer.
    /// An answer of any status that does not pass by itself is a `Response`, not an error.
    pub async fn send(&self, request: &Request) -> Result<Response, Error> {
        if request.url.scheme() == "file" {
            return read_local(request);
        }
        let mut attempt = 1;
        loop {
            let result = self.attempt(request).await;
            let (wait, reason) = match &result {
                Ok(response) if retry::is_passing(response.status) => {
                    let reason = format!("`{}` answered {}", shown(&request.url), response.status);
                    (self.pause(attempt, Some(&response.headers)), reason)
                }
                Err(error) => (self.pause_after(attempt, error), error.to_string()),
                Ok(_) => return result,
            };
            let Some(wait) = wait else { return result };
            self.announce(attempt, wait, &reason);
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// Sends a request once: for those that must not be repeated without looking first.
    pub async fn send_once(&self, request: &Request) -> Result<Response, Error> {
        self.attempt(request).await
    }

    /// A GET that must succeed.
    pub async fn get(&self, url: Url, max_bytes: u64) -> Result<Response, Error> {
        self.send(&Request::get(url, max_bytes)).await?.success()
    }

    async fn attempt(&self, request: &Request) -> Result<Response, Error> {
        let answer = self.open(request).await?;
        let success = answer.inner.status().is_success();
        // An error page that is too large is cut, not an error of its own.
        let limit = if success { request.max_bytes } else { MAX_ERROR_BODY.max(request.max_bytes) };
        answer.read(self, limit, success).await
    }

    fn pause(&self, attempt: u32, headers: Option<&HeaderMap>) -> Option<Duration> {
        retry::pause(attempt, self.options.attempts, self.options.first_pause, headers)
    }

    /// Only what may pass by itself is tried again, and a silent server but once.
    fn pause_after(&self, attempt: u32, error: &Error) -> Option<Duration> {
        match error {
            Error::Unreachable { .. } | Error::ProxyUnreachable { .. } => self.pause(attempt, None),
            Error::Silent { .. } if attempt < 2 => self.pause(attempt, None),
            _ => None,
        }
    }

    fn announce(&self, attempt: u32, wait: Duration, reason: &str) {
        let (next, attempts) = (attempt + 1, self.options.attempts);
        warn!("{reason}: trying again in {:.1} s (attempt {next} of {attempts})", wait.as_secs_f32());
    }

    /// Says whom it waits for when nothing comes.
    async fn answer(&self, url: &Url, builder: reqwest::RequestBuilder) -> Result<reqwest::Response, Error> {
        let mut sent = std::pin::pin!(builder.send());
        let result = match tokio::time::timeout(self.options.patience, &mut sent).await {
            Ok(result) => result,
            Err(_) => {
                warn!("waiting for an answer from `{}`", shown(url));
                sent.await
            }
        };
        result.map_err(|error| self.unreachable(url, &error))
    }

    fn unreachable(&self, url: &Url, error: &reqwest::Error) -> Error {
        let (url_shown, reason) = (shown(url), reason(error));
        if reason.contains("invalid peer certificate") {
            return Error::Certificate { url: url_shown, reason };
        }
        if error.is_timeout() && !error.is_connect() {
            return Error::Silent { url: url_shown, after: self.options.idle_timeout };
        }
        match route::proxy_for(url, &self.options.routes).filter(|_| error.is_connect()) {
            Some(proxy) => Error::ProxyUnreachable { url: url_shown, proxy, reason },
            None => Error::Unreachable { url: url_shown, reason },
        }
    }

    /// One attempt, with redirects followed; the body is still to be read.
    async fn open(&self, request: &Request) -> Result<Answer, Error> {
        if self.is_offline() {
            return Err(Error::Offline { url: shown(&request.url) });
        }
        let mut url = request.url.clone();
        let mut headers = request.headers.clone();
        let mut method = request.method.clone();
        let mut body = request.body.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut builder = self
                .clients
                .for_url(&url, &self.options)?
                .request(method.clone(), url.clone())
                .headers(headers.clone());
            if method == Method::GET {
                builder = builder.header(header::ACCEPT_ENCODING, "identity");
            }
            builder = match &body {
                Body::Empty => builder,
                Body::Bytes(bytes) => builder.body(bytes.clone()),
                Body::File { path, offset, length } => builder
                    .header(header::CONTENT_LENGTH, *length)
                    .body(file_stream(path, *offset, *length).await?),
            };
            debug!("{method} {}", shown(&url));
            let inner = self.answer(&url, builder).await?;
            let status = inner.status().as_u16();
            match inner.content_length() {
                Some(length) => debug!("{status} from {}: {}", shown(&url), Size(length)),
                None => debug!("{status} from {}", shown(&url)),
            }
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return Ok(Answer { url, inner });
            }
            let next = next_hop(&url, &inner)?;
            if status == 303 || (method == Method::POST && status != 307 && status != 308) {
                method = Method::GET;
                body = Body::Empty;
            }
            if !same_origin(&url, &next) {
                forget_credentials(&mut headers);
                // A form that asks for a token holds the one that it is asked with.
                if method == Method::POST && matches!(body, Body::Bytes(_)) {
                    let reason = "a form that may hold a token to another host".to_string();
                    return Err(Error::Redirect { url: shown(&url), reason });
                }
            }
            url = next;
        }
        let reason = format!("more than {MAX_REDIRECTS} times");
        Err(Error::Redirect { url: shown(&request.url), reason })
    }
}

impl Answer {
    async fn read(self, http: &Http, limit: u64, strict: bool) -> Result<Response, Error> {
        let Answer { url, mut inner } = self;
        let status = inner.status().as_u16();
        let headers = inner.headers().clone();
        let too_large = || Error::TooLarge { url: shown(&url), limit };
        if strict && inner.content_length().is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let mut body = BytesMut::new();
        while let Some(chunk) = inner.chunk().await.map_err(|error| http.unreachable(&url, &error))? {
            if (body.len() + chunk.len()) as u64 > limit {
                if strict {
                    return Err(too_large());
                }
                break;
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Response { status, headers, url, body: body.freeze() })
    }
}

fn read_local(request: &Request) -> Result<Response, Error> {
    let file = local_path(&request.url)?;
    let length = std::fs::metadata(&file).map(|metadata| metadata.len());
    let body = match length {
        Ok(length) if length > request.max_bytes => {
            return Err(Error::TooLarge { url: shown(&request.url), limit: request.max_bytes });
        }
        Ok(_) => std::fs::read(&file),
        Err(error) => Err(error),
    };
    let (status, body) = match body {
        Ok(body) => (200, body),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (404, Vec::new()),
        Err(source) => return Err(Error::Read { file, source }),
    };
    Ok(Response { status, headers: HeaderMap::new(), url: request.url.clone(), body: body.into() })
}

fn local_path(url: &Url) -> Result<PathBuf, Error> {
    let reason = "a file url must be absolute and on this machine".to_string();
    url.to_file_path().map_err(|()| Error::BadUrl { text: shown(url), reason })
}

async fn file_stream(path: &std::path::Path, offset: u64, length: u64) -> Result<reqwest::Body, Error> {
    use tokio::io::{AsyncReadExt, AsyncSeekExt};
    let unreadable = |source| Error::Read { file: path.to_path_buf(), source };
    let mut file = tokio::fs::File::open(path).await.map_err(unreadable)?;
    file.seek(std::io::SeekFrom::Start(offset)).await.map_err(unreadable)?;
    let stream = tokio_util::io::ReaderStream::with_capacity(file.take(length), 1 << 18);
    Ok(reqwest::Body::wrap_stream(stream))
}

fn next_hop(from: &Url, answer: &reqwest::Response) -> Result<Url, Error> {
    let bad = |reason: &str| Error::Redirect { url: shown(from), reason: reason.to_string() };
    let location = answer.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
    let location = location.ok_or_else(|| bad("without saying where to"))?;
    let next = from.join(location).map_err(|_| bad("to something that is not a url"))?;
    match (from.scheme(), next.scheme()) {
        (_, "https") | ("http", "http") => Ok(next),
        ("https", "http") => Err(bad("from https to plain http")),
        _ => Err(bad("to something that is neither http nor https")),
    }
}

fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host() == other.host()
        && one.port_or_known_default() == other.port_or_known_default()
}

fn forget_credentials(headers: &mut HeaderMap) {
    for name in [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION] {
        headers.remove(name);
    }
}

/// The innermost cause says what happened; the layers around it say where in the client.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let text = cause.to_string();
    if error.is_timeout() && !text.contains("timed out") {
        return format!("timed out ({text})");
    }
    text
}
/// What a server may say in headers. For fuzzing.
pub(crate) fn foreign_headers(headers: &HeaderMap) {
    download::foreign_headers(headers);
    retry::pause(1, 3, std::time::Duration::from_secs(1), Some(headers));
}
