//! Image references as people write them → the one full form that everything else uses.
//!
//! The rules are docker's (`distribution/reference`): what is before the first `/` is a
//! registry only if it has a `.` or a `:`, is `localhost`, or has capitals; without one it is
//! `docker.io`, where a name without a `/` belongs to `library/`; no tag and no digest means
//! `latest`.

use crate::packages::pattern::matches;
use eggo_bundles::Digest;
use eggo_terminal::Explain;
use std::fmt;
use std::str::FromStr;

pub(super) const DOCKER_HUB: &str = "docker.io";
const LONGEST_NAME: usize = 255;
const LONGEST_TAG: usize = 128;

/// A full reference: `registry/repository[:tag][@sha256:…]`; at least one of the two is there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{reference}` is not an image reference: {problem}")]
pub struct BadReference {
    pub reference: String,
    pub problem: String,
    pub hint: Option<String>,
}

impl Explain for BadReference {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

impl Reference {
    /// The registry as written in names: `docker.io`, `host:5000`.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path on that registry: `library/nginx`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Whether `pattern`, with `*` for any text, is about this image, in its full form or in docker's short one.
    pub fn is_meant_by(&self, pattern: &str) -> bool {
        let full = self.to_string();
        let short = full.strip_prefix("docker.io/").unwrap_or(&full);
        let shortest = short.strip_prefix("library/").unwrap_or(short);
        [full.as_str(), short, shortest].iter().any(|name| matches(pattern, name))
    }

    /// What to ask the registry for: the digest where one is given, for it cannot lie.
    pub fn asked(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.oci(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => unreachable!("parse gives a tag where there is no digest"),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{}", digest.oci())?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = BadReference;

    fn from_str(text: &str) -> Result<Self, BadReference> {
        parse(text).map_err(|Bad { problem, hint }| BadReference {
            reference: text.to_string(),
            problem,
            hint,
        })
    }
}

struct Bad {
    problem: String,
    hint: Option<String>,
}

fn bad<T>(problem: impl Into<String>) -> Result<T, Bad> {
    Err(Bad { problem: problem.into(), hint: None })
}

fn bad_hinted<T>(problem: impl Into<String>, hint: impl Into<String>) -> Result<T, Bad> {
    Err(Bad { problem: problem.into(), hint: Some(hint.into()) })
}

fn parse(text: &str) -> Result<Reference, Bad> {
    if text.is_empty() {
        return bad("it is empty");
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        return bad_hinted(format!("it starts with `{scheme}://`"), format!("write `{rest}`"));
    }
    if let Some(odd) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        return bad_hinted(format!("it contains {odd:?}"), format!("write `{}`", squeezed(text)));
    }
    let (name, digest) = match text.split_once('@') {
        Some((name, digest)) => (name, Some(parse_digest(digest)?)),
        None => (text, None),
    };
    let (registry, path) = split_registry(name);
    let (repository, tag) = match path.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(parse_tag(tag)?)),
        _ => (path, None),
    };
    check_registry(&registry)?;
    check_repository(repository)?;
    let repository = if registry == DOCKER_HUB && !repository.contains('/') {
        format!("library/{repository}")
    } else {
        repository.to_string()
    };
    if registry.len() + 1 + repository.len() > LONGEST_NAME {
        return bad(format!("the name is longer than {LONGEST_NAME} characters"));
    }
    if tag.is_none() && digest.is_none() && is_identifier(name) {
        return bad_hinted("it looks like an image id", "write the image's name");
    }
    let tag = tag.or_else(|| digest.is_none().then(|| "latest".to_string()));
    Ok(Reference { registry, repository, tag, digest })
}

fn split_registry(name: &str) -> (String, &str) {
    match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => {
            let first = if first == "index.docker.io" { DOCKER_HUB } else { first };
            (first.to_string(), rest)
        }
        _ => (DOCKER_HUB.to_string(), name),
    }
}

fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.chars().any(|c| c.is_ascii_uppercase())
}

fn check_registry(registry: &str) -> Result<(), Bad> {
    let (host, port) = match registry.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, "")) => (address, None),
            Some((address, port)) => (address, port.strip_prefix(':').or(Some(""))),
            None => return bad(format!("`{registry}` lacks a `]`")),
        },
        None => match registry.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (registry, None),
        },
    };
    let is_address = registry.starts_with('[') && host.parse::<std::net::Ipv6Addr>().is_ok();
    let is_label = |label: &str| {
        label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && label.starts_with(|c: char| c.is_ascii_alphanumeric())
            && label.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    if !is_address && !host.split('.').all(is_label) {
        return bad(format!("`{registry}` is not a host name"));
    }
    match port {
        Some(port) if port.parse::<u16>().is_err() => bad(format!("`{port}` is not a port")),
        _ => Ok(()),
    }
}

/// `[a-z0-9]+` parts, joined by one `.`, one or two `_`, or any number of `-`.
fn check_repository(repository: &str) -> Result<(), Bad> {
    if repository.chars().any(|c| c.is_ascii_uppercase()) {
        let hint = format!("write `{}`", repository.to_ascii_lowercase());
        return bad_hinted("a repository's name must be lowercase", hint);
    }
    for component in repository.split('/') {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let whole = component.starts_with(plain) && component.ends_with(plain);
        let separators = component.split(plain).filter(|part| !part.is_empty());
        let joined = |part: &str| matches!(part, "." | "_" | "__") || part.bytes().all(|byte| byte == b'-');
        if !whole || !separators.into_iter().all(joined) {
            return bad(format!("`{component}` is not a part of a repository's name"));
        }
    }
    Ok(())
}

fn parse_tag(tag: &str) -> Result<String, Bad> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if tag.is_empty() {
        return bad_hinted("the tag after `:` is empty", "name a tag, or leave out the `:`");
    }
    if !tag.starts_with(word) || !tag.chars().all(|c| word(c) || c == '.' || c == '-') {
        return bad(format!("`{tag}` is not a tag"));
    }
    if tag.len() > LONGEST_TAG {
        return bad(format!("the tag is longer than {LONGEST_TAG} characters"));
    }
    Ok(tag.to_string())
}

fn parse_digest(text: &str) -> Result<Digest, Bad> {
    let Some(digits) = text.strip_prefix("sha256:") else {
        let what = text.split(':').next().unwrap_or(text);
        return bad_hinted(format!("`{what}` is not a digest this program knows"), "use `@sha256:…`");
    };
    let lower = !digits.contains(|c: char| c.is_ascii_uppercase());
    match digits.parse() {
        Ok(digest) if lower => Ok(digest),
        _ => bad(format!("the digest has {} characters, expected 64 lowercase hex digits", digits.len())),
    }
}

fn is_identifier(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit())
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEX: &str = "594ceea76b01c592858f803f9ff4d2cb40542cae2060410b2c95f75907d659e1";

    #[test]
    fn normalises_as_docker_does() {
        let digest = format!("@sha256:{HEX}");
        for (written, full) in [
            ("nginx", "docker.io/library/nginx:latest".to_string()),
            ("nginx:1.25", "docker.io/library/nginx:1.25".into()),
            ("calico/node:v3.19.1", "docker.io/calico/node:v3.19.1".into()),
            ("docker.io/nginx", "docker.io/library/nginx:latest".into()),
            ("index.docker.io/library/nginx", "docker.io/library/nginx:latest".into()),
            ("docker.io/library/nginx:1", "docker.io/library/nginx:1".into()),
            ("localhost/x", "localhost/x:latest".into()),
            ("localhost:5000/x", "localhost:5000/x:latest".into()),
            ("local/x", "docker.io/local/x:latest".into()),
            ("host:5000/a/b:T-1_x", "host:5000/a/b:T-1_x".into()),
            ("[::1]:5000/a", "[::1]:5000/a:latest".into()),
            ("k8s.gcr.io/pause:3.2", "k8s.gcr.io/pause:3.2".into()),
            ("quay.io/a__b/c---d.e:1", "quay.io/a__b/c---d.e:1".into()),
            ("localhost:5000", "docker.io/library/localhost:5000".into()),
            (&format!("nginx{digest}"), format!("docker.io/library/nginx{digest}")),
            (&format!("host:5000/a/b{digest}"), format!("host:5000/a/b{digest}")),
            (&format!("r.k8s.io/c:v1{digest}"), format!("r.k8s.io/c:v1{digest}")),
        ] {
            let reference: Reference = written.parse().unwrap_or_else(|e| panic!("{written}: {e}"));
            assert_eq!(reference.to_string(), full, "{written}");
        }
    }

    #[test]
    fn a_digest_wins_over_a_tag_when_asking() {
        let reference: Reference = format!("nginx:1@sha256:{HEX}").parse().unwrap();
        assert_eq!(reference.asked(), format!("sha256:{HEX}"));
        assert_eq!("nginx:1".parse::<Reference>().unwrap().asked(), "1");
    }

    #[test]
    fn refuses_with_a_reason_and_a_hint() {
        for (written, problem, hint) in [
            ("", "it is empty", None),
            ("docker://nginx", "it starts with `docker://`", Some("write `nginx`")),
            ("nginx: 1", "it contains ' '", Some("write `nginx:1`")),
            ("Nginx", "a repository's name must be lowercase", Some("write `nginx`")),
            ("host.io/Team/App", "a repository's name must be lowercase", Some("write `team/app`")),
            ("nginx:", "the tag after `:` is empty", Some("name a tag, or leave out the `:`")),
            ("nginx:-1", "`-1` is not a tag", None),
            ("a//b", "`` is not a part of a repository's name", None),
            ("a/-b", "`-b` is not a part of a repository's name", None),
            ("a/b..c", "`b..c` is not a part of a repository's name", None),
            ("a/b___c", "`b___c` is not a part of a repository's name", None),
            ("host:port/x", "`port` is not a port", None),
            ("a.io/x@sha512:00", "`sha512` is not a digest this program knows", Some("use `@sha256:…`")),
            ("x@sha256:00", "the digest has 2 characters, expected 64 lowercase hex digits", None),
            ("-a.io/x", "`-a.io` is not a host name", None),
            (HEX, "it looks like an image id", Some("write the image's name")),
        ] {
            let error = written.parse::<Reference>().unwrap_err();
            assert_eq!((error.problem.as_str(), error.hint.as_deref()), (problem, hint), "{written}");
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_the_full_form_is_stable(text in "[a-zA-Z0-9:/@._ \\[\\]-]{0,40}") {
            if let Ok(reference) = text.parse::<Reference>() {
                let full = reference.to_string();
                prop_assert_eq!(full.parse::<Reference>().unwrap().to_string(), full);
            }
        }
    }
}
