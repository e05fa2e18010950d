//! Certificate authorities: made here, or given by the user.

use super::inspect::Certificate;
use super::table::{Profile, Usage};
use super::{PkiError, key};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use std::fmt;
use std::time::Duration;
use zeroize::Zeroizing;

const AUTHORITY_DAYS: i64 = 3650;
const LEAF_DAYS: i64 = 365;

/// Certificates begin this long ago, for nodes whose clocks run late.
const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

/// The three authorities of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuthorityName {
    Cluster,
    Etcd,
    FrontProxy,
}

impl AuthorityName {
    pub const ALL: [AuthorityName; 3] =
        [AuthorityName::Cluster, AuthorityName::Etcd, AuthorityName::FrontProxy];

    /// Its files' name below the pki folder, without `.crt` and `.key`.
    pub fn path(self) -> &'static str {
        match self {
            AuthorityName::Cluster => "ca",
            AuthorityName::Etcd => "etcd/ca",
            AuthorityName::FrontProxy => "front-proxy-ca",
        }
    }

    fn common_name(self) -> &'static str {
        match self {
            AuthorityName::Cluster => "kubernetes",
            AuthorityName::Etcd => "etcd-ca",
            AuthorityName::FrontProxy => "front-proxy-ca",
        }
    }
}

impl fmt::Display for AuthorityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.path())
    }
}

/// An authority that can sign.
pub struct Authority {
    pub certificate: Certificate,
    /// The file as it goes to the nodes: the authority, and the chain above it if one was given.
    pub pem: String,
    /// The intermediates that a leaf carries along for clients that know the root alone.
    intermediates: String,
    key: KeyPair,
}

/// A certificate and its key, in PEM form.
pub struct Issued {
    pub certificate: String,
    pub key: Zeroizing<String>,
}

impl Authority {
    /// A new self-signed authority; returns its key's file too.
    pub fn make(name: AuthorityName, now: Timestamp) -> Result<(Self, Zeroizing<String>), PkiError> {
        let failed = |source| PkiError::Make { what: name.to_string(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(name.common_name(), None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::KeyCertSign,
        ];
        let begin = now - BACKDATED;
        params.not_before = rcgen::date_time_ymd(1970, 1, 1) + since_epoch(begin);
        params.not_after = rcgen::date_time_ymd(1970, 1, 1)
            + since_epoch(begin + SignedDuration::from_hours(24 * AUTHORITY_DAYS));
        let pem = params.self_signed(&key).map_err(failed)?.pem();
        let file = Zeroizing::new(key.serialize_pem());
        Ok((Self::load(name.path(), &pem, &file, now)?, file))
    }

    /// An authority from its files; `what` names them in messages.
    pub fn load(what: &str, pem: &str, key_pem: &str, now: Timestamp) -> Result<Self, PkiError> {
        let mut chain = Certificate::parse_all(what, pem.as_bytes())?;
        let key = key::parse(&format!("{what}.key"), key_pem)?;
        let certificate = chain.remove(0);
        let refused = |reason: &str| {
            Err(PkiError::NotAnAuthority { what: format!("{what}.crt"), reason: reason.to_string() })
        };
        if !certificate.is_authority {
            return refused("it does not say `CA:TRUE`");
        }
        if !certificate.may_sign {
            return refused("its key usage does not allow signing certificates");
        }
        if certificate.public_key != key.public_key_raw() {
            return Err(PkiError::KeyMismatch(format!("{what}.key"), format!("{what}.crt")));
        }
        if certificate.not_after <= now {
            return Err(PkiError::Expired {
                what: format!("{what}.crt"),
                when: certificate.not_after.to_string(),
            });
        }
        let mut intermediates = String::new();
        if !certificate.self_signed {
            for part in std::iter::once(&certificate).chain(&chain).filter(|part| !part.self_signed) {
                intermediates.push_str(&to_pem(&part.der));
            }
        }
        Ok(Self { certificate, pem: pem.to_string(), intermediates, key })
    }

    /// Signs a leaf with a new key. It ends with its authority at the latest.
    pub fn sign(&self, what: &str, profile: &Profile, now: Timestamp) -> Result<Issued, PkiError> {
        let failed = |source| PkiError::Make { what: what.to_string(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(&profile.common_name, profile.organisation.as_deref());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = match profile.usage {
            Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Usage::Both => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        for name in &profile.names.dns {
            let text = name.as_str().try_into().map_err(|_| PkiError::BadName { name: name.clone() })?;
            params.subject_alt_names.push(SanType::DnsName(text));
        }
        params.subject_alt_names.extend(profile.names.ips.iter().map(|ip| SanType::IpAddress(*ip)));
        let begin = (now - BACKDATED).max(self.certificate.not_before);
        let end = (begin + SignedDuration::from_hours(24 * LEAF_DAYS)).min(self.certificate.not_after);
        params.not_before = rcgen::date_time_ymd(1970, 1, 1) + since_epoch(begin);
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + since_epoch(end);
        let issuer =
            Issuer::from_ca_cert_der(&self.certificate.der.as_slice().into(), &self.key).map_err(failed)?;
        let signed = params.signed_by(&key, &issuer).map_err(failed)?;
        Ok(Issued {
            certificate: format!("{}{}", signed.pem(), self.intermediates),
            key: Zeroizing::new(key.serialize_pem()),
        })
    }

    /// Whether this authority signed `leaf`, as far as the names and key identifiers tell.
    pub fn issued(&self, leaf: &Certificate) -> bool {
        leaf.issuer == self.certificate.common_name
            && (leaf.authority_key.is_empty() || leaf.authority_key == self.certificate.subject_key)
    }
}

fn distinguished_name(common_name: &str, organisation: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organisation) = organisation {
        name.push(DnType::OrganizationName, organisation);
    }
    name.push(DnType::CommonName, common_name);
    name
}

fn since_epoch(time: Timestamp) -> Duration {
    Duration::from_secs(time.as_second().max(0) as u64)
}

fn to_pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        pem.push('\n');
    }
    pem + "-----END CERTIFICATE-----\n"
}
