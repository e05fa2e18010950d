//! Who vouches for a downloaded package?
//!
//! Where `repomd.xml` was signed, that signature does: it names the digest of the metadata, which
//! names the digest of the file. Most repositories sign their packages instead:
//!
//! 1. One of the OpenPGP signatures over the package's header is by a key of its repository.
//! 2. The payload has the digest that the signed header names.
//!
//! A repository without keys, which the manifest must allow by name, has nobody.

use super::lock::places;
use super::repository::{self, Place};
use crate::Tools;
use crate::lock::LockedPackage;
use crate::manifest::Manifest;
use crate::packages::openpgp::{Keyring, Untrusted};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use eggo_bundles::content::Problem;
use eggo_bundles::content::rpm::{self, Rpm, tag};
use eggo_bundles::{Arch, Digest};
use eggo_terminal::Explain;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;
use std::time::SystemTime;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Repository(#[from] repository::Error),
    #[error("`{package}` was locked from repo `{repo}`, which is no longer there")]
    Gone { repo: String, package: String },
    #[error("repo `{repo}`: `{file}`: {source}")]
    Unproven { repo: String, file: String, source: Unproven },
}

#[derive(Debug, thiserror::Error)]
pub enum Unproven {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is not a sound package: {0}")]
    Package(#[from] Problem),
    #[error(transparent)]
    Signature(#[from] Untrusted),
    #[error("its signed header says nothing about its payload")]
    NoPayloadDigest,
    #[error("its payload is not the one that its header names")]
    Payload,
}

impl Explain for Error {
    fn notes(&self) -> Vec<String> {
        match self {
            Error::Repository(error) => error.notes(),
            Error::Gone { .. } | Error::Unproven { .. } => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Repository(error) => error.hint(),
            Error::Gone { .. } => Some("run `eggo-bundle lock` again".into()),
            Error::Unproven { source: Unproven::Signature(_), .. } => {
                Some("`gpgkey` of this repo must name the key that its packages are signed with".into())
            }
            Error::Unproven { source: Unproven::NoPayloadDigest, .. } => Some(
                "an rpm before 4.14 made it: only its old signature over header and payload, which is not checked \
                 here, covers what is inside; take a newer build, or a repository whose `repomd.xml` is signed"
                    .into(),
            ),
            Error::Unproven { .. } => Some("do not use this repository: its packages are damaged".into()),
        }
    }
}

/// Checks every fetched rpm that no signed metadata vouches for; returns who does, by the file's digest.
pub async fn prove(
    manifest: &Manifest,
    locked: &[LockedPackage],
    tools: Tools<'_>,
) -> Result<HashMap<Digest, String>, Error> {
    let mut keyrings: HashMap<(Arch, &str), Option<Keyring>> = HashMap::new();
    let mut signers = HashMap::new();
    for package in locked.iter().filter(|package| package.key.is_none() && package.url.ends_with(".rpm")) {
        if signers.contains_key(&package.sha256) {
            continue;
        }
        let repo = (package.arch, package.repo.as_str());
        let keyring = match keyrings.entry(repo) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(keyring(manifest, package, tools).await?),
        };
        let Some(keyring) = keyring else { continue };
        let signer = signed_by(&tools.cache.path(&package.sha256), keyring).map_err(|source| {
            let file = package.url.rsplit('/').next().unwrap_or(&package.name).to_string();
            Error::Unproven { repo: package.repo.clone(), file, source }
        })?;
        signers.insert(package.sha256, signer);
    }
    Ok(signers)
}

/// The keys of the package's repository; `None` where the manifest says that it needs none.
async fn keyring(
    manifest: &Manifest,
    package: &LockedPackage,
    tools: Tools<'_>,
) -> Result<Option<Keyring>, Error> {
    let places = places(manifest, package.arch)?;
    let place: Option<&Place> = places.iter().find(|place| place.name == package.repo);
    let repo = package.repo.clone();
    match place {
        Some(place) if !place.keys.is_empty() => Ok(Some(place.keyring(tools).await?)),
        Some(place) if place.allow_unsigned => Ok(None),
        Some(_) => Err(repository::Error::NoKeys { repo }.into()),
        None => Err(Error::Gone { repo, package: package.name.clone() }),
    }
}

/// Steps 1 and 2: the fingerprint of the key that vouches for the file.
fn signed_by(path: &Path, keyring: &Keyring) -> Result<String, Unproven> {
    let mut file = File::open(path)?;
    let package = rpm::read(&mut io::BufReader::new(&file))?;
    let signer = signer(&package, keyring)?;
    let promised = package.payload_sha256.as_deref().ok_or(Unproven::NoPayloadDigest)?;
    file.seek(SeekFrom::Start(package.payload_offset))?;
    let (found, _) = Digest::of_reader(&mut file)?;
    if promised.parse() != Ok(found) {
        return Err(Unproven::Payload);
    }
    Ok(signer)
}

fn signer(package: &Rpm, keyring: &Keyring) -> Result<String, Untrusted> {
    let header = &package.signature;
    let binary = [tag::SIGNATURE_RSA, tag::SIGNATURE_DSA];
    let binary = binary.iter().filter_map(|tag| header.bytes(*tag).map(<[u8]>::to_vec));
    let texts = header.strings(tag::SIGNATURE_OPENPGP);
    let signatures = binary.chain(texts.iter().filter_map(|text| STANDARD.decode(text).ok()));
    let mut reason = Untrusted::NoSignature;
    for signature in signatures {
        match keyring.verify_detached(&signature, &package.header, SystemTime::now()) {
            Ok(signer) => return Ok(signer.fingerprint),
            Err(error) => reason = error,
        }
    }
    Err(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_package_is_not_called_damaged() {
        let hint = |source| Error::Unproven { repo: "r".into(), file: "f".into(), source }.hint().unwrap();
        assert!(hint(Unproven::NoPayloadDigest).contains("before 4.14"));
        assert!(hint(Unproven::Payload).contains("damaged"));
    }
}
