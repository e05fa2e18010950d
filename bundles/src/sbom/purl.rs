//! Package URLs: names that vulnerability databases know.

use crate::index::{Image, Item, Kind};

/// The purl of an item; none for what no database lists.
pub(super) fn of_item(item: &Item) -> Option<String> {
    let version = escape(&item.version);
    match item.kind {
        Kind::Pkg if item.path.ends_with(".deb") => {
            let arch = if item.path.ends_with("_all.deb") { "all" } else { item.arch.as_str() };
            Some(format!("pkg:deb/debian/{}@{version}?arch={arch}", escape(&item.name)))
        }
        Kind::Pkg if item.path.ends_with(".rpm") => {
            let arch = if item.path.ends_with(".noarch.rpm") { "noarch" } else { item.arch.machine() };
            let (epoch, version) = match item.version.split_once(':') {
                Some((epoch, version)) => (format!("&epoch={}", escape(epoch)), escape(version)),
                None => (String::new(), version),
            };
            Some(format!("pkg:rpm/{}@{version}?arch={arch}{epoch}", escape(&item.name)))
        }
        Kind::Bin if item.version.is_empty() => Some(format!("pkg:generic/{}", escape(&item.name))),
        Kind::Bin => Some(format!("pkg:generic/{}@{version}", escape(&item.name))),
        _ => None,
    }
}

/// The purl of an image, by the digest of its manifest.
pub(super) fn of_image(image: &Image) -> String {
    let (repository, tag) = split_reference(&image.name);
    let name = repository.rsplit('/').next().unwrap_or(repository).to_lowercase();
    let tag = tag.map(|tag| format!("&tag={}", escape(tag))).unwrap_or_default();
    format!(
        "pkg:oci/{}@sha256%3A{}?arch={}&repository_url={}{tag}",
        escape(&name),
        image.manifest,
        image.arch,
        escape(repository)
    )
}

/// `host:5000/a/b:tag@digest` → `host:5000/a/b` and `tag`.
pub(super) fn split_reference(name: &str) -> (&str, Option<&str>) {
    let name = name.split('@').next().unwrap_or(name);
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (name, None),
    }
}

fn escape(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b".-_~/".contains(&byte);
    text.bytes()
        .map(|byte| if keep(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests::item;

    #[test]
    fn names_as_databases_know_them() {
        let named = |path: &str, name: &str, version: &str| {
            of_item(&Item { name: name.into(), version: version.into(), ..item(path, b"") })
        };
        assert_eq!(
            named("arm64/pkg/x.deb", "libstdc++6", "12.2.0-14").as_deref(),
            Some("pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=arm64")
        );
        assert_eq!(
            named("amd64/pkg/x.rpm", "bind", "32:9.11-1").as_deref(),
            Some("pkg:rpm/bind@9.11-1?arch=x86_64&epoch=32")
        );
        assert_eq!(
            named("arm64/pkg/tzdata_2024a-0_all.deb", "tzdata", "2024a-0").as_deref(),
            Some("pkg:deb/debian/tzdata@2024a-0?arch=all")
        );
        assert_eq!(
            named("arm64/pkg/tzdata-2024a-1.noarch.rpm", "tzdata", "2024a-1").as_deref(),
            Some("pkg:rpm/tzdata@2024a-1?arch=noarch")
        );
        assert_eq!(
            named("amd64/bin/kubelet", "kubelet", "1.20.2").as_deref(),
            Some("pkg:generic/kubelet@1.20.2")
        );
        assert_eq!(named("amd64/file/x", "x", ""), None);
        assert_eq!(split_reference("host:5000/a/b"), ("host:5000/a/b", None));
        assert_eq!(split_reference("host:5000/a/b:v1@sha256:00"), ("host:5000/a/b", Some("v1")));
    }
}
