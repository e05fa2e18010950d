//! Networks and endpoints.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network: `10.32.0.0/16`. The host bits are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCidr {
    #[error("`{0}` is not a network such as 10.32.0.0/16")]
    Form(String),
    #[error("`{0}` has bits beyond its prefix; the network is {1}")]
    HostBits(String, Cidr),
}

impl Cidr {
    pub fn address(&self) -> IpAddr {
        self.address
    }

    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => {
                masked(ip, self.prefix) == self.address
            }
            _ => false,
        }
    }

    pub fn overlaps(&self, other: &Cidr) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }

    /// The `n`th address of the network: 1 is the first usable one.
    pub fn nth(&self, n: u32) -> Option<IpAddr> {
        let ip = match self.address {
            IpAddr::V4(ip) => IpAddr::V4(u32::from(ip).checked_add(n)?.into()),
            IpAddr::V6(ip) => IpAddr::V6(u128::from(ip).checked_add(n.into())?.into()),
        };
        self.contains(ip).then_some(ip)
    }
}

fn masked(ip: IpAddr, prefix: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    }
}

impl FromStr for Cidr {
    type Err = BadCidr;

    fn from_str(text: &str) -> Result<Self, BadCidr> {
        let form = || BadCidr::Form(text.to_string());
        let (address, prefix) = text.split_once('/').ok_or_else(form)?;
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let prefix: u8 = prefix.parse().map_err(|_| form())?;
        let widest = if address.is_ipv4() { 32 } else { 128 };
        if prefix > widest {
            return Err(form());
        }
        let network = Cidr { address: masked(address, prefix), prefix };
        if network.address != address {
            return Err(BadCidr::HostBits(text.to_string(), network));
        }
        Ok(network)
    }
}

impl TryFrom<String> for Cidr {
    type Error = BadCidr;

    fn try_from(text: String) -> Result<Self, BadCidr> {
        text.parse()
    }
}

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> String {
        cidr.to_string()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Where clients find the API server: a domain or an address, and a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
}

impl Endpoint {
    pub fn new(host: impl ToString, port: u16) -> Self {
        Self { host: host.to_string(), port }
    }

    /// The host as an address; `None` for a domain.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    pub fn url(&self) -> String {
        format!("https://{self}")
    }
}

impl FromStr for Endpoint {
    type Err = ();

    /// `host:port`, `[v6]:port`, a bare host (port 6443), with or without `https://`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let rest = text.strip_prefix("https://").unwrap_or(text).trim_end_matches('/');
        if rest.parse::<IpAddr>().is_ok() {
            return Ok(Self::new(rest, 6443));
        }
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| ())?),
            None => (rest, 6443),
        };
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').filter(|ip| ip.parse::<IpAddr>().is_ok()).ok_or(())?,
            None => host,
        };
        let valid = host.parse::<IpAddr>().is_ok() || is_domain(host);
        if valid && port != 0 { Ok(Self::new(host, port)) } else { Err(()) }
    }
}

/// `host:port`, with brackets around an IPv6 address.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// An RFC 1123 subdomain: lowercase letters, digits and `-` in labels parted by dots.
pub(super) fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// A name that the world can resolve. Four numbers are an address that went wrong, not a domain.
fn is_domain(text: &str) -> bool {
    let numeric = text.rsplit('.').next().is_some_and(|label| label.bytes().all(|b| b.is_ascii_digit()));
    is_subdomain(text) && !numeric
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_contain_and_overlap() {
        let net = cidr("10.32.0.0/16");
        assert!(net.contains("10.32.255.255".parse().unwrap()));
        assert!(!net.contains("10.33.0.0".parse().unwrap()));
        assert!(!net.contains("::1".parse().unwrap()));
        assert!(net.overlaps(&cidr("10.0.0.0/8")) && cidr("0.0.0.0/0").overlaps(&net));
        assert!(!net.overlaps(&cidr("10.244.0.0/16")));
        assert_eq!(net.nth(10), Some("10.32.0.10".parse().unwrap()));
        assert_eq!(cidr("10.0.0.0/30").nth(4), None);
        assert_eq!(cidr("fd00::/108").nth(1), Some("fd00::1".parse().unwrap()));
    }

    #[test]
    fn networks_with_host_bits_say_which_network_is_meant() {
        let error = "10.32.0.1/16".parse::<Cidr>().unwrap_err().to_string();
        assert_eq!(error, "`10.32.0.1/16` has bits beyond its prefix; the network is 10.32.0.0/16");
        for bad in ["10.32.0.0", "10.32.0.0/33", "10.32.0/16", "x/8", ""] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
    }

    #[test]
    fn endpoints_read_every_usual_form() {
        for (text, host, port) in [
            ("192.168.1.1:6443", "192.168.1.1", 6443),
            ("192.168.1.1", "192.168.1.1", 6443),
            ("https://api.example.org:443/", "api.example.org", 443),
            ("[fd00::1]:8443", "fd00::1", 8443),
            ("fd00::1", "fd00::1", 6443),
        ] {
            assert_eq!(text.parse(), Ok(Endpoint::new(host, port)), "{text}");
        }
        for bad in ["", ":6443", "a b:1", "host:0", "host:99999", "300.1.1.1:6443", "Host_1:6443"] {
            assert!(bad.parse::<Endpoint>().is_err(), "{bad}");
        }
        assert_eq!(Endpoint::new("fd00::1", 1).url(), "https://[fd00::1]:1");
    }
}
