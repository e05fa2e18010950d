//! Users and passwords in the urls of repositories: no lock records them, and a fetch needs them.

use super::deb::system::System;
use super::rpm;
use crate::http::recorded;
use crate::manifest::{Manifest, RepoSource};
use eggo_bundles::Arch;
use eggo_bundles::rules::user_in_url;

/// The repositories that have one, each with `/` at its end.
pub struct Users(Vec<String>);

impl Users {
    /// What the manifest says now. Sources that cannot be read have none: the fetch tells.
    pub fn of(manifest: &Manifest) -> Self {
        let mut roots: Vec<String> = Vec::new();
        for repo in &manifest.repos {
            match &repo.source {
                RepoSource::Deb { urls, .. } => roots.extend(urls.iter().cloned()),
                RepoSource::DebSystem => {
                    let sources = System::default().sources().unwrap_or_default();
                    roots.extend(sources.into_iter().flat_map(|source| source.urls));
                }
                RepoSource::Rpm { .. } | RepoSource::RpmFile { .. } => {}
            }
        }
        for arch in Arch::ALL {
            roots.extend(rpm::own_roots(manifest, arch));
        }
        let with_user = roots.into_iter().filter(|root| user_in_url(root).is_some());
        Self(with_user.map(|root| format!("{}/", root.trim_end_matches('/'))).collect())
    }

    /// The url that a lock records, as it is fetched.
    pub fn add_to(&self, url: &str) -> String {
        let add = |root: &String| Some(format!("{root}{}", url.strip_prefix(&recorded(root))?));
        self.0.iter().find_map(add).unwrap_or_else(|| url.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_added_below_its_repository_only() {
        let yaml = "name: a\nversion: 1\n\
            repos:\n\
            - {name: d, type: deb, url: 'http://u:p@h/debian', suites: [./]}\n\
            - {name: r, type: rpm, url: 'https://v@h/$basearch/os', gpgkey: k}\n";
        let users = Users::of(&Manifest::parse("m.yaml".as_ref(), yaml.as_bytes()).unwrap());
        assert_eq!(users.add_to("http://h/debian/pool/x.deb"), "http://u:p@h/debian/pool/x.deb");
        assert_eq!(users.add_to("https://h/aarch64/os/x.rpm"), "https://v@h/aarch64/os/x.rpm");
        for other in ["http://h/debian-security/x", "https://h/debian/x", "http://i/debian/x"] {
            assert_eq!(users.add_to(other), other);
        }
    }
}
