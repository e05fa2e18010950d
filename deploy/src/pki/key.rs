//! Private keys in the forms that people's authorities come in.
//!
//! The signing library reads PKCS #8. OpenSSL and kubeadm also write the older forms of
//! RSA (PKCS #1) and ECDSA (SEC 1), which are the same bytes without the envelope.

use super::PkiError;
use rcgen::KeyPair;
use x509_parser::pem::Pem;
use zeroize::Zeroizing;

const RSA: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
const P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07,
];
const P384: &[u8] = &[
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00,
    0x22,
];

/// The first private key in `text`; `what` names the file in messages.
pub(super) fn parse(what: &str, text: &str) -> Result<KeyPair, PkiError> {
    let bad = |reason| PkiError::BadKey { what: what.to_string(), reason };
    for block in Pem::iter_from_buffer(text.as_bytes()) {
        let block = block.map_err(|_| bad("it is not PEM"))?;
        let contents = Zeroizing::new(block.contents);
        let candidates: Vec<Zeroizing<Vec<u8>>> = match block.label.as_str() {
            "PRIVATE KEY" => vec![contents],
            "RSA PRIVATE KEY" if text.contains("DEK-Info") => return Err(bad("it is encrypted")),
            "RSA PRIVATE KEY" => vec![envelope(RSA, &contents)],
            "EC PRIVATE KEY" => vec![envelope(P256, &contents), envelope(P384, &contents)],
            "ENCRYPTED PRIVATE KEY" => return Err(bad("it is encrypted")),
            _ => continue,
        };
        return candidates
            .iter()
            .find_map(|der| KeyPair::try_from(der.as_slice()).ok())
            .ok_or_else(|| bad("its kind is not supported"));
    }
    Err(bad("there is no private key in it"))
}

/// PKCS #8: version 0, the algorithm, the key as an octet string.
fn envelope(algorithm: &[u8], key: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut body = vec![0x02, 0x01, 0x00];
    body.extend_from_slice(algorithm);
    append(&mut body, 0x04, key);
    let mut whole = Vec::new();
    append(&mut whole, 0x30, &body);
    Zeroizing::new(whole)
}

fn append(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    let length = (content.len() as u32).to_be_bytes();
    match content.len() {
        0..=0x7f => out.push(length[3]),
        0x80..=0xff => out.extend([0x81, length[3]]),
        _ => out.extend([0x82, length[2], length[3]]),
    }
    out.extend_from_slice(content);
}
