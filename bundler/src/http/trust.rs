//! Which certificates are trusted, and which one is shown: for all hosts, and for single ones.

use super::{Error, Options};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;
use url::Url;
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

/// What counts for one host beyond what counts for all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trust {
    /// `host`, or `host:port`.
    pub host: String,
    /// PEM files of its CAs, or of its own certificate.
    pub ca_files: Vec<PathBuf>,
    /// PEM files of the certificate and key that are shown to it.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Any certificate will do.
    pub insecure: bool,
}

impl Trust {
    pub fn covers(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        match url.port_or_known_default() {
            Some(port) => self.host == host || self.host == format!("{host}:{port}"),
            None => self.host == host,
        }
    }
}

/// The TLS settings for one host, or for all that have none of their own.
pub(super) fn config(options: &Options, own: Option<&Trust>) -> Result<ClientConfig, Error> {
    let tls = |error: rustls::Error| Error::Tls { reason: error.to_string() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let files = options.ca_files.iter().chain(own.iter().flat_map(|own| &own.ca_files));
    let named: Vec<CertificateDer<'static>> =
        files.map(|file| certificates(file)).collect::<Result<Vec<_>, _>>()?.concat();
    let whose = match own.filter(|own| own.insecure) {
        Some(own) => {
            warn!("warning: the certificate of `{}` is not checked (`insecure-skip-verify`)", own.host);
            Whose::Anybody
        }
        None => {
            let usual =
                rustls_platform_verifier::Verifier::new_with_extra_roots(named.clone(), provider.clone());
            Whose::Known { usual: usual.map_err(tls)?, named }
        }
    };
    let verifier = Arc::new(Verifier { whose, provider: provider.clone() });
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(tls)?.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match own.and_then(|own| own.client.as_ref()) {
        Some((certificate, key)) => {
            let bad = |error: rustls::pki_types::pem::Error| unusable(key, error.to_string());
            let private = PrivateKeyDer::from_pem_file(key).map_err(bad)?;
            let shown = builder.with_client_auth_cert(certificates(certificate)?, private);
            shown.map_err(|error| unusable(certificate, error.to_string()))?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Refuses files that hold no certificate before anything is fetched.
pub(super) fn check(options: &Options) -> Result<(), Error> {
    let own = options
        .trusts
        .iter()
        .flat_map(|own| own.ca_files.iter().chain(own.client.iter().map(|(file, _)| file)));
    options.ca_files.iter().chain(own).try_for_each(|file| certificates(file).map(drop))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let pem = std::fs::read(file).map_err(|error| unusable(file, error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| unusable(file, error.to_string()))?;
    if found.is_empty() {
        return Err(unusable(file, "no certificate in it".to_string()));
    }
    Ok(found)
}

fn unusable(file: &Path, reason: String) -> Error {
    Error::CertificateFile { file: file.to_path_buf(), reason }
}

/// Whose certificate will do. Whoever shows it must have its key, in any case.
#[derive(Debug)]
struct Verifier {
    whose: Whose,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
enum Whose {
    Anybody,
    /// The system's CAs, those that were named, and certificates that were named themselves: the usual self-signed one
    /// is a CA, which no server may be by the rules of the web, and is trusted for what it is.
    Known {
        usual: rustls_platform_verifier::Verifier,
        named: Vec<CertificateDer<'static>>,
    },
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Whose::Known { usual, named } = &self.whose else { return Ok(ServerCertVerified::assertion()) };
        let verdict = usual.verify_server_cert(certificate, others, name, ocsp, now);
        if verdict.is_ok() || !named.iter().any(|named| named.as_ref() == certificate.as_ref()) {
            return verdict;
        }
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        check_time(certificate, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn check_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    let bad = |error: CertificateError| rustls::Error::InvalidCertificate(error);
    let (_, parsed) =
        X509Certificate::from_der(certificate).map_err(|_| bad(CertificateError::BadEncoding))?;
    let now = i64::try_from(now.as_secs()).ok().and_then(|seconds| ASN1Time::from_timestamp(seconds).ok());
    match now {
        Some(now) if now < parsed.validity().not_before => Err(bad(CertificateError::NotValidYet)),
        Some(now) if now <= parsed.validity().not_after => Ok(()),
        _ => Err(bad(CertificateError::Expired)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_covered_with_and_without_its_port() {
        let covers = |host: &str, url: &str| {
            Trust { host: host.into(), ..Trust::default() }.covers(&Url::parse(url).unwrap())
        };
        assert!(
            covers("h", "https://h/x") && covers("h:443", "https://h/x") && covers("h", "https://h:5000/")
        );
        assert!(covers("h:5000", "https://h:5000/"));
        assert!(
            !covers("h:5000", "https://h/") && !covers("h", "https://i/") && !covers("h", "https://sub.h/")
        );
    }
}
