//! Which way to a host: what a machine's own settings say of single hosts. All others are
//! reached as the environment says (`http_proxy`, `https_proxy`, `no_proxy`).

use super::Error;
use super::error::shown;
use reqwest::{ClientBuilder, NoProxy, Proxy};
use url::Url;

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
