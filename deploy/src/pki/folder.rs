//! The pki folder on the control machine.
//!
//! ```text
//! ca.{crt,key}  etcd/ca.{crt,key}  front-proxy-ca.{crt,key}  sa.{key,pub}  encryption.key
//! nodes/NAME/…  each node's own leaves, named as on the node
//! admin.{crt,key}
//! ```
//! Folders have mode 0700, files 0600. What is there and still good is used again.

use super::authority::{Authority, AuthorityName};
use super::inspect::Certificate;
use super::table::Row;
use super::{PkiError, key};
use crate::state;
use jiff::Timestamp;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

pub struct Folder {
    root: PathBuf,
    authorities: Vec<(AuthorityName, Authority)>,
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Leaf {
    pub certificate: String,
    pub key: Zeroizing<String>,
}

/// What to do with a leaf that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// Keep it if it is what the table asks for and has not expired.
    WhenGood,
    Never,
}

impl Folder {
    /// Opens the folder of a cluster that is there. Nothing is made: another authority or key in place of
    /// one that is missing would lock everybody out.
    pub fn open(root: &Path, now: Timestamp) -> Result<Self, PkiError> {
        let mut authorities = Vec::new();
        for name in AuthorityName::ALL {
            for suffix in ["crt", "key"] {
                must_exist(&with_suffix(&root.join(name.path()), suffix))?;
            }
            authorities.extend(load(root, name, now)?.map(|authority| (name, authority)));
        }
        for file in ["sa.key", "sa.pub", "encryption.key"] {
            must_exist(&root.join(file))?;
        }
        Ok(Self { root: root.to_path_buf(), authorities })
    }

    /// The folder of a cluster that is about to be made. Authorities and keys that are missing are taken
    /// from `external` if that is given, else made.
    pub fn prepare(root: &Path, external: Option<&Path>, now: Timestamp) -> Result<Self, PkiError> {
        make_folder(root)?;
        let mut authorities = Vec::new();
        for name in AuthorityName::ALL {
            let authority = match load(root, name, now)? {
                Some(found) => found,
                None => adopt_or_make(root, external, name, now)?,
            };
            authorities.push((name, authority));
        }
        let folder = Self { root: root.to_path_buf(), authorities };
        folder.prepare_service_account(external)?;
        folder.prepare_encryption_key()?;
        Ok(folder)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn authority(&self, name: AuthorityName) -> &Authority {
        let found = self.authorities.iter().find(|(known, _)| *known == name);
        &found.expect("every authority is prepared").1
    }

    /// The authority's key, for the nodes whose components sign.
    pub fn authority_key(&self, name: AuthorityName) -> Result<Zeroizing<String>, PkiError> {
        read(&self.root.join(format!("{}.key", name.path())))
    }

    pub fn service_account(&self) -> Result<(Zeroizing<String>, String), PkiError> {
        let key = read(&self.root.join("sa.key"))?;
        let public = read(&self.root.join("sa.pub"))?;
        Ok((key, public.to_string()))
    }

    /// The key for secrets at rest, in base64.
    pub fn encryption_key(&self) -> Result<Zeroizing<String>, PkiError> {
        let text = read(&self.root.join("encryption.key"))?;
        Ok(Zeroizing::new(text.trim().to_string()))
    }

    /// A leaf of `node`, or of the control machine itself.
    pub fn leaf(
        &self,
        node: Option<&str>,
        row: &Row,
        reuse: Reuse,
        now: Timestamp,
    ) -> Result<Leaf, PkiError> {
        if reuse == Reuse::WhenGood
            && let Some(leaf) = self.good_leaf(node, row, now)?
        {
            return Ok(leaf);
        }
        let leaf = self.sign(row, now)?;
        let base = self.leaf_path(node, row.path);
        // The key first: a certificate without its key would be trusted on the next run.
        write(&with_suffix(&base, "key"), leaf.key.as_bytes())?;
        write(&with_suffix(&base, "crt"), leaf.certificate.as_bytes())?;
        Ok(leaf)
    }

    /// The leaf that is there if it is good, else one that is not written anywhere: for those who hold no lock.
    pub fn leaf_for_now(&self, node: Option<&str>, row: &Row, now: Timestamp) -> Result<Leaf, PkiError> {
        match self.good_leaf(node, row, now)? {
            Some(leaf) => Ok(leaf),
            None => self.sign(row, now),
        }
    }

    fn good_leaf(&self, node: Option<&str>, row: &Row, now: Timestamp) -> Result<Option<Leaf>, PkiError> {
        let base = self.leaf_path(node, row.path);
        let (certificate, key) = (with_suffix(&base, "crt"), with_suffix(&base, "key"));
        if !certificate.exists() || !key.exists() {
            return Ok(None);
        }
        let leaf = Leaf { certificate: read(&certificate)?.to_string(), key: read(&key)? };
        Ok(self.is_good(row, &leaf, now).then_some(leaf))
    }

    /// A new leaf that is not written anywhere on this machine.
    pub fn sign(&self, row: &Row, now: Timestamp) -> Result<Leaf, PkiError> {
        let issued = self.authority(row.authority).sign(row.path, &row.profile, now)?;
        Ok(Leaf { certificate: issued.certificate, key: issued.key })
    }

    pub fn certificates(&self) -> Result<Vec<(String, Certificate)>, PkiError> {
        certificates(&self.root)
    }

    /// Forgets the leaves of a node that has left the cluster.
    pub fn forget(&self, node: &str) -> Result<(), PkiError> {
        let path = self.root.join("nodes").join(node);
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(PkiError::File { doing: "remove", path, source })
            }
            _ => Ok(()),
        }
    }

    fn leaf_path(&self, node: Option<&str>, path: &str) -> PathBuf {
        match node {
            Some(node) => self.root.join("nodes").join(node).join(path),
            None => self.root.join(path),
        }
    }

    fn is_good(&self, row: &Row, leaf: &Leaf, now: Timestamp) -> bool {
        let Ok(found) = Certificate::parse(row.path, leaf.certificate.as_bytes()) else { return false };
        let Ok(key) = key::parse(row.path, &leaf.key) else { return false };
        let organisation: Vec<&str> = row.profile.organisation.as_deref().into_iter().collect();
        self.authority(row.authority).issued(&found)
            && found.common_name == row.profile.common_name
            && found.organisations == organisation
            && row.profile.names.same(&found.dns, &found.ips)
            && found.public_key == key.public_key_raw()
            && found.not_after > now
    }

    fn prepare_service_account(&self, external: Option<&Path>) -> Result<(), PkiError> {
        let (private, public) = (self.root.join("sa.key"), self.root.join("sa.pub"));
        if private.exists() && public.exists() {
            return Ok(());
        }
        let given = external.map(|folder| folder.join("sa.key")).filter(|path| path.exists());
        let (text, pair) = match given {
            Some(path) => {
                let text = read(&path)?;
                let pair = key::parse(&path.display().to_string(), &text)?;
                (text, pair)
            }
            None => {
                let pair = rcgen::KeyPair::generate()
                    .map_err(|source| PkiError::Make { what: "sa.key".to_string(), source })?;
                (Zeroizing::new(pair.serialize_pem()), pair)
            }
        };
        write(&private, text.as_bytes())?;
        write(&public, pair.public_key_pem().as_bytes())
    }

    fn prepare_encryption_key(&self) -> Result<(), PkiError> {
        let path = self.root.join("encryption.key");
        if path.exists() {
            return Ok(());
        }
        use base64::Engine as _;
        let mut bytes = Zeroizing::new([0; 32]);
        let no_randomness = |source: getrandom::Error| PkiError::File {
            doing: "make",
            path: path.clone(),
            source: io::Error::other(source.to_string()),
        };
        getrandom::fill(bytes.as_mut_slice()).map_err(no_randomness)?;
        let text = Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(bytes.as_slice()) + "\n");
        write(&path, text.as_bytes())
    }
}

/// Every certificate in the folder `root` with its path below it, authorities first; those that have expired, too.
pub fn certificates(root: &Path) -> Result<Vec<(String, Certificate)>, PkiError> {
    let mut found = Vec::new();
    list(root, root, &mut found)?;
    found.sort_by_key(|(path, certificate)| (!certificate.is_authority, path.clone()));
    Ok(found)
}

fn must_exist(path: &Path) -> Result<(), PkiError> {
    if path.exists() { Ok(()) } else { Err(PkiError::Missing(path.to_path_buf())) }
}

fn load(root: &Path, name: AuthorityName, now: Timestamp) -> Result<Option<Authority>, PkiError> {
    let base = root.join(name.path());
    let (certificate, key) = (with_suffix(&base, "crt"), with_suffix(&base, "key"));
    if !certificate.exists() || !key.exists() {
        return Ok(None);
    }
    Authority::load(name.path(), &read(&certificate)?, &read(&key)?, now).map(Some)
}

fn adopt_or_make(
    root: &Path,
    external: Option<&Path>,
    name: AuthorityName,
    now: Timestamp,
) -> Result<Authority, PkiError> {
    let given = match external {
        Some(folder) => load_external(folder, name, now)?,
        None => None,
    };
    let (authority, key) = match given {
        Some(found) => found,
        None => Authority::make(name, now)?,
    };
    let base = root.join(name.path());
    write(&with_suffix(&base, "key"), key.as_bytes())?;
    write(&with_suffix(&base, "crt"), authority.pem.as_bytes())?;
    Ok(authority)
}

/// The given authority. The cluster's own must be there; the others are made when they are not.
fn load_external(
    folder: &Path,
    name: AuthorityName,
    now: Timestamp,
) -> Result<Option<(Authority, Zeroizing<String>)>, PkiError> {
    let base = folder.join(name.path());
    let (certificate, key) = (with_suffix(&base, "crt"), with_suffix(&base, "key"));
    for path in [&certificate, &key] {
        if !path.exists() {
            let half = certificate.exists() != key.exists();
            if name == AuthorityName::Cluster || half {
                return Err(PkiError::ExternalMissing(path.clone()));
            }
            return Ok(None);
        }
    }
    let text = read(&key)?;
    let authority = Authority::load(&base.display().to_string(), &read(&certificate)?, &text, now)?;
    Ok(Some((authority, text)))
}

fn list(root: &Path, folder: &Path, found: &mut Vec<(String, Certificate)>) -> Result<(), PkiError> {
    let failed = |source| PkiError::File { doing: "read", path: folder.to_path_buf(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            list(root, &path, found)?;
        } else if path.extension().is_some_and(|suffix| suffix == "crt") {
            let name = path.strip_prefix(root).unwrap_or(&path).with_extension("").display().to_string();
            let certificate = Certificate::parse(&name, read(&path)?.as_bytes())?;
            found.push((name, certificate));
        }
    }
    Ok(())
}

fn with_suffix(base: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}.{suffix}", base.display()))
}

fn read(path: &Path) -> Result<Zeroizing<String>, PkiError> {
    let text = fs::read_to_string(path);
    text.map(Zeroizing::new).map_err(|source| PkiError::File {
        doing: "read",
        path: path.to_path_buf(),
        source,
    })
}

fn make_folder(path: &Path) -> Result<(), PkiError> {
    state::make(path).map_err(|source| PkiError::File { doing: "make", path: path.to_path_buf(), source })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), PkiError> {
    let written = state::write(path, bytes);
    written.map_err(|source| PkiError::File { doing: "write", path: path.to_path_buf(), source })
}
