//! sha256 digests: of items, indexes and image blobs.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

/// A sha256 digest. Written as 64 lowercase hex digits; read with or without a `sha256:` prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a sha256 digest (64 hex digits)")]
pub struct BadDigest(pub String);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Hashes everything that `reader` gives; returns the digest and the number of bytes.
    pub fn of_reader(reader: &mut impl Read) -> io::Result<(Self, u64)> {
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; 1 << 17];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => hasher.update(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let length = hasher.length();
        Ok((hasher.finish(), length))
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }

    /// The form OCI uses: `sha256:…`.
    pub fn oci(&self) -> String {
        format!("sha256:{self}")
    }
}

/// A digest in the making, with the number of bytes seen so far.
#[derive(Clone)]
pub struct Hasher {
    state: Sha256,
    length: u64,
}

impl Hasher {
    #[allow(clippy::new_without_default, reason = "a hasher is begun, not defaulted")]
    pub fn new() -> Self {
        Self { state: Sha256::new(), length: 0 }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
        self.length += bytes.len() as u64;
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn finish(self) -> Digest {
        Digest(self.state.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Self, BadDigest> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| BadDigest(text.to_string()))?;
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_with_and_without_prefix_and_prints_bare_hex() {
        let digest = Digest::of(b"abc");
        assert_eq!(digest.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(digest.oci().parse(), Ok(digest));
        assert_eq!(digest.hex().parse(), Ok(digest));
        assert!("abc".parse::<Digest>().is_err());
        assert_eq!(Digest::of_reader(&mut &b"abc"[..]).unwrap(), (digest, 3));
    }
}
