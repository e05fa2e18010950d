//! Addons: files of Kubernetes objects, and the images they need.
//!
//! [`discover`] reads one file. What is in an `image:` field of a pod spec, wherever the
//! pod spec is, is an image. References in other places (arguments, environment, ConfigMaps,
//! custom fields) may be images: they are reported with their line and bundled on request.
//! Comments, templates and the schemas of CRDs are not images. A pod spec whose node selector or affinity names
//! an arch or an OS wants its images for no other machine. Nothing is fetched or
//! rendered here.

mod machines;
mod objects;
mod text;

use crate::images::{BadReference, Reference};
use eggo_bundles::Arch;
use eggo_terminal::Explain;
use std::fmt;

/// What a file mentions. Sorted; each image once, at its first line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    pub images: Vec<Mention>,
    /// Not bundled unless asked for; none of them is in `images`.
    pub possible: Vec<Mention>,
    /// Images of pods that run only on machines for which no bundle is made: other archs, Windows.
    pub foreign: Vec<Mention>,
    /// `image:` fields that hold no image yet: a template, or a word that a webhook replaces.
    pub unfilled: Vec<Unfilled>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    pub reference: Reference,
    pub line: usize,
    pub place: Place,
    /// The archs whose nodes may run the pod.
    pub archs: Vec<Arch>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfilled {
    pub text: String,
    pub line: usize,
}

/// Where in an object a reference stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The `image:` field of a container, or of a custom resource.
    Image,
    Args,
    Env,
    ConfigMap,
    CustomResource,
    /// Labels and annotations.
    Metadata,
    Other,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Yaml(#[from] eggo_yaml::Problems),
    #[error("{file} looks like a template, which is not YAML yet: {problems}")]
    Template { file: String, problems: eggo_yaml::Problems },
    #[error("{file}:{line}: {source}")]
    BadImage { file: String, line: usize, source: BadReference },
}

impl Explain for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Yaml(_) => None,
            Self::Template { .. } => {
                Some("render it first, e.g. with `helm template`, and bundle its output".to_string())
            }
            Self::BadImage { source, .. } => source.hint(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Image => "image",
            Self::Args => "args",
            Self::Env => "env",
            Self::ConfigMap => "configmap",
            Self::CustomResource => "custom-resource",
            Self::Metadata => "metadata",
            Self::Other => "field",
        })
    }
}

/// Finds the images of one addon. `file` is only for messages.
pub fn discover(file: &str, bytes: &[u8]) -> Result<Discovery, Error> {
    let documents = eggo_yaml::parse_all(file, bytes).map_err(|problems| {
        let templated = bytes.windows(2).any(|pair| pair == b"{{");
        match templated {
            true => Error::Template { file: file.to_string(), problems },
            false => Error::Yaml(problems),
        }
    })?;
    let mut found = Discovery::default();
    for document in &documents {
        objects::read(document, &mut found).map_err(|(line, source)| Error::BadImage {
            file: file.to_string(),
            line,
            source,
        })?;
    }
    found.settle();
    Ok(found)
}

impl Discovery {
    /// Forgets the images that one of `patterns` means; gives the patterns that mean none.
    pub fn exclude<'a>(&mut self, patterns: &'a [String]) -> Vec<&'a str> {
        let mut unused = Vec::new();
        for pattern in patterns {
            let mut used = false;
            for list in [&mut self.images, &mut self.possible, &mut self.foreign] {
                let before = list.len();
                list.retain(|mention| !mention.reference.is_meant_by(pattern));
                used |= list.len() < before;
            }
            if !used {
                unused.push(pattern.as_str());
            }
        }
        unused
    }

    fn settle(&mut self) {
        for list in [&mut self.images, &mut self.possible] {
            list.sort_by(|a, b| (&a.reference, a.line).cmp(&(&b.reference, b.line)));
            list.dedup_by(|later, first| {
                let same = later.reference == first.reference;
                if same {
                    first.archs.append(&mut later.archs);
                    first.archs.sort();
                    first.archs.dedup();
                }
                same
            });
        }
        let is_foreign = |mention: &mut Mention| mention.archs.is_empty();
        self.foreign = self.images.extract_if(.., is_foreign).collect();
        self.possible.retain(|possible| !possible.archs.is_empty());
        self.possible
            .retain(|possible| self.images.iter().all(|image| image.reference != possible.reference));
    }
}

#[cfg(test)]
mod tests;
