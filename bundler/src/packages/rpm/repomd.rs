//! `repomd.xml`: which metadata files a repository has, and their digests.

use super::xml::{self, Attributes, Visit};
use eggo_bundles::Digest;

/// One metadata file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// `primary`, `filelists`, `modules`, …
    pub kind: String,
    /// Below the repository's root.
    pub location: String,
    pub sha256: Digest,
    pub size: Option<u64>,
    /// Size after decompression.
    pub open_size: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Xml(#[from] xml::Error),
    #[error("`{kind}` {checksum}")]
    Checksum { kind: String, checksum: BadChecksum },
    #[error("`{kind}` is at `{location}`, outside of the repository")]
    Outside { kind: String, location: String },
}

/// What `repomd.xml` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repomd {
    pub files: Vec<Data>,
    /// Usually the time when it was made, in Unix seconds.
    pub revision: Option<String>,
    /// When the newest of all its files was made, in Unix seconds.
    pub date: Option<i64>,
}

/// Why what is known of a file does not tell it from another. Only sha256 is understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadChecksum {
    #[error("is secured only by `{0}`, which is not enough")]
    Weak(String),
    #[error("is secured by `{0}`, and only `sha256` is understood")]
    Other(String),
    #[error("is secured by a `sha256` that is none")]
    Malformed,
}

impl BadChecksum {
    pub fn hint(&self) -> String {
        match self {
            BadChecksum::Malformed => "try another mirror".to_string(),
            _ => "metadata that `createrepo_c --checksum sha256` made will do".to_string(),
        }
    }
}

/// The digest of a file by its checksum's `name` and `value`.
pub fn checksum(name: &str, value: &str) -> Result<Digest, BadChecksum> {
    match name {
        "sha256" => value.parse().map_err(|_| BadChecksum::Malformed),
        "sha224" | "sha384" | "sha512" => Err(BadChecksum::Other(name.to_string())),
        weak => Err(BadChecksum::Weak(weak.to_string())),
    }
}

#[derive(Default)]
struct Draft {
    kind: String,
    location: String,
    checksum_type: String,
    checksum: String,
    size: Option<u64>,
    open_size: Option<u64>,
}

#[derive(Default)]
struct Reader {
    drafts: Vec<Draft>,
    revision: Option<String>,
    date: Option<i64>,
}

pub fn parse(bytes: &[u8]) -> Result<Repomd, Error> {
    let mut reader = Reader::default();
    xml::walk(bytes, &mut reader)?;
    let Reader { drafts, revision, date } = reader;
    let wanted = drafts.into_iter().filter(|draft| WANTED.contains(&draft.kind.as_str()));
    Ok(Repomd { files: wanted.map(finish).collect::<Result<_, _>>()?, revision, date })
}

/// The other files (databases, deltas, change logs) are of no use here, so their checksums do not matter.
const WANTED: [&str; 3] = ["primary", "filelists", "modules"];

fn finish(draft: Draft) -> Result<Data, Error> {
    let Draft { kind, location, checksum_type, checksum, size, open_size } = draft;
    if !is_inside(&location) {
        return Err(Error::Outside { kind, location });
    }
    match self::checksum(&checksum_type, &checksum) {
        Ok(sha256) => Ok(Data { kind, location, sha256, size, open_size }),
        Err(checksum) => Err(Error::Checksum { kind, checksum }),
    }
}

/// A relative path without `..`: what a repository may name.
pub fn is_inside(location: &str) -> bool {
    !location.is_empty()
        && !location.starts_with('/')
        && !location.contains('\\')
        && !location.contains("://")
        && location.split('/').all(|part| part != "..")
        && !location.chars().any(char::is_control)
}

impl Visit for Reader {
    fn start(&mut self, name: &str, attributes: &Attributes<'_>) -> Result<(), String> {
        if name == "data" {
            self.drafts.push(Draft { kind: attributes.required("type")?, ..Draft::default() });
        }
        let Some(draft) = self.drafts.last_mut() else { return Ok(()) };
        match name {
            "location" => draft.location = attributes.required("href")?,
            "checksum" => draft.checksum_type = attributes.required("type")?,
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, name: &str, text: &str) -> Result<(), String> {
        let is_word = !text.is_empty() && text.len() <= 128 && text.chars().all(|c| c.is_ascii_graphic());
        if name == "revision" && is_word {
            self.revision = Some(text.to_string());
        }
        let Some(draft) = self.drafts.last_mut() else { return Ok(()) };
        match name {
            // Whole seconds, but for old versions of createrepo.
            "timestamp" => {
                self.date = self.date.max(text.split('.').next().and_then(|whole| whole.parse().ok()))
            }
            "checksum" => draft.checksum = text.to_string(),
            "size" => draft.size = text.parse().ok(),
            "open-size" => draft.open_size = text.parse().ok(),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repomd(checksum_type: &str, href: &str) -> String {
        format!(
            "<repomd xmlns=\"x\"><revision>1</revision><data type=\"primary\">\
             <checksum type=\"{checksum_type}\">{}</checksum><location href=\"{href}\"/>\
             <timestamp>1700000000</timestamp><size>5</size><open-size>9</open-size></data>\
             <data type=\"other\"><checksum type=\"md5\">x</checksum><location href=\"o\"/></data></repomd>",
            "ab".repeat(32)
        )
    }

    #[test]
    fn reads_what_is_wanted() {
        let parsed = parse(repomd("sha256", "repodata/primary.xml.gz").as_bytes()).unwrap();
        assert_eq!((parsed.revision.as_deref(), parsed.date), (Some("1"), Some(1_700_000_000)));
        let data = parsed.files;
        assert_eq!(data.len(), 1);
        assert_eq!((data[0].size, data[0].open_size), (Some(5), Some(9)));
    }

    #[test]
    fn refuses_weak_checksums_and_ways_out() {
        let weak = parse(repomd("sha", "repodata/p").as_bytes()).unwrap_err();
        assert!(weak.to_string().contains("secured only by `sha`"));
        let other = parse(repomd("sha512", "repodata/p").as_bytes()).unwrap_err();
        assert_eq!(other.to_string(), "`primary` is secured by `sha512`, and only `sha256` is understood");
        for href in ["../p", "/etc/passwd", "a/../../b", "http://elsewhere/p"] {
            let error = parse(repomd("sha256", href).as_bytes()).unwrap_err();
            assert!(matches!(error, Error::Outside { .. }), "{href}");
        }
    }
}
