//! References inside of text: which words of a value are probably images.

use crate::images::Reference;

/// How much the surroundings say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// The key, flag or variable speaks of an image: `nginx:1` suffices.
    NamedImage,
    /// Nothing does: only `host.name/path:tag` or a digest is taken for one.
    Anywhere,
}

/// Stands for a template while words are looked for.
const HOLE: char = '\u{1}';

pub(super) fn has_template(text: &str) -> bool {
    with_holes(text).contains(HOLE)
}

/// A value that is one reference and nothing else, with a tag, digest or path to show for it.
pub(super) fn whole(text: &str) -> Option<Reference> {
    let text = text.trim();
    let word = text.contains([':', '@', '/']) && !has_template(text);
    word.then(|| text.parse().ok()).flatten()
}

/// The references in `text`, each with the number of its line, from 0.
pub(super) fn references(text: &str, trust: Trust) -> Vec<(usize, Reference)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = with_holes(without_comment(line));
        for (start, word) in words(&line) {
            let (before, after) = (&line[..start], &line[start + word.len()..]);
            let touches_hole = before.trim_end_matches(belongs).ends_with(HOLE) || after.starts_with(HOLE);
            // `--some-image=…` and `"image": …` speak for what follows them.
            let named = trust == Trust::NamedImage || before.to_ascii_lowercase().contains("image");
            if !touches_hole && let Some(reference) = reference(word, named) {
                found.push((number, reference));
            }
        }
    }
    found
}

fn reference(word: &str, named: bool) -> Option<Reference> {
    let word = word.trim_end_matches(['.', ':', '/', '-', ',']);
    if word.contains("://") {
        return None;
    }
    let reference: Reference = word.parse().ok()?;
    let pinned =
        reference.digest().is_some() || word.rsplit('/').next().is_some_and(|last| last.contains(':'));
    let first = word.split('/').next().unwrap_or_default();
    let has_host = word.contains('/') && reference.registry() == first.trim_start_matches("index.");
    let host_is_name = has_host && !is_address(first) && first.chars().any(|c| c.is_ascii_alphabetic());
    let likely = match named {
        true => pinned && !is_number_pair(word) || host_is_name,
        false => pinned && host_is_name,
    };
    likely.then_some(reference)
}

/// `10.0.0.1` or `10.0.0.1:80` is seldom a registry, often a network.
fn is_address(host: &str) -> bool {
    let host = host.split(':').next().unwrap_or_default();
    host.parse::<std::net::Ipv4Addr>().is_ok() && !host.is_empty()
}

/// `8080:80`, `12:30`: a port mapping or a time.
fn is_number_pair(word: &str) -> bool {
    word.split(':').all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Text without its YAML or shell comment.
fn without_comment(line: &str) -> &str {
    let trimmed = line.trim_start();
    if trimmed.starts_with('#') || trimmed.starts_with("//") {
        return "";
    }
    match line.find(" #") {
        Some(comment) => &line[..comment],
        None => line,
    }
}

/// Every template of the text replaced by [`HOLE`]: `{{…}}`, `${…}`, `$(…)`, `$NAME`, `<…>`, `%s`.
fn with_holes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let closed = [("{{", "}}"), ("${", "}"), ("$(", ")"), ("<", ">")].iter().find_map(|(open, close)| {
            let inside = rest.strip_prefix(open)?;
            inside.find(close).map(|end| &inside[end + close.len()..])
        });
        if let Some(after) = closed {
            out.push(HOLE);
            rest = after;
        } else if c == '$' && rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            out.push(HOLE);
            rest = rest[1..].trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        } else if let Some(after) = rest.strip_prefix("%s") {
            out.push(HOLE);
            rest = after;
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

fn belongs(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-/:@".contains(c)
}

/// The runs of characters that references are made of, with their offsets.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + line[at..].find(|c: char| c.is_ascii_alphanumeric())?;
        let length = line[start..].find(|c: char| !belongs(c)).unwrap_or(line.len() - start);
        at = start + length;
        Some((start, &line[start..at]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str, trust: Trust) -> Vec<String> {
        references(text, trust).into_iter().map(|(_, reference)| reference.to_string()).collect()
    }

    #[test]
    fn only_what_looks_like_an_image_counts_without_a_name() {
        for (text, expected) in [
            ("--reloader=quay.io/p/reloader:v0.68.0", vec!["quay.io/p/reloader:v0.68.0"]),
            ("registry:5000/a/b:1", vec!["registry:5000/a/b:1"]),
            ("localhost/a:1", vec!["localhost/a:1"]),
            ("a quay.io/p/x:v1, and quay.io/p/y:v2.", vec!["quay.io/p/x:v1", "quay.io/p/y:v2"]),
            ("nginx:1.25", vec![]),
            ("calico/node:v3", vec![]),
            ("10.244.0.0/16", vec![]),
            ("10.0.0.1:80/x:1", vec![]),
            ("https://quay.io/p/x:v1", vec![]),
            ("k8s.io/ingress-nginx", vec![]),
            ("rbac.authorization.k8s.io/v1", vec![]),
            ("$(POD_NAMESPACE)/tcp-services", vec![]),
            ("${REGISTRY}/quay.io/p/x:v1", vec![]),
            ("quay.io/p/x:{{ .Version }}", vec![]),
            ("quay.io/p/x:$TAG", vec![]),
            ("system:serviceaccount:kube-system/x:y", vec![]),
            ("# quay.io/p/x:v1", vec![]),
            ("run # quay.io/p/x:v1", vec![]),
        ] {
            assert_eq!(found(text, Trust::Anywhere), expected, "{text}");
        }
    }

    #[test]
    fn a_name_that_speaks_of_images_lowers_the_bar() {
        for (text, expected) in [
            ("nginx:1.25", vec!["docker.io/library/nginx:1.25"]),
            ("calico/node:v3", vec!["docker.io/calico/node:v3"]),
            ("quay.io/p/x", vec!["quay.io/p/x:latest"]),
            ("IfNotPresent", vec![]),
            ("true", vec![]),
            ("8080:80", vec![]),
        ] {
            assert_eq!(found(text, Trust::NamedImage), expected, "{text}");
        }
        let flag = found("--acme-http01-solver-image=jetstack/solver:v1", Trust::Anywhere);
        assert_eq!(flag, ["docker.io/jetstack/solver:v1"]);
        let lines = references("a: b\n\"image\": \"busybox:1\"\n", Trust::Anywhere);
        assert_eq!(lines[0].0, 1);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC{0,60}") {
            references(&text, Trust::NamedImage);
            has_template(&text);
            whole(&text);
        }
    }
}
