//! Which way to a host: what a machine's own settings say of single hosts. All others are
//! reached as the environment says (`http_proxy`, `https_proxy`, `no_proxy`).

use super::Error;
use super::error::{recorded, shown};
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{ClientBuilder, NoProxy, Proxy};
use url::Url;

/// The proxy that requests for `url` go through, as it may be printed.
pub(super) fn proxy_for(url: &Url, routes: &[Route]) -> Option<String> {
    match routes.iter().find(|route| route.leads_to(url)).map(|route| &route.way) {
        Some(Way::Direct) => None,
        Some(Way::Proxy(proxy)) => Some(shown(proxy)),
        None => {
            let uri = url.as_str().parse().ok()?;
            let proxy = Matcher::from_env().intercept(&uri)?.uri().to_string();
            Some(recorded(&proxy))
        }
    }
}

/// How requests to one host go out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// `http` or `https`.
    pub scheme: String,
    pub host: String,
    pub way: Way,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    Direct,
    /// Unless `no_proxy` names the host.
    Proxy(Url),
}

impl Route {
    pub fn leads_to(&self, url: &Url) -> bool {
        self.scheme == url.scheme() && url.host_str() == Some(self.host.as_str())
    }

    pub(super) fn apply(&self, builder: ClientBuilder) -> Result<ClientBuilder, Error> {
        let Way::Proxy(url) = &self.way else { return Ok(builder.no_proxy()) };
        let bad = |reason: String| Error::Proxy { url: shown(url), reason };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad(format!("`{}:` is neither http nor https", url.scheme())));
        }
        let proxy = Proxy::all(url.as_str()).map_err(|error| bad(error.to_string()))?;
        Ok(builder.proxy(proxy.no_proxy(NoProxy::from_env())))
    }
}
