//! The clients that requests go out by: made when the first one is needed, so that what comes from
//! paths and the cache needs no CAs on this machine.

use super::{Error, Options, reason, trust};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use url::Url;

const USER_AGENT: &str = concat!("eggo-bundle/", env!("CARGO_PKG_VERSION"));

#[derive(Debug, Default)]
pub(super) struct Clients {
    made: Mutex<HashMap<Kind, Client>>,
}

/// Requests that differ in one of these need clients of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    https: bool,
    /// Positions in the options' lists.
    route: Option<usize>,
    trust: Option<usize>,
}

impl Clients {
    /// Refuses routes and certificates that no client can be made from.
    pub(super) fn new(options: &Options) -> Result<Self, Error> {
        // Fails only if another provider was installed before, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        for route in &options.routes {
            drop(route.apply(Client::builder())?);
        }
        trust::check(options)?;
        Ok(Self::default())
    }

    /// The client whose way leads to `url`.
    pub(super) fn for_url(&self, url: &Url, options: &Options) -> Result<Client, Error> {
        let kind = Kind {
            https: url.scheme() == "https",
            route: options.routes.iter().position(|route| route.leads_to(url)),
            trust: options.trusts.iter().position(|trust| trust.covers(url)),
        };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = made.get(&kind) {
            return Ok(client.clone());
        }
        let client = kind.make(options)?;
        made.insert(kind, client.clone());
        Ok(client)
    }
}

impl Kind {
    fn make(self, options: &Options) -> Result<Client, Error> {
        let builder = Client::builder()
            .user_agent(USER_AGENT)
            .redirect(Policy::none())
            .connect_timeout(options.connect_timeout)
            .read_timeout(options.idle_timeout)
            .retry(reqwest::retry::never());
        let builder = self.with_tls(builder, options)?;
        let builder = match self.route {
            Some(route) => options.routes[route].apply(builder)?,
            None => builder,
        };
        builder.build().map_err(|error| Error::Tls { reason: reason(&error) })
    }

    fn with_tls(self, builder: ClientBuilder, options: &Options) -> Result<ClientBuilder, Error> {
        match trust::config(options, self.trust.map(|trust| &options.trusts[trust])) {
            Ok(config) => Ok(builder.tls_backend_preconfigured(config)),
            // A bare machine has no CAs, and needs none for this.
            Err(Error::Tls { .. }) if !self.https => Ok(builder.tls_certs_only([])),
            Err(error) => Err(error),
        }
    }
}
