//! Why an image cannot be bundled, in words that name it.

use super::documents::BadDocument;
use super::reference::BadReference;
use super::registries::BadEndpoint;
use super::registry;
use crate::beneath::Problem;
use crate::{cache, http};
use eggo_bundles::Arch;
use eggo_bundles::layout::BadLayout;
use eggo_terminal::Explain;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Reference(#[from] BadReference),
    #[error(transparent)]
    Endpoint(#[from] BadEndpoint),
    #[error(transparent)]
    Layout(#[from] BadLayout),
    #[error(transparent)]
    Cache(#[from] cache::Error),
    #[error("image `{image}` has nothing for {arch}")]
    NoArch {
        image: String,
        arch: Arch,
        /// The platforms it has.
        found: Vec<String>,
    },
    #[error("there is no image `{image}`")]
    NotFound {
        image: String,
        /// What each server said.
        answers: Vec<String>,
        /// A tag of that repository that was probably meant.
        nearest: Option<String>,
    },
    #[error("image `{image}`: {problem}")]
    Document { image: String, problem: BadDocument },
    #[error("cannot fetch image `{image}`: {}", last(.errors))]
    Registry {
        image: String,
        /// One for each server, in the order they were asked.
        errors: Vec<registry::Error>,
    },
    #[error("cannot push to `{target}`: {}", with_causes(.source))]
    Push { target: String, source: registry::Error },
    #[error("cannot push to `{0}`: a push needs a tag, and no digest")]
    PushToDigest(String),
    #[error("`{}`: {reason}", .path.display())]
    Local { path: PathBuf, reason: String },
    #[error("`{}`: {source}", .path.display())]
    Place { path: PathBuf, source: Problem },
    #[error("`{}` has no image `{image}`", .path.display())]
    NotInArchive { path: PathBuf, image: String, found: Vec<String> },
    #[error("`{}` has changed since it was locked: image `{image}` for {arch} is not in it", .path.display())]
    Changed { path: PathBuf, image: String, arch: Arch },
}

impl Error {
    /// The image it is about.
    pub fn image(&self) -> Option<&str> {
        match self {
            Self::NoArch { image, .. }
            | Self::NotFound { image, .. }
            | Self::Document { image, .. }
            | Self::Registry { image, .. }
            | Self::NotInArchive { image, .. }
            | Self::Changed { image, .. } => Some(image),
            _ => None,
        }
    }

    /// Whether the servers say that there is no such image: as it is with words that only look like one. Those of
    /// registries that nobody has heard of do, too, and a registry may not tell a missing image from a secret one.
    pub fn is_absent(&self) -> bool {
        let nowhere = |error: &registry::Error| match error {
            registry::Error::Denied { username, .. } => username.is_none(),
            registry::Error::Http(http::Error::Unreachable { reason, .. }) => reason.contains("dns error"),
            registry::Error::Http(http::Error::Status { status, .. }) => {
                (400..500).contains(status) && *status != 429
            }
            _ => false,
        };
        match self {
            Self::NotFound { .. } | Self::NoArch { .. } => true,
            Self::Registry { errors, .. } => !errors.is_empty() && errors.iter().all(nowhere),
            _ => false,
        }
    }
}

fn last(errors: &[registry::Error]) -> String {
    errors.last().map_or_else(String::new, with_causes)
}

fn with_causes(error: &registry::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

impl Explain for Error {
    fn notes(&self) -> Vec<String> {
        match self {
            Self::NoArch { found, .. } if found.is_empty() => vec!["found: nothing".to_string()],
            Self::NoArch { found, .. } => vec![format!("found: {}", found.join(", "))],
            Self::NotInArchive { found, .. } if found.is_empty() => vec!["found: nothing".to_string()],
            Self::NotInArchive { found, .. } => vec![format!("found: {}", found.join(", "))],
            Self::NotFound { answers, .. } => answers.clone(),
            Self::Registry { errors, .. } => {
                let (last, before) = errors.split_last().expect("an error is about at least one server");
                let mut notes: Vec<String> =
                    before.iter().map(|error| format!("before that: {}", with_causes(error))).collect();
                notes.extend(last.notes());
                notes
            }
            Self::Push { source, .. } => source.notes(),
            Self::Cache(error) => error.notes(),
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Reference(error) => error.hint(),
            Self::Cache(error) => error.hint(),
            Self::NoArch { arch, .. } => Some(format!(
                "choose a tag that has {arch}, or name it under `images` with the `archs` that it is for"
            )),
            Self::NotFound { nearest: Some(tag), .. } => Some(format!("did you mean tag `{tag}`?")),
            Self::NotFound { image, .. } => Some(format!(
                "check its spelling, and that you may read it: `skopeo inspect docker://{image}`"
            )),
            Self::Registry { errors, .. } => errors.last()?.hint(),
            Self::Push { source, .. } => source.hint(),
            Self::Place { source, .. } => source.hint(),
            Self::NotInArchive { .. } => Some("name one of those".to_string()),
            Self::Changed { .. } => Some("run `eggo-bundle lock` again".to_string()),
            _ => None,
        }
    }
}

impl registry::Error {
    /// What else is worth knowing about it.
    fn notes(&self) -> Vec<String> {
        match self {
            Self::Http(error) => error.notes(),
            Self::Denied { username, problems, .. } => {
                let user = username.as_ref().map(|name| format!("asked as user `{name}`"));
                user.into_iter().chain(problems.iter().map(ToString::to_string)).collect()
            }
            Self::Token { .. } => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            // What rustls says when the other side speaks something else than TLS.
            Self::Http(http::Error::Unreachable { url, reason }) if reason.contains("InvalidContentType") => {
                let host = url.split('/').nth(2).unwrap_or(url);
                Some(format!(
                    "`{host}` seems to speak plain http: if that is meant, say `plain-http: true` for it under `registries`"
                ))
            }
            Self::Http(error) => error.hint(),
            Self::Denied { registry, username: None, .. } => Some(format!(
                "log in with `docker login {registry}` or `skopeo login {registry}`: their credentials are used"
            )),
            Self::Denied { registry, username: Some(_), .. } => {
                Some(format!("check that this user may do that, or log in again: `skopeo login {registry}`"))
            }
            Self::Token { registry, .. } => Some(format!("log in again: `skopeo login {registry}`")),
        }
    }
}
