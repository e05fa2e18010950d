//! Why a bundle is refused, or could not be read.

use crate::Arch;
use crate::Digest;
use crate::gzip::BadMember;
use crate::keys::{Distrust, SYSTEM_FOLDER};
use crate::rules::{BadIndex, BadItem};
use crate::table::BadTable;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("`{}` is not an eggo bundle", path.display())]
    NotABundle { path: PathBuf },
    #[error("`{}` is empty", path.display())]
    Empty { path: PathBuf },
    #[error("`{}` {why}", path.display())]
    Tail { path: PathBuf, why: BadTable },
    #[error("`{}` is not trusted: {why}", path.display())]
    Distrust { path: PathBuf, why: Distrust },
    #[error("`{}` is refused: {why}", path.display())]
    Index { path: PathBuf, why: BadIndex },
    #[error("`{}` is refused: {why}", path.display())]
    Refused { path: PathBuf, why: Refusal },
    #[error("`{}` is a delta: `{entry}` is only in its parent {parent}", path.display())]
    NeedsBase { path: PathBuf, entry: String, parent: Digest },
    #[error("`{}` is a delta for {parent}, but `{}` is {found}", path.display(), base.display())]
    WrongBase { path: PathBuf, base: PathBuf, parent: Digest, found: Digest },
    #[error("`{}` is not a delta", path.display())]
    NotADelta { path: PathBuf },
    #[error("the index does not list `{entry}`")]
    NoSuchItem { entry: String },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("`{}` cannot be replaced: {what}", path.display())]
    InTheWay { path: PathBuf, what: &'static str },
    #[error(transparent)]
    Part(#[from] crate::part::BadPart),
}

/// An entry that refuses the whole bundle. Each names the entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("entry `{0}` is not listed in the index")]
    Unlisted(String),
    #[error("entry `{0}` is there more than once")]
    Duplicate(String),
    #[error("entry `{0}` is missing")]
    Missing(String),
    #[error("entry `{path}`: {why}")]
    Path { path: String, why: BadItem },
    #[error("entry `{path}` is {what}")]
    Special { path: String, what: &'static str },
    #[error("entry `{path}` has mode {mode:o}, and the index says {expected:o}")]
    Mode { path: String, mode: u64, expected: u32 },
    #[error("entry `{path}` is a link to `{target}`, against the index")]
    Link { path: String, target: String },
    #[error("entry `{path}` is {found} bytes long, and the index says {expected}")]
    Size { path: String, found: u64, expected: u64 },
    #[error("entry `{path}` has sha256 {found}, and the index says {expected}")]
    Changed { path: String, found: Digest, expected: Digest },
    #[error("entry `{0}` is not what the index makes it")]
    Differs(String),
    #[error("entry `{0}` has an unsound tar header")]
    Header(String),
    #[error("entry `{path}` is damaged: {why}")]
    Member { path: String, why: BadMember },
    #[error("entry `{0}` is damaged: its bytes differ from the table's checksum")]
    Checksum(String),
    #[error("entry `{0}` is damaged: the padding behind it is not zero")]
    Padding(String),
    #[error("entry `{path}` is in {expected}'s folder but is for {found}")]
    WrongArch { path: String, expected: Arch, found: String },
    #[error("entry `{path}` is not what its name says: {why}")]
    Content { path: String, why: String },
    #[error("there are bytes behind the archive's end")]
    BehindEnd,
}

impl Error {
    /// Whether the bundle itself is to blame: the caller exits with 3 and touches nothing.
    pub fn is_untrusted(&self) -> bool {
        match self {
            Error::NotABundle { .. }
            | Error::Empty { .. }
            | Error::Tail { .. }
            | Error::Distrust { .. }
            | Error::Index { .. }
            | Error::Refused { .. } => true,
            Error::Part(bad) => bad.is_untrusted(),
            Error::Io { .. }
            | Error::NeedsBase { .. }
            | Error::WrongBase { .. }
            | Error::NotADelta { .. }
            | Error::NoSuchItem { .. }
            | Error::Write { .. }
            | Error::InTheWay { .. } => false,
        }
    }

    /// Names the kind of error for programs; it stays the same when the message gets better.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Io { .. } => "bundle-unreadable",
            Error::NotABundle { .. } => "not-a-bundle",
            Error::Empty { .. } | Error::Tail { .. } => "bundle-damaged",
            Error::Distrust { .. } => "bundle-not-trusted",
            Error::Index { .. } | Error::Refused { .. } => "bundle-refused",
            Error::NeedsBase { .. } => "delta-needs-base",
            Error::WrongBase { .. } => "delta-wrong-base",
            Error::NotADelta { .. } => "not-a-delta",
            Error::NoSuchItem { .. } => "no-such-item",
            Error::Write { .. } | Error::InTheWay { .. } => "write-failed",
            Error::Part(_) => "bundle-part",
        }
    }

    /// One thing to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Distrust { why: Distrust::NoKeys, .. } => {
                Some(format!("give the builder's public key with `--pubkey`, or put it into {SYSTEM_FOLDER}"))
            }
            Error::Distrust { why: Distrust::UnknownKey { id, .. }, .. } => {
                Some(format!("if you know who owns key {id}, give its file with `--pubkey`"))
            }
            Error::Index { why, .. } => why.hint(),
            Error::NotABundle { .. } => Some(
                "compare its size with the original, in case the copy was interrupted; `eggo-bundle import` makes \
                 bundles of eggo's own tarballs"
                    .into(),
            ),
            Error::NoSuchItem { .. } => Some("`eggo-bundle inspect --tree` shows what is inside".into()),
            Error::Empty { .. } => {
                Some("copy the bundle again, or check the command that should have sent it".into())
            }
            Error::Tail { path, .. } if crate::part::are_named_by(path) => {
                Some("check whether the last parts are missing; otherwise copy all of them again".into())
            }
            Error::Tail { .. }
            | Error::Refused { why: Refusal::Checksum(_) | Refusal::Member { .. }, .. } => {
                Some("copy the bundle again; compare its size and sha256 with the original".into())
            }
            Error::NeedsBase { .. } => {
                Some("give the parent with `--base`, or `eggo-bundle merge` the two".into())
            }
            Error::NotADelta { .. } => Some("it is a full bundle: it needs no parent".into()),
            Error::WrongBase { .. } => Some("a delta fits only the bundle it was made from".into()),
            Error::Write { path, source } => crate::output::hint(path, source),
            Error::Part(bad) => bad.hint(),
            _ => None,
        }
    }
}

/// So that a reader of content can fail with the reason: `io::Error::downcast` gives it back.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io { source, .. } => source,
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        }
    }
}
