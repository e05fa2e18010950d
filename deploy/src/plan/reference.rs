//! Image references as people shorten them.

/// The full form that a bundle's index uses: `nginx` is `docker.io/library/nginx:latest`.
pub fn full(reference: &str) -> String {
    let (name, digest) = match reference.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (reference, None),
    };
    let (repository, tag) = match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (name, None),
    };
    let (host, path) = match repository.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path),
        _ => ("docker.io", repository),
    };
    let host = if host == "index.docker.io" { "docker.io" } else { host };
    let library = if host == "docker.io" && !path.contains('/') { "library/" } else { "" };
    match (tag, digest) {
        (Some(tag), Some(digest)) => format!("{host}/{library}{path}:{tag}@{digest}"),
        (None, Some(digest)) => format!("{host}/{library}{path}@{digest}"),
        (tag, None) => format!("{host}/{library}{path}:{}", tag.unwrap_or("latest")),
    }
}

/// `pause` of `k8s.gcr.io/pause:3.2`.
pub fn last_word(reference: &str) -> &str {
    let name = reference.split('@').next().unwrap_or(reference);
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split(':').next().unwrap_or(last)
}

pub fn tag(reference: &str) -> Option<&str> {
    let name = reference.split('@').next()?;
    name.rsplit('/').next()?.split_once(':').map(|(_, tag)| tag)
}

/// The word before the endings of an archive: `images` of `images.tar.gz`. `None` if it is no archive.
pub fn archive_stem(name: &str) -> Option<&str> {
    [".tar.gz", ".tgz", ".tar"].iter().find_map(|ending| name.strip_suffix(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_references_become_full() {
        for (short, long) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.25", "docker.io/library/nginx:1.25"),
            ("calico/node:v3", "docker.io/calico/node:v3"),
            ("k8s.gcr.io/pause:3.2", "k8s.gcr.io/pause:3.2"),
            ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
            ("index.docker.io/a/b:1", "docker.io/a/b:1"),
            ("a/b@sha256:0", "docker.io/a/b@sha256:0"),
        ] {
            assert_eq!(full(short), long);
        }
        assert_eq!(last_word("localhost:5000/a/pause:3.2@sha256:0"), "pause");
        assert_eq!(tag("localhost:5000/a/pause:3.2"), Some("3.2"));
        assert_eq!(tag("localhost:5000/a/pause"), None);
        assert_eq!(archive_stem("images.tar.gz"), Some("images"));
    }
}
