//! The clients that requests go out by: made when the first one is needed, so that what comes from
//! paths and the cache needs no CAs on this machine.

use super::{Error, Options, reason};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use std::sync::OnceLock;
use url::Url;

const USER_AGENT: &str = concat!("eggo-bundle/", env!("CARGO_PKG_VERSION"));

#[derive(Debug)]
pub struct Clients {
    https: OnceLock<Set>,
    http: OnceLock<Set>,
}

#[derive(Debug)]
struct Set {
    direct: Client,
    /// A client for each of the routes.
    routed: Vec<Client>,
}

#[derive(Debug, Clone, Copy)]
enum Roots {
    System,
    None,
}

impl Clients {
    /// Refuses options that no client can be made from.
    pub fn new(options: &Options) -> Result<Self, Error> {
        // Fails only if another provider was installed before, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut trial = builder(options, Roots::System)?;
        for route in &options.routes {
            trial = route.apply(trial)?;
        }
        drop(trial);
        Ok(Self { https: OnceLock::new(), http: OnceLock::new() })
    }

    /// The client whose way leads to `url`.
    pub fn for_url(&self, url: &Url, options: &Options) -> Result<&Client, Error> {
        let set = match url.scheme() {
            "https" => kept(&self.https, || Set::new(options, Roots::System))?,
            // A bare machine has no CAs, and needs none for this.
            _ => kept(&self.http, || {
                Set::new(options, Roots::System).or_else(|_| Set::new(options, Roots::None))
            })?,
        };
        let position = options.routes.iter().position(|route| route.leads_to(url));
        Ok(position.map_or(&set.direct, |position| &set.routed[position]))
    }
}

impl Set {
    fn new(options: &Options, roots: Roots) -> Result<Self, Error> {
        let build =
            |builder: ClientBuilder| builder.build().map_err(|error| Error::Tls { reason: reason(&error) });
        let direct = build(builder(options, roots)?)?;
        let routed = options.routes.iter().map(|route| build(route.apply(builder(options, roots)?)?));
        Ok(Self { direct, routed: routed.collect::<Result<_, _>>()? })
    }
}

/// What two make at once is made twice, and one of it is kept.
fn kept(place: &OnceLock<Set>, make: impl FnOnce() -> Result<Set, Error>) -> Result<&Set, Error> {
    match place.get() {
        Some(set) => Ok(set),
        None => make().map(|set| place.get_or_init(|| set)),
    }
}

fn builder(options: &Options, roots: Roots) -> Result<ClientBuilder, Error> {
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .redirect(Policy::none())
        .connect_timeout(options.connect_timeout)
        .read_timeout(options.idle_timeout)
        .retry(reqwest::retry::never());
    if let Roots::None = roots {
        return Ok(builder.tls_certs_only([]));
    }
    for file in &options.ca_files {
        let bad = |reason: String| Error::CaFile { file: file.clone(), reason };
        let pem = std::fs::read(file).map_err(|error| bad(error.to_string()))?;
        let certificates =
            reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| bad(error.to_string()))?;
        if certificates.is_empty() {
            return Err(bad("no certificate in it".to_string()));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    Ok(builder)
}
