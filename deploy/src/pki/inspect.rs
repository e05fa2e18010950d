//! What a certificate or a signing request says of itself.

use super::PkiError;
use jiff::Timestamp;
use std::net::IpAddr;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate, X509CertificationRequest, X509Name};

/// The facts of one certificate that this program decides by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    pub common_name: String,
    pub organisations: Vec<String>,
    pub issuer: String,
    pub dns: Vec<String>,
    pub ips: Vec<IpAddr>,
    pub is_authority: bool,
    pub may_sign: bool,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub self_signed: bool,
    /// The issuer's key, as the certificate names it.
    pub authority_key: Vec<u8>,
    pub subject_key: Vec<u8>,
    pub public_key: Vec<u8>,
    pub der: Vec<u8>,
}

impl Certificate {
    /// All certificates in a PEM file, in its order.
    pub fn parse_all(what: &str, pem: &[u8]) -> Result<Vec<Self>, PkiError> {
        let bad = || PkiError::NotACertificate(what.to_string());
        let mut found = Vec::new();
        for block in Pem::iter_from_buffer(pem) {
            let block = block.map_err(|_| bad())?;
            if block.label == "CERTIFICATE" {
                found.push(Self::from_der(&block.contents).ok_or_else(bad)?);
            }
        }
        if found.is_empty() { Err(bad()) } else { Ok(found) }
    }

    /// The first certificate in a PEM file: the leaf, or the authority itself.
    pub fn parse(what: &str, pem: &[u8]) -> Result<Self, PkiError> {
        Ok(Self::parse_all(what, pem)?.swap_remove(0))
    }

    pub fn days_left(&self, now: Timestamp) -> i64 {
        (self.not_after.as_second() - now.as_second()).div_euclid(86_400)
    }

    fn from_der(der: &[u8]) -> Option<Self> {
        let (_, x509) = X509Certificate::from_der(der).ok()?;
        let (mut dns, mut ips) = (Vec::new(), Vec::new());
        let (mut authority_key, mut subject_key) = (Vec::new(), Vec::new());
        for extension in x509.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectAlternativeName(names) => {
                    (dns, ips) = alternative_names(&names.general_names);
                }
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    authority_key = id.key_identifier.as_ref().map(|id| id.0.to_vec()).unwrap_or_default();
                }
                ParsedExtension::SubjectKeyIdentifier(id) => subject_key = id.0.to_vec(),
                _ => {}
            }
        }
        let usage = x509.key_usage().ok().flatten();
        Some(Self {
            common_name: common_name(x509.subject()),
            organisations: organisations(x509.subject()),
            issuer: common_name(x509.issuer()),
            dns,
            ips,
            is_authority: x509.basic_constraints().ok().flatten().is_some_and(|found| found.value.ca),
            may_sign: usage.is_none_or(|found| found.value.key_cert_sign()),
            not_before: timestamp(x509.validity().not_before.timestamp())?,
            not_after: timestamp(x509.validity().not_after.timestamp())?,
            self_signed: x509.subject().as_raw() == x509.issuer().as_raw(),
            authority_key,
            subject_key,
            public_key: x509.public_key().subject_public_key.data.to_vec(),
            der: der.to_vec(),
        })
    }
}

/// A certificate signing request, as far as it decides about an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub common_name: String,
    pub organisations: Vec<String>,
    pub dns: Vec<String>,
    pub ips: Vec<IpAddr>,
    /// It asks for names of other kinds too: mail, URI.
    pub other_names: bool,
}

impl Request {
    /// Reads a request. Whether it is signed by the key that it is for does not matter here: without that
    /// key the certificate is of no use.
    pub fn parse(what: &str, pem: &[u8]) -> Result<Self, PkiError> {
        let bad = || PkiError::NotACertificate(what.to_string());
        let block = Pem::iter_from_buffer(pem).next().ok_or_else(bad)?.map_err(|_| bad())?;
        let (_, request) = X509CertificationRequest::from_der(&block.contents).map_err(|_| bad())?;
        let mut names: Vec<GeneralName<'_>> = Vec::new();
        for extension in request.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(found) = extension {
                names.extend(found.general_names.iter().cloned());
            }
        }
        let (dns, ips) = alternative_names(&names);
        let subject = &request.certification_request_info.subject;
        Ok(Self {
            common_name: common_name(subject),
            organisations: organisations(subject),
            other_names: dns.len() + ips.len() != names.len(),
            dns,
            ips,
        })
    }
}

fn alternative_names(names: &[GeneralName<'_>]) -> (Vec<String>, Vec<IpAddr>) {
    let (mut dns, mut ips) = (Vec::new(), Vec::new());
    for name in names {
        match name {
            GeneralName::DNSName(name) => dns.push(name.to_string()),
            GeneralName::IPAddress(octets) => {
                let four = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
                let sixteen = <[u8; 16]>::try_from(*octets).map(IpAddr::from);
                ips.extend(four.or(sixteen).ok());
            }
            _ => {}
        }
    }
    (dns, ips)
}

fn common_name(name: &X509Name<'_>) -> String {
    name.iter_common_name().filter_map(|part| part.as_str().ok()).next().unwrap_or_default().to_string()
}

fn organisations(name: &X509Name<'_>) -> Vec<String> {
    name.iter_organization().filter_map(|part| part.as_str().ok()).map(str::to_string).collect()
}

fn timestamp(seconds: i64) -> Option<Timestamp> {
    Timestamp::from_second(seconds).ok()
}
