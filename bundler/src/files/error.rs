//! Why a binary, a file or a folder cannot be bundled.

use crate::beneath::Problem;
use crate::manifest::{FileRequest, Manifest};
use crate::{archive, cache, http};
use eggo_bundles::{Arch, Digest};
use eggo_terminal::Explain;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Who wanted what failed.
    #[error("{inner}")]
    Asked {
        #[source]
        inner: Box<Error>,
        /// Kind, name and arch.
        what: String,
        place: String,
    },
    #[error(transparent)]
    Http(#[from] http::Error),
    #[error(transparent)]
    Cache(#[from] cache::Error),
    #[error(transparent)]
    Archive(#[from] archive::Error),
    #[error("cannot read `{}`", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` has sha256 `{found}`, expected `{expected}`", .path.display())]
    WrongDigest { path: PathBuf, expected: Digest, found: Digest },
    #[error("`{}` is a folder", .0.display())]
    IsFolder(PathBuf),
    #[error("`{}` is not a folder", .0.display())]
    NotFolder(PathBuf),
    #[error("`{}` is neither a file, a folder nor a link", .0.display())]
    Special(PathBuf),
    #[error("`{}` leads out of the folder, to `{target}`", .path.display())]
    LinkOut { path: PathBuf, target: String },
    #[error("`{}` is not a name that a bundle can carry", .0.display())]
    BadName(PathBuf),
    #[error("the archive has no member that matches `{pattern}`")]
    NoMember { pattern: String, members: Vec<String> },
    #[error("the archive has several members that match `{pattern}`")]
    ManyMembers { pattern: String, members: Vec<String> },
    #[error("`{member}` of the archive is a link to `{target}`")]
    MemberIsLink { member: String, target: String },
    #[error("`{file}` is a program for {found}, not for {arch}")]
    WrongArch { file: String, found: String, arch: Arch },
    #[error("`{file}` is an archive, not a program")]
    ArchiveAsBinary { file: String },
    #[error("`{name}` for {arch} changed since it was locked, at `{from}`")]
    Changed { name: String, arch: Arch, from: String },
    #[error("the lock has `{name}` for {arch}, which the manifest does not ask for")]
    Unasked { name: String, arch: Arch },
    #[error("nothing is in it")]
    Empty,
}

impl Error {
    pub(super) fn asked(self, manifest: &Manifest, request: &FileRequest, arch: Arch) -> Self {
        let what = format!("{} `{}` for {arch}", request.kind, request.name);
        Error::Asked { inner: Box::new(self), what, place: manifest.place(request.line) }
    }
}

impl Explain for Error {
    fn notes(&self) -> Vec<String> {
        match self {
            Error::Asked { inner, what, place } => {
                let mut notes = vec![format!("required as {what} by {place}")];
                notes.extend(inner.notes());
                notes
            }
            Error::NoMember { members, .. } | Error::ManyMembers { members, .. } if !members.is_empty() => {
                vec![format!("found: {}", members.join(", "))]
            }
            Error::Http(error) => error.notes(),
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::Asked { inner, .. } => return inner.hint(),
            Error::Http(error) => return error.hint(),
            Error::Cache(error) => return error.hint(),
            Error::Archive(error) => return error.hint(),
            Error::Read { source, .. } if Problem::hint_in(source).is_some() => {
                return Problem::hint_in(source);
            }
            Error::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "paths are relative to the manifest; `{arch}` is amd64 or arm64, `{machine}` is x86_64 or aarch64"
            }
            Error::WrongDigest { .. } => "fix the `sha256` in the manifest, or the file",
            Error::IsFolder(_) => "list folders under `dirs`",
            Error::NotFolder(_) => "list single files under `files`",
            Error::NoMember { .. } => {
                "`*` matches within one folder's name, `**/` any folders: `**/NAME` finds it anywhere"
            }
            Error::ManyMembers { .. } => "write more of the path",
            Error::MemberIsLink { .. } => "name the member that the link leads to",
            Error::WrongArch { .. } => {
                "use `{arch}` or `{machine}` in the url or path, or limit it with `archs`"
            }
            Error::ArchiveAsBinary { .. } => "say which `member` of it is the program",
            Error::Changed { .. } | Error::Unasked { .. } => "run `eggo-bundle lock` to record it again",
            _ => return None,
        };
        Some(hint.to_string())
    }
}
