//! How registries are reached: mirrors, plain http, credentials.
//!
//! The user's settings → the urls to try, in order. No I/O.

use super::credentials::Credentials;
use super::reference::DOCKER_HUB;
use std::collections::{BTreeMap, BTreeSet};
use url::Url;

/// Docker Hub's name in references is not the name of its server.
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";

#[derive(Debug, Clone, Default)]
pub struct Registries {
    /// For a registry as it is in references (`docker.io`), the hosts to ask before it, in
    /// this order: `host[:port][/prefix]`, or with `http://` or `https://` in front.
    pub mirrors: BTreeMap<String, Vec<String>>,
    /// The registries that are spoken to over plain http: `host:port`. None else is, not even
    /// `localhost`.
    pub insecure: BTreeSet<String>,
    pub credentials: Credentials,
}

/// One server that may have a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// What credentials are looked up for.
    pub registry: String,
    /// `https://host/v2/` or `https://host/v2/prefix/`.
    base: Url,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the address of a registry: {reason}")]
pub struct BadEndpoint {
    pub text: String,
    pub reason: String,
}

impl Registries {
    /// The mirrors of `registry`, then itself.
    pub fn endpoints(&self, registry: &str) -> Result<Vec<Endpoint>, BadEndpoint> {
        let mirrors = self.mirrors.get(registry).into_iter().flatten();
        let mut endpoints: Vec<Endpoint> =
            mirrors.map(|mirror| self.endpoint(mirror)).collect::<Result<_, _>>()?;
        endpoints.push(self.endpoint(registry)?);
        Ok(endpoints)
    }

    /// `registry` itself, without its mirrors: where things are pushed to.
    pub fn endpoint(&self, registry: &str) -> Result<Endpoint, BadEndpoint> {
        let bad = |reason: String| BadEndpoint { text: registry.to_string(), reason };
        let (scheme, rest) = match registry.split_once("://") {
            // Whoever writes `http://` has named it.
            Some((scheme @ ("http" | "https"), rest)) => (Some(scheme), rest),
            Some((scheme, _)) => return Err(bad(format!("`{scheme}:` is neither http nor https"))),
            None => (None, registry),
        };
        let (host, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let insecure = self.insecure.contains(host);
        let scheme = scheme.unwrap_or(if insecure { "http" } else { "https" });
        let server = if host == DOCKER_HUB { DOCKER_HUB_HOST } else { host };
        let prefix = prefix.trim_matches('/');
        let slash = if prefix.is_empty() { "" } else { "/" };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || "@?#%\\".contains(c)) {
            return Err(bad("expected `host[:port]`".to_string()));
        }
        let base = Url::parse(&format!("{scheme}://{server}/v2/{prefix}{slash}"))
            .map_err(|error| bad(error.to_string()))?;
        Ok(Endpoint { registry: host.to_string(), base })
    }
}

impl Endpoint {
    /// `…/v2/REPOSITORY/REST`
    pub fn url(&self, repository: &str, rest: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{repository}/{rest}", self.base.path()));
        url
    }

    pub fn is_plain(&self) -> bool {
        self.base.scheme() == "http"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_come_first_and_plain_http_only_when_named() {
        let mirrors = ["mirror.local:5000/hub", "http://10.0.0.1", "plain:80/"].map(String::from).to_vec();
        let registries = Registries {
            mirrors: BTreeMap::from([(DOCKER_HUB.to_string(), mirrors)]),
            insecure: BTreeSet::from(["plain:80".to_string()]),
            ..Registries::default()
        };
        let urls = |registry: &str| -> Vec<String> {
            let endpoints = registries.endpoints(registry).unwrap();
            endpoints.iter().map(|e| e.url("a/b", "manifests/1").to_string()).collect()
        };
        assert_eq!(
            urls(DOCKER_HUB),
            [
                "https://mirror.local:5000/v2/hub/a/b/manifests/1",
                "http://10.0.0.1/v2/a/b/manifests/1",
                "http://plain/v2/a/b/manifests/1",
                "https://registry-1.docker.io/v2/a/b/manifests/1",
            ]
        );
        assert_eq!(urls("localhost:5000"), ["https://localhost:5000/v2/a/b/manifests/1"]);
        assert_eq!(urls("[::1]:5000"), ["https://[::1]:5000/v2/a/b/manifests/1"]);
        for bad in ["ftp://x", "", "user@host", "a b"] {
            assert!(registries.endpoint(bad).is_err(), "{bad}");
        }
    }
}
