//! Certificates: the authorities of a cluster and every leaf that they sign.
//!
//! [`table`] says which certificate exists, for whom and with which names; [`authority`]
//! makes or loads the authorities and signs; [`folder`] keeps it all on the control machine,
//! with mode 0600, and returns what is still good. What goes to which node, and how, is
//! not decided here.

pub mod authority;
pub mod folder;
pub mod inspect;
mod key;
pub mod table;

pub use authority::{Authority, AuthorityName};
pub use folder::{Folder, Leaf};
pub use inspect::{Certificate, Request};
pub use table::{Names, Profile, Row, Usage};

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("cannot {doing} `{}`", path.display())]
    File { doing: &'static str, path: PathBuf, source: std::io::Error },
    #[error("`{0}` is not a certificate in PEM form")]
    NotACertificate(String),
    #[error("`{what}` is not a private key that can sign here: {reason}")]
    BadKey { what: String, reason: &'static str },
    #[error("`{0}` is not the key of `{1}`")]
    KeyMismatch(String, String),
    #[error("`{what}` cannot be a certificate authority: {reason}")]
    NotAnAuthority { what: String, reason: String },
    #[error("the authority `{what}` expired on {when}")]
    Expired { what: String, when: String },
    #[error("`{0}` is missing in the folder of the external authority")]
    ExternalMissing(PathBuf),
    #[error("`{}` is missing, and the cluster depends on it", .0.display())]
    Missing(PathBuf),
    #[error("cannot make the certificate `{what}`")]
    Make { what: String, source: rcgen::Error },
    #[error("`{name}` cannot be used in a certificate")]
    BadName { name: String },
}

impl eggo_errors::Explain for PkiError {
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new(match self {
            Self::File { .. } | Self::Make { .. } | Self::BadName { .. } => "pki-failed",
            Self::Missing(_) => "pki-missing",
            Self::Expired { .. } => "ca-expired",
            Self::NotACertificate(_)
            | Self::BadKey { .. }
            | Self::KeyMismatch(..)
            | Self::NotAnAuthority { .. }
            | Self::ExternalMissing(_) => "ca-invalid",
        })
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            PkiError::BadKey { .. } => {
                "give an unencrypted RSA (2048 bits or more) or ECDSA (P-256, P-384) key in PEM form".into()
            }
            PkiError::NotAnAuthority { .. } => {
                "it needs `CA:TRUE` and the key usage `keyCertSign`; an intermediate will do".into()
            }
            PkiError::Expired { .. } => "give a new authority, or fix the clock of this machine".into(),
            PkiError::ExternalMissing(_) => {
                "`external-ca-path` holds `ca.crt` and `ca.key`, and may hold `etcd/ca.*`, `front-proxy-ca.*`, `sa.*`"
                    .into()
            }
            PkiError::Missing(_) => {
                "put it back: another one would lock out every node and user; masters have most of them in \
                 /etc/kubernetes/pki"
                    .into()
            }
            _ => return None,
        })
    }
}
