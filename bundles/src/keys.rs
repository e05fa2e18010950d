//! Who may vouch for a bundle: minisign keys, their files, and signatures over an index.
//!
//! Keys are made, read and checked by the `minisign` crate. Signing itself is done here,
//! because that crate mixes random bytes into each signature, and the same index signed
//! by the same key must give the same bytes. The steps are minisign's own:
//! 1. prehash = BLAKE2b-512 of the message
//! 2. signature = Ed25519(prehash), written as base64 of `ED` + key number + signature
//! 3. global signature = Ed25519(signature + trusted comment), written as base64

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use blake2::{Blake2b512, Digest as _};
use ed25519_dalek::{Signer as _, SigningKey};
use std::fmt;
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// Where keys that are always trusted lie, besides [`TrustedKeys::user_folder`].
pub const SYSTEM_FOLDER: &str = "/etc/eggo/trusted-keys";

/// Trusted keys that an error lists.
const MOST_NAMED: usize = 5;
/// No key file is longer.
const LONGEST_KEY_FILE: u64 = 16 << 10;
/// Byte ranges of minisign's secret key structure: two algorithms and a checksum's name (6),
/// salt (32), two limits (16), then these.
const KEY_NUMBER: std::ops::Range<usize> = 54..62;
const KEY_PAIR: std::ops::Range<usize> = 62..126;

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read key `{}`", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("`{name}` is not a minisign {kind} key")]
    NotAKey { name: String, kind: &'static str },
    #[error("secret key `{name}` is protected by a password")]
    NeedsPassword { name: String },
    #[error("wrong password for secret key `{name}`")]
    WrongPassword { name: String },
    #[error("cannot make a key: {0}")]
    Generate(String),
}

impl KeyError {
    /// Names the kind of error for programs; it stays the same when the message gets better.
    pub fn code(&self) -> &'static str {
        match self {
            KeyError::Unreadable { .. } => "key-unreadable",
            KeyError::NotAKey { .. } => "key-invalid",
            KeyError::NeedsPassword { .. } | KeyError::WrongPassword { .. } => "key-password",
            KeyError::Generate(_) => "key-failed",
        }
    }

    pub fn hint(&self) -> Option<String> {
        match self {
            KeyError::NotAKey { kind: "public", .. } => Some("a public key file ends in `.pub`".into()),
            KeyError::NeedsPassword { .. } => {
                Some("set EGGO_KEY_PASSWORD where nobody can be asked, or run it on a terminal".into())
            }
            KeyError::Unreadable { path, source }
                if source.kind() == std::io::ErrorKind::NotFound
                    && path.extension().is_none_or(|ending| ending != "pub") =>
            {
                Some(format!("`eggo-bundle keygen -o {}` makes one", path.display()))
            }
            KeyError::NotAKey { .. } => Some("make a key with `eggo-bundle keygen` or `minisign -G`".into()),
            _ => None,
        }
    }
}

/// A new key pair, as the texts of its two files.
pub struct KeyPair {
    pub secret: String,
    pub public: String,
}

impl KeyPair {
    /// With a password, the secret half is encrypted as `minisign -G` does it.
    pub fn generate(password: Option<&str>) -> Result<Self, KeyError> {
        let failed = |error: minisign::PError| KeyError::Generate(error.to_string());
        let pair = match password {
            Some(password) => minisign::KeyPair::generate_encrypted_keypair(Some(password.to_string())),
            None => minisign::KeyPair::generate_unencrypted_keypair(),
        }
        .map_err(failed)?;
        let comment = match password {
            Some(_) => "minisign encrypted secret key",
            None => "minisign secret key",
        };
        Ok(Self {
            secret: pair.sk.to_box(Some(comment)).map_err(failed)?.to_string(),
            public: pair.pk.to_box().map_err(failed)?.to_string(),
        })
    }
}

/// A key that signs. Never printed.
pub struct SecretKey {
    number: [u8; 8],
    signing: SigningKey,
    public: PublicKey,
}

impl SecretKey {
    /// Reads a minisign secret key file. `password` is asked only if the key is encrypted.
    pub fn load(path: &Path, password: impl FnOnce() -> Option<String>) -> Result<Self, KeyError> {
        Self::parse(&read_key_file(path)?, &path.display().to_string(), password)
    }

    /// The text of a secret key file; `name` is used in errors.
    pub fn parse(
        text: &str,
        name: &str,
        password: impl FnOnce() -> Option<String>,
    ) -> Result<Self, KeyError> {
        let not_a_key = || KeyError::NotAKey { name: name.to_string(), kind: "secret" };
        let line = text.lines().nth(1).ok_or_else(not_a_key)?;
        let raw = BASE64.decode(line.trim()).map_err(|_| not_a_key())?;
        let encrypted = match raw.get(2..4) {
            Some([0, 0]) => false,
            Some(b"Sc") => true,
            _ => return Err(not_a_key()),
        };
        if raw.get(..2) != Some(b"Ed") {
            return Err(not_a_key());
        }
        let bytes = if encrypted {
            let password = password().ok_or_else(|| KeyError::NeedsPassword { name: name.to_string() })?;
            let key = minisign::SecretKeyBox::from(text.to_string()).into_secret_key(Some(password));
            key.map_err(|_| KeyError::WrongPassword { name: name.to_string() })?.to_bytes()
        } else {
            // `minisign -W` leaves the checksum empty. The pair's halves are compared below.
            raw
        };
        if bytes.len() < KEY_PAIR.end {
            return Err(not_a_key());
        }
        let number = bytes[KEY_NUMBER].try_into().map_err(|_| not_a_key())?;
        let pair: [u8; 64] = bytes[KEY_PAIR].try_into().map_err(|_| not_a_key())?;
        let signing = SigningKey::from_keypair_bytes(&pair).map_err(|_| not_a_key())?;
        let public = [b"Ed", &bytes[KEY_NUMBER], signing.verifying_key().as_bytes()].concat();
        let public = minisign::PublicKey::from_bytes(&public).map_err(|_| not_a_key())?;
        Ok(Self { number, signing, public: PublicKey(public) })
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The text of a `.minisig` file over `message`; equal for equal arguments.
    pub(crate) fn sign(&self, message: &[u8], trusted_comment: &str) -> String {
        let signature = self.signing.sign(&Blake2b512::digest(message)).to_bytes();
        let mut first = b"ED".to_vec();
        first.extend(self.number);
        first.extend(signature);
        let mut commented = signature.to_vec();
        commented.extend(trusted_comment.as_bytes());
        let global = self.signing.sign(&commented).to_bytes();
        format!(
            "untrusted comment: signature from key {}\n{}\ntrusted comment: {trusted_comment}\n{}\n",
            self.public.id(),
            BASE64.encode(first),
            BASE64.encode(global)
        )
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.public.id())
    }
}

/// A key that signatures are checked with.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(minisign::PublicKey);

impl PublicKey {
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        Self::parse(&read_key_file(path)?, &path.display().to_string())
    }

    /// The text of a public key file, or its base64 line alone; `name` is used in errors.
    pub fn parse(text: &str, name: &str) -> Result<Self, KeyError> {
        let line = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with("untrusted comment:"));
        let key = line.and_then(|line| minisign::PublicKey::from_base64(line).ok());
        match key {
            Some(key) if key.to_bytes().starts_with(b"Ed") => Ok(Self(key)),
            _ => Err(KeyError::NotAKey { name: name.to_string(), kind: "public" }),
        }
    }

    /// The key number in minisign's spelling.
    pub fn id(&self) -> String {
        key_id(self.0.keynum())
    }

    /// The text of a `.pub` file.
    pub fn to_text(&self) -> String {
        format!("untrusted comment: minisign public key {}\n{}\n", self.id(), self.0.to_base64())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

/// The keys whose word counts.
#[derive(Debug, Clone, Default)]
pub struct TrustedKeys {
    keys: Vec<Trusted>,
}

#[derive(Debug, Clone)]
struct Trusted {
    key: PublicKey,
    /// The file that it was read from.
    file: Option<PathBuf>,
}

/// For people who ask why another key is not trusted: "key 603A22F5D182B380 (`key.pub`)".
impl fmt::Display for Trusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "key {} (`{}`)", self.key.id(), file.display()),
            None => write!(f, "key {}", self.key.id()),
        }
    }
}

impl TrustedKeys {
    pub fn new(keys: impl IntoIterator<Item = PublicKey>) -> Self {
        Self { keys: keys.into_iter().map(|key| Trusted { key, file: None }).collect() }
    }

    /// `key` counts too.
    pub fn and(mut self, key: PublicKey) -> Self {
        self.keys.push(Trusted { key, file: None });
        self
    }

    /// The keys of `files` if there are any, else those in the trusted-keys folders.
    pub fn from_files_or_folders(files: &[PathBuf]) -> Result<Self, KeyError> {
        if files.is_empty() { Self::from_folders() } else { Self::from_files(files) }
    }

    pub fn from_files(files: &[PathBuf]) -> Result<Self, KeyError> {
        let load = |path: &PathBuf| Ok(Trusted { key: PublicKey::load(path)?, file: Some(path.clone()) });
        files.iter().map(load).collect::<Result<_, _>>().map(|keys| Self { keys })
    }

    /// Every `*.pub` in [`SYSTEM_FOLDER`] and the user's own folder.
    pub fn from_folders() -> Result<Self, KeyError> {
        let mut files = Vec::new();
        for folder in std::iter::once(PathBuf::from(SYSTEM_FOLDER)).chain(Self::user_folder()) {
            files.extend(public_keys_in(&folder)?);
        }
        Self::from_files(&files)
    }

    /// `~/.config/eggo/trusted-keys`, if the user has a home.
    pub fn user_folder() -> Option<PathBuf> {
        let config = match std::env::var_os("XDG_CONFIG_HOME") {
            Some(folder) if Path::new(&folder).is_absolute() => PathBuf::from(folder),
            _ => PathBuf::from(std::env::var_os("HOME")?).join(".config"),
        };
        Some(config.join("eggo/trusted-keys"))
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Which trusted key signed `message`, or why none did.
    pub(crate) fn check(&self, message: &[u8], signature: &str) -> Result<PublicKey, Distrust> {
        // What is no signature at all needs no key to be refused.
        let signature =
            minisign::SignatureBox::from_string(signature).map_err(|_| Distrust::NotASignature)?;
        if self.keys.is_empty() {
            return Err(Distrust::NoKeys);
        }
        let keys = self.keys.iter().map(|trusted| &trusted.key);
        let mut candidates = keys.filter(|key| key.0.keynum() == signature.keynum()).peekable();
        if candidates.peek().is_none() {
            return Err(Distrust::UnknownKey { id: key_id(signature.keynum()), trusted: self.named() });
        }
        // A key number is not proof of anything: two keys may share one.
        let holds = |key: &&PublicKey| {
            minisign::verify(&key.0, &signature, Cursor::new(message), true, false, true).is_ok()
        };
        let found = candidates.find(holds).cloned();
        found.ok_or_else(|| Distrust::Forged { id: key_id(signature.keynum()) })
    }

    /// The first few, with where they come from.
    fn named(&self) -> String {
        let mut names: Vec<String> = self.keys.iter().take(MOST_NAMED).map(ToString::to_string).collect();
        if let Some(more @ 1..) = self.keys.len().checked_sub(MOST_NAMED) {
            names.push(format!("{more} more"));
        }
        names.join(", ")
    }
}

/// Why no trusted key vouches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    #[error("no trusted key is known")]
    NoKeys,
    #[error("the signature is not a minisign signature")]
    NotASignature,
    #[error("it is signed by key {id}, which is none of the trusted ones: {trusted}")]
    UnknownKey { id: String, trusted: String },
    #[error("its signature by key {id} does not hold")]
    Forged { id: String },
}

impl Distrust {
    /// Whether nobody here knows the key. Anything else is a forgery, or damaged.
    pub fn is_unknown_key(&self) -> bool {
        matches!(self, Distrust::NoKeys | Distrust::UnknownKey { .. })
    }
}

fn key_id(number: &[u8]) -> String {
    number.iter().rev().map(|byte| format!("{byte:02X}")).collect()
}

fn read_key_file(path: &Path) -> Result<String, KeyError> {
    use std::io::Read as _;
    let unreadable = |source| KeyError::Unreadable { path: path.to_path_buf(), source };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(LONGEST_KEY_FILE).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

fn public_keys_in(folder: &Path) -> Result<Vec<PathBuf>, KeyError> {
    let unreadable = |source| KeyError::Unreadable { path: folder.to_path_buf(), source };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "pub") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (SecretKey, TrustedKeys) {
        let pair = KeyPair::generate(None).unwrap();
        let secret = SecretKey::parse(&pair.secret, "test", || None).unwrap();
        let public = PublicKey::parse(&pair.public, "test").unwrap();
        assert_eq!(secret.public(), &public);
        (secret, TrustedKeys::new([public]))
    }

    #[test]
    fn signs_the_same_bytes_each_time_and_is_believed() {
        let (secret, trusted) = pair();
        let signature = secret.sign(b"message", "eggo");
        assert_eq!(signature, secret.sign(b"message", "eggo"));
        assert_eq!(trusted.check(b"message", &signature).unwrap().id(), secret.public().id());
        assert!(matches!(trusted.check(b"messagE", &signature), Err(Distrust::Forged { .. })));
        let commented = signature.replace("trusted comment: eggo", "trusted comment: eggO");
        assert!(matches!(trusted.check(b"message", &commented), Err(Distrust::Forged { .. })));
    }

    #[test]
    fn an_unknown_key_and_none_are_different_errors() {
        let (secret, _) = pair();
        let (_, others) = pair();
        let signature = secret.sign(b"message", "eggo");
        let (signer, other) = (secret.public().id(), others.keys[0].key.id());
        let error = others.check(b"message", &signature).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("it is signed by key {signer}, which is none of the trusted ones: key {other}")
        );
        assert_eq!(TrustedKeys::default().check(b"message", &signature), Err(Distrust::NoKeys));
        assert_eq!(others.check(b"message", "no"), Err(Distrust::NotASignature));
        assert_eq!(TrustedKeys::default().check(b"message", "no"), Err(Distrust::NotASignature));
    }

    #[test]
    fn trusted_keys_are_named_with_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = (0..7).map(|n| folder.path().join(format!("{n}.pub"))).collect();
        for file in &files {
            std::fs::write(file, KeyPair::generate(None).unwrap().public).unwrap();
        }
        let names = TrustedKeys::from_files(&files).unwrap().named();
        let first = PublicKey::load(&files[0]).unwrap().id();
        assert!(names.starts_with(&format!("key {first} (`{}`), ", files[0].display())), "{names}");
        assert!(names.ends_with(", 2 more"), "{names}");
        assert!(!TrustedKeys::from_files(&files[..5]).unwrap().named().contains("more"));
    }

    #[test]
    fn a_password_is_asked_for_and_must_be_right() {
        let pair = KeyPair::generate(Some("open")).unwrap();
        let parse =
            |password: Option<&str>| SecretKey::parse(&pair.secret, "k", || password.map(String::from));
        assert!(parse(Some("open")).is_ok());
        assert!(matches!(parse(Some("wrong")), Err(KeyError::WrongPassword { .. })));
        assert!(matches!(parse(None), Err(KeyError::NeedsPassword { .. })));
    }

    #[test]
    fn what_is_not_a_key_is_said() {
        for text in ["", "untrusted comment: x\n", "untrusted comment: x\nAAAA\n", "\0\0"] {
            assert!(
                matches!(SecretKey::parse(text, "k", || None), Err(KeyError::NotAKey { .. })),
                "{text:?}"
            );
            assert!(matches!(PublicKey::parse(text, "k"), Err(KeyError::NotAKey { .. })), "{text:?}");
        }
    }
}
