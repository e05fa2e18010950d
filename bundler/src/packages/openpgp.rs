//! Signatures of repositories and packages: is this text vouched for by a key we were given?
//!
//! A signature counts if a primary key or a signing subkey of the keyring made it, over a hash
//! that is still strong, and neither signature nor key is expired or revoked *now*: the same
//! judgement as `gpgv`'s. Which keys are given is the repositories' business.

use pgp::composed::{Deserializable, DetachedSignature, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType};
use pgp::types::KeyDetails;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Clocks differ a little.
const SKEW: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Clone, Default)]
pub struct Keyring {
    keys: Vec<SignedPublicKey>,
}

/// Who vouched: the fingerprint of the primary key, in hex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    pub fingerprint: String,
}

/// Why no signature counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    #[error("the key file holds no OpenPGP key: {0}")]
    BadKeyring(String),
    #[error("the signature cannot be read: {0}")]
    BadSignature(String),
    #[error("there is no signature")]
    NoSignature,
    #[error("no given key made a signature (signed by {})", .0.join(", "))]
    UnknownKey(Vec<String>),
    #[error("the signature of key {0} does not match the content")]
    Mismatch(String),
    #[error("key {0} has expired")]
    ExpiredKey(String),
    #[error("key {0} is revoked")]
    RevokedKey(String),
    #[error("the signature of key {0} has expired or is not valid yet")]
    ExpiredSignature(String),
    #[error("the signature of key {key} uses the weak hash {hash}")]
    WeakHash { key: String, hash: String },
}

impl Keyring {
    /// Reads all keys of a file, binary or armored.
    pub fn parse(bytes: &[u8]) -> Result<Self, Untrusted> {
        let mut keyring = Self::default();
        keyring.add(bytes)?;
        Ok(keyring)
    }

    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Untrusted> {
        let bad = |error: pgp::errors::Error| Untrusted::BadKeyring(error.to_string());
        let before = self.keys.len();
        // Several armored blocks may be in one file.
        for block in armored_blocks(bytes) {
            let (keys, _) = SignedPublicKey::from_reader_many(block).map_err(bad)?;
            for key in keys {
                // One key of an unknown kind does not spoil a keyring.
                self.keys.extend(key.ok());
            }
        }
        if self.keys.len() == before {
            return Err(Untrusted::BadKeyring("no key found".to_string()));
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Keeps the keys whose fingerprint, or that of a subkey, is one of these (apt's
    /// `Signed-By: FINGERPRINT`).
    pub fn only(mut self, fingerprints: &[String]) -> Self {
        let wanted: Vec<String> =
            fingerprints.iter().map(|f| f.trim_end_matches('!').to_lowercase()).collect();
        let is_wanted = |key: &dyn KeyDetails| wanted.contains(&hex(key));
        self.keys.retain(|key| is_wanted(key) || key.public_subkeys.iter().any(|subkey| is_wanted(subkey)));
        self
    }

    /// The text of a cleartext-signed message, with who signed it.
    pub fn verify_cleartext(&self, message: &[u8], now: SystemTime) -> Result<(String, Signer), Untrusted> {
        let bad = |error: &str| Untrusted::BadSignature(error.to_string());
        let text = std::str::from_utf8(message).map_err(|_| bad("it is not UTF-8 text"))?;
        let (signed, signature) =
            split_cleartext(text).ok_or_else(|| bad("it is not a cleartext-signed message"))?;
        let signer = self.verify_detached(signature.as_bytes(), signed.as_bytes(), now)?;
        Ok((signed.replace("\r\n", "\n"), signer))
    }

    /// A detached signature, binary or armored; one of several is enough.
    pub fn verify_detached(
        &self,
        signature: &[u8],
        content: &[u8],
        now: SystemTime,
    ) -> Result<Signer, Untrusted> {
        let bad = |error: pgp::errors::Error| Untrusted::BadSignature(error.to_string());
        let (found, _) = DetachedSignature::from_reader_many(signature).map_err(bad)?;
        let signatures: Vec<Signature> = found.filter_map(|found| Some(found.ok()?.signature)).collect();
        self.verify(&signatures, content, now)
    }

    fn verify(&self, signatures: &[Signature], content: &[u8], now: SystemTime) -> Result<Signer, Untrusted> {
        if signatures.is_empty() {
            return Err(Untrusted::NoSignature);
        }
        let mut unknown = Vec::new();
        let mut reason = None;
        for signature in signatures {
            match self.judge(signature, content, now) {
                Ok(signer) => return Ok(signer),
                Err(Untrusted::UnknownKey(keys)) => unknown.extend(keys),
                // A strong reason is not replaced by that of the next signature.
                Err(other) => reason = reason.or(Some(other)),
            }
        }
        Err(reason.unwrap_or(Untrusted::UnknownKey(unknown)))
    }

    fn judge(&self, signature: &Signature, content: &[u8], now: SystemTime) -> Result<Signer, Untrusted> {
        let issuers: Vec<String> = issuers(signature);
        for key in &self.keys {
            let matching = Maker::all(key).find(|maker| issuers.iter().any(|issuer| maker.is(issuer)));
            let Some(maker) = matching else { continue };
            let fingerprint = hex(key);
            check_form(signature, &fingerprint, now)?;
            if !maker.verifies(signature, content) {
                return Err(Untrusted::Mismatch(fingerprint));
            }
            check_key(key, &maker, &fingerprint, now)?;
            return Ok(Signer { fingerprint });
        }
        Err(Untrusted::UnknownKey(issuers))
    }
}

/// A key that can make signatures.
enum Maker<'a> {
    Primary(&'a SignedPublicKey),
    Subkey(&'a SignedPublicSubKey),
}

impl<'a> Maker<'a> {
    fn all(key: &'a SignedPublicKey) -> impl Iterator<Item = Maker<'a>> {
        std::iter::once(Maker::Primary(key)).chain(key.public_subkeys.iter().map(Maker::Subkey))
    }

    fn is(&self, issuer: &str) -> bool {
        let fingerprint = match self {
            Maker::Primary(key) => hex(*key),
            Maker::Subkey(key) => hex(*key),
        };
        // A key id is the end of a fingerprint.
        fingerprint.ends_with(issuer)
    }

    fn verifies(&self, signature: &Signature, content: &[u8]) -> bool {
        match self {
            Maker::Primary(key) => signature.verify(&key.primary_key, content).is_ok(),
            Maker::Subkey(key) => signature.verify(&key.key, content).is_ok(),
        }
    }
}

/// Fingerprints, or key ids where there are none, in lowercase hex.
fn issuers(signature: &Signature) -> Vec<String> {
    let fingerprints: Vec<String> =
        signature.issuer_fingerprint().iter().map(|f| f.to_string().to_lowercase()).collect();
    if !fingerprints.is_empty() {
        return fingerprints;
    }
    signature.issuer_key_id().iter().map(|id| id.to_string().to_lowercase()).collect()
}

fn check_form(signature: &Signature, key: &str, now: SystemTime) -> Result<(), Untrusted> {
    let strong = [
        HashAlgorithm::Sha256,
        HashAlgorithm::Sha384,
        HashAlgorithm::Sha512,
        HashAlgorithm::Sha3_256,
        HashAlgorithm::Sha3_512,
    ];
    let hash = signature.hash_alg();
    if !hash.is_some_and(|hash| strong.contains(&hash)) {
        let hash = hash.map_or("unknown".to_string(), |hash| hash.to_string());
        return Err(Untrusted::WeakHash { key: key.to_string(), hash });
    }
    if !matches!(signature.typ(), Some(SignatureType::Binary | SignatureType::Text)) {
        return Err(Untrusted::BadSignature("it is not over content".to_string()));
    }
    let expired = || Untrusted::ExpiredSignature(key.to_string());
    let created: SystemTime = signature.created().ok_or_else(expired)?.into();
    let lifetime = signature.signature_expiration_time().map_or(0, |lifetime| lifetime.as_secs());
    if created > now + SKEW || has_ended(created, lifetime, now) {
        return Err(expired());
    }
    Ok(())
}

fn check_key(key: &SignedPublicKey, maker: &Maker<'_>, name: &str, now: SystemTime) -> Result<(), Untrusted> {
    let revoked = || Untrusted::RevokedKey(name.to_string());
    let expired = || Untrusted::ExpiredKey(name.to_string());
    let primary = &key.primary_key;
    if key.details.revocation_signatures.iter().any(|revocation| revocation.verify_key(primary).is_ok()) {
        return Err(revoked());
    }
    // The newest self-signature says how long the key lives.
    let on_users = key.details.users.iter().flat_map(|user| {
        let tag = pgp::types::Tag::UserId;
        let certifies = move |s: &&Signature| {
            s.is_certification() && s.verify_certification(primary, tag, &user.id).is_ok()
        };
        user.signatures.iter().filter(certifies)
    });
    let direct = key.details.direct_signatures.iter().filter(|s| s.verify_key(primary).is_ok());
    let newest = on_users.chain(direct).max_by_key(|s| s.created());
    let lifetime = newest.and_then(Signature::key_expiration_time).map_or(0, |lifetime| lifetime.as_secs());
    if has_ended(primary.created_at().into(), lifetime, now) {
        return Err(expired());
    }
    let Maker::Subkey(subkey) = maker else { return Ok(()) };
    let of_type = |kind: SignatureType| {
        let bound = subkey.signatures.iter().filter(move |s| s.typ() == Some(kind));
        bound.filter(|s| s.verify_subkey_binding(primary, &subkey.key).is_ok())
    };
    if of_type(SignatureType::SubkeyRevocation).next().is_some() {
        return Err(revoked());
    }
    // A subkey is the primary key's if each vouches for the other.
    let binding = of_type(SignatureType::SubkeyBinding).max_by_key(|s| s.created());
    let vouched = binding.filter(|binding| {
        let back = binding.embedded_signature();
        binding.key_flags().sign()
            && back.is_some_and(|back| back.verify_primary_key_binding(&subkey.key, primary).is_ok())
    });
    let Some(binding) = vouched else {
        return Err(Untrusted::UnknownKey(vec![hex(*subkey)]));
    };
    let lifetime = binding.key_expiration_time().map_or(0, |lifetime| lifetime.as_secs());
    if has_ended(subkey.key.created_at().into(), lifetime, now) {
        return Err(expired());
    }
    Ok(())
}

/// A lifetime of 0 seconds is none.
fn has_ended(created: SystemTime, lifetime: u32, now: SystemTime) -> bool {
    lifetime > 0 && created.max(UNIX_EPOCH) + Duration::from_secs(lifetime.into()) < now
}

fn hex(key: &(impl KeyDetails + ?Sized)) -> String {
    key.fingerprint().to_string().to_lowercase()
}

/// The text of a message as it was signed, and the armored signature that is all of its rest. (pgp's own reader looks
/// through the whole text again for every line, which takes it longer than the signature itself.)
fn split_cleartext(message: &str) -> Option<(String, &str)> {
    const BEGIN: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
    const SIGNATURE: &str = "-----BEGIN PGP SIGNATURE-----";
    const END: &str = "-----END PGP SIGNATURE-----";
    let mut lines = message.split_inclusive('\n');
    let mut at = 0;
    let mut next = || {
        let line = lines.next()?;
        at += line.len();
        // Spaces at the end of a line are not signed.
        Some((at - line.len(), line.trim_end_matches([' ', '\t', '\r', '\n'])))
    };
    if next()?.1 != BEGIN {
        return None;
    }
    // Nothing but the hash's name may be before the text: it would seem to be signed.
    while next().filter(|(_, line)| line.is_empty() || line.starts_with("Hash: "))?.1.starts_with("Hash: ") {}
    let mut text = String::with_capacity(message.len() + message.len() / 32);
    let mut separator = "";
    loop {
        let (start, line) = next()?;
        if line == SIGNATURE {
            let signature = message[start..].trim_end();
            let is_last = signature.ends_with(END) && signature.matches("-----BEGIN").count() == 1;
            return is_last.then_some((text, signature));
        }
        text.push_str(separator);
        text.push_str(match line.strip_prefix('-') {
            Some(escaped) => escaped.strip_prefix(' ')?,
            None => line,
        });
        separator = "\r\n";
    }
}

/// The armored blocks of a file, or the whole file if it is binary.
fn armored_blocks(bytes: &[u8]) -> Vec<&[u8]> {
    const BEGIN: &[u8] = b"-----BEGIN PGP";
    let starts: Vec<usize> = memchr::memmem::find_iter(bytes, BEGIN).collect();
    if starts.is_empty() {
        return vec![bytes];
    }
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    starts.iter().zip(ends).map(|(start, end)| &bytes[*start..end]).collect()
}

#[cfg(test)]
mod tests {
    use super::split_cleartext;

    const END: &str = "-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----\n";

    #[test]
    fn a_message_is_text_and_signature() {
        let message = format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\na \r\n- -b\n\n{END}");
        let (text, signature) = split_cleartext(&message).unwrap();
        assert_eq!((text.as_str(), signature), ("a\r\n-b\r\n", END.trim_end()));
    }

    #[test]
    fn nothing_unsigned_is_taken_with_it() {
        let begin = "-----BEGIN PGP SIGNED MESSAGE-----\n";
        for message in [
            format!("Origin: x\n{begin}Hash: SHA256\n\na\n{END}"),
            format!("{begin}Origin: x\n\na\n{END}"),
            format!("{begin}Hash: SHA256\n\n-a\n{END}"),
            format!("{begin}Hash: SHA256\n\na\n{END}b\n"),
            format!("{begin}Hash: SHA256\n\na\n{END}{END}"),
            format!("{begin}Hash: SHA256\n\na\n"),
            begin.to_string(),
            String::new(),
        ] {
            assert_eq!(split_cleartext(&message), None, "{message}");
        }
    }
}
