//! What can go wrong between us and a server.

use crate::cache;
use eggo_bundles::Digest;
use eggo_bundles::rules::user_in_url;
use eggo_terminal::{Explain, Size};
use reqwest::header::HeaderMap;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{text}` is not a url: {reason}")]
    BadUrl { text: String, reason: String },
    #[error("cannot fetch `{url}`: {reason}")]
    Unreachable { url: String, reason: String },
    #[error("cannot fetch `{url}`: the proxy `{proxy}` does not answer: {reason}")]
    ProxyUnreachable { url: String, proxy: String, reason: String },
    #[error("cannot fetch `{url}`: no byte came for {} s", .after.as_secs())]
    Silent { url: String, after: Duration },
    #[error("cannot fetch `{url}`: {reason}")]
    Certificate { url: String, reason: String },
    #[error("`{url}` answered {status}{}", said(.body))]
    Status { url: String, status: u16, headers: Box<HeaderMap>, body: String },
    #[error("`{url}` is larger than {}", Size(*.limit))]
    TooLarge { url: String, limit: u64 },
    #[error("`{url}` has {found} bytes, expected {expected}")]
    WrongSize { url: String, expected: u64, found: u64 },
    #[error("`{url}` has sha256 `{found}`, expected `{expected}`")]
    WrongDigest { url: String, expected: Digest, found: Digest },
    #[error("`{url}` redirects {reason}")]
    Redirect { url: String, reason: String },
    #[error("`{url}` is needed and not in the cache, and this run is offline")]
    Offline { url: String },
    #[error("certificate file `{}`: {reason}", .file.display())]
    CertificateFile { file: PathBuf, reason: String },
    #[error("the proxy `{url}` cannot be used: {reason}")]
    Proxy { url: String, reason: String },
    #[error("cannot set up TLS: {reason}")]
    Tls { reason: String },
    #[error("cannot read `{}`", .file.display())]
    Read { file: PathBuf, source: std::io::Error },
    #[error("none of {} mirrors has `{label}`", .errors.len())]
    Mirrors { label: String, errors: Vec<Error> },
    #[error(transparent)]
    Cache(#[from] cache::Error),
}

impl Error {
    /// The status that the server answered with, if it answered at all.
    pub fn status(&self) -> Option<u16> {
        match self {
            Error::Status { status, .. } => Some(*status),
            _ => None,
        }
    }
}

impl Explain for Error {
    fn notes(&self) -> Vec<String> {
        match self {
            Error::Mirrors { errors, .. } => errors.iter().map(|error| format!("tried: {error}")).collect(),
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::Offline { .. } => "run once without `--offline` to fill the cache",
            Error::Status { status: 401 | 403, .. } => "the server requires credentials, or rejects these",
            Error::Status { status: 404 | 410, .. } => "check the version and arch in the url",
            Error::Status { status: 429, .. } => "wait a while, or use a mirror",
            Error::WrongDigest { .. } => {
                "the file is not what was expected: if it was replaced on purpose, fix the checksum; \
                 otherwise do not use it"
            }
            Error::Certificate { .. } => "name the server's CA, or its own certificate, with `--ca-file`",
            Error::ProxyUnreachable { .. } => {
                "start the proxy, or correct `http_proxy`, `https_proxy` and `no_proxy`"
            }
            Error::Silent { .. } => {
                "the server accepts connections but does not answer: check it, or use a mirror"
            }
            Error::Unreachable { .. } => {
                "check the network and the proxy settings; what was fetched so far is kept"
            }
            Error::Tls { .. } => {
                "install the system's CAs (package `ca-certificates`), or name the server's with `--ca-file`"
            }
            Error::Cache(error) => return error.hint(),
            _ => return None,
        };
        Some(hint.to_string())
    }
}

fn said(body: &str) -> String {
    let line = body.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    if line.is_empty() || line.starts_with('<') {
        return String::new();
    }
    let line: String = line.chars().filter(|c| !c.is_control()).take(200).collect();
    format!(": {line}")
}

/// The text of a url, or of a template of one, as it may be recorded: without user, password or token.
pub fn recorded(text: &str) -> String {
    let mut text = without_tokens(text);
    if let Some(user) = user_in_url(&text) {
        text.replace_range(user, "");
    }
    text
}

/// A url as it may be printed: without user, password or token.
pub fn shown(url: &Url) -> String {
    recorded(url.as_str())
}

/// Parameters that let somebody in go; those that say what is meant stay.
fn without_tokens(text: &str) -> String {
    let Some((before, rest)) = text.split_once('?').filter(|_| !is_file(text)) else {
        return text.to_string();
    };
    let (query, fragment) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
    let kept: Vec<&str> = query.split('&').filter(|parameter| !is_secret(parameter)).collect();
    let mark = if kept.is_empty() { "" } else { "?" };
    format!("{before}{mark}{}{fragment}", kept.join("&"))
}

fn is_file(text: &str) -> bool {
    text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"))
}

fn is_secret(parameter: &str) -> bool {
    let name = parameter.split('=').next().unwrap_or_default().to_ascii_lowercase().replace(['-', '.'], "_");
    ["token", "secret", "passw", "signature", "credential", "api_key", "apikey", "access_key", "auth", "jwt"]
        .iter()
        .any(|word| name.contains(word))
        || ["sig", "key", "pass", "pwd", "session"].contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lets_somebody_in_is_not_recorded() {
        for (text, expected) in [
            ("https://u:p@h/x?token=s3cret", "https://h/x"),
            ("https://h/{arch}?private_token=s&version={version}#x", "https://h/{arch}?version={version}#x"),
            ("https://h/x?X-Amz-Signature=s&X-Amz-Credential=s&id=7", "https://h/x?id=7"),
            ("https://h/x?sv=2&sig=s", "https://h/x?sv=2"),
            ("https://h/list?repo=epel-9&arch=x86_64", "https://h/list?repo=epel-9&arch=x86_64"),
            ("https://h/x?", "https://h/x?"),
            ("file:///srv/a?token=b", "file:///srv/a?token=b"),
        ] {
            assert_eq!(recorded(text), expected);
        }
    }
}
