//! What an index must obey, whoever signed it: counts, sizes, paths, links, destinations.
//!
//! Checked before a bundle is sealed and again after its signature held, so that neither
//! a mistake nor a stolen key puts anything outside of its place.

use crate::index::{FORMAT, Index, Item, Kind};
use crate::{Arch, Digest, dst, entries};
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

/// An index is no longer than this.
pub const LONGEST_INDEX: u64 = 64 << 20;
/// A signature or sidecar is no longer than this.
pub const LONGEST_SIGNATURE: u64 = 16 << 10;
pub const MOST_ITEMS: usize = 200_000;
pub const LONGEST_PATH: usize = 1024;
pub const LONGEST_NAME: usize = 255;
/// One item: a TiB.
pub const LARGEST_ITEM: u64 = 1 << 40;

/// A rule that an index breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadIndex {
    #[error("the index is not valid: {0}")]
    Syntax(String),
    #[error("the bundle has format {found}, and this program knows formats up to {FORMAT}")]
    Newer { found: u32 },
    #[error("the bundle has format {found}, which never existed")]
    NoSuchFormat { found: u32 },
    #[error("the index lists {found} items; the limit is {MOST_ITEMS}")]
    TooMany { found: usize },
    #[error("the index is {found} bytes long; the limit is {LONGEST_INDEX}")]
    TooLong { found: u64 },
    #[error("the bundle's {what} `{value}` is not a plain word")]
    BadWord { what: &'static str, value: String },
    #[error("the bundle is for no arch, or for one arch twice")]
    BadArchs,
    #[error("entry `{path}`: {why}")]
    Item { path: String, why: BadItem },
    #[error("image `{image}` for {arch}: its {what} {digest} is not in the bundle")]
    ImageLacks { image: String, arch: Arch, what: &'static str, digest: Digest },
    #[error("the list of carried content does not fit the items: {digest}")]
    Carried { digest: Digest },
}

impl BadIndex {
    pub fn hint(&self) -> Option<String> {
        match self {
            BadIndex::Newer { .. } => Some("use a newer release of this program".into()),
            BadIndex::Item { why: BadItem::Dst(bad), .. } => Some(bad.hint()),
            BadIndex::TooMany { .. } | BadIndex::TooLong { .. } => Some(
                "make several bundles of it; pack folders of many small files into one archive each".into(),
            ),
            _ => None,
        }
    }
}

/// What is wrong with one item.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadItem {
    #[error("the path is absolute")]
    Absolute,
    #[error("the path contains `..`")]
    DotDot,
    #[error("the path is empty, too long, or not a plain path")]
    NotPlain,
    #[error("it is not in `{room}`")]
    WrongRoom { room: String },
    #[error("the bundle is not for {0}")]
    ForeignArch(Arch),
    #[error("it is listed twice")]
    Twice,
    #[error("it is in the wrong place of the list")]
    Unsorted,
    #[error("another entry, `{0}`, uses it as a folder")]
    UsedAsFolder(String),
    #[error("a size of {0} bytes is over the limit")]
    TooLarge(u64),
    #[error("mode {0:o} has bits beyond 777")]
    Mode(u32),
    #[error("the link `{0}` leads out of its folder")]
    Escapes(String),
    #[error("links are only allowed in `dir` items")]
    LinkOutsideDir,
    #[error("a link has no content")]
    LinkWithContent,
    #[error("the same content is listed with another size in `{0}`")]
    OtherSize(String),
    #[error("it is stored under the digest of other content")]
    Misnamed,
    #[error("the url it comes from has a user or password in it")]
    UserInUrl,
    #[error(transparent)]
    Dst(dst::BadDst),
}

/// Reads the bytes of an index: the format's number first, so that a newer one is said by name.
pub fn parse(bytes: &[u8]) -> Result<Index, BadIndex> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let syntax = |error: serde_json::Error| BadIndex::Syntax(error.to_string());
    match serde_json::from_slice::<Format>(bytes).map_err(syntax)?.format {
        FORMAT => {}
        0 => return Err(BadIndex::NoSuchFormat { found: 0 }),
        found => return Err(BadIndex::Newer { found }),
    }
    let index = serde_json::from_slice(bytes).map_err(syntax)?;
    check(&index)?;
    Ok(index)
}

/// Checks every rule.
pub fn check(index: &Index) -> Result<(), BadIndex> {
    if index.items.len() > MOST_ITEMS {
        return Err(BadIndex::TooMany { found: index.items.len() });
    }
    for (what, value) in [("name", &index.name), ("version", &index.version)] {
        if !is_word(value) {
            return Err(BadIndex::BadWord { what, value: value.escape_debug().to_string() });
        }
    }
    if index.archs.is_empty() || index.archs.iter().collect::<BTreeSet<_>>().len() != index.archs.len() {
        return Err(BadIndex::BadArchs);
    }
    for item in &index.items {
        let at = |why| BadIndex::Item { path: printable(&item.path), why };
        check_item(item).map_err(at)?;
        if !index.archs.contains(&item.arch) {
            return Err(at(BadItem::ForeignArch(item.arch)));
        }
    }
    if let Some(sbom) = index.sbom.as_ref().filter(|sbom| sbom.size > LARGEST_ITEM) {
        return Err(BadIndex::Item { path: entries::SBOM.into(), why: BadItem::TooLarge(sbom.size) });
    }
    check_neighbours(&index.items)?;
    check_images(index)?;
    check_carried(index)
}

/// Checks a path of any origin: relative, plain, and without surprises on any file system.
pub fn check_path(path: &str) -> Result<(), BadItem> {
    if path.starts_with('/') {
        return Err(BadItem::Absolute);
    }
    if path.is_empty() || path.len() > LONGEST_PATH || path.chars().any(|c| c.is_control() || c == '\\') {
        return Err(BadItem::NotPlain);
    }
    for part in path.split('/') {
        match part {
            ".." => return Err(BadItem::DotDot),
            "" | "." => return Err(BadItem::NotPlain),
            part if part.len() > LONGEST_NAME => return Err(BadItem::NotPlain),
            _ => {}
        }
    }
    Ok(())
}

/// Where a url has a user or password, with the `@` behind it. Nothing that leaves the machine
/// may have one.
pub fn user_in_url(url: &str) -> Option<Range<usize>> {
    let (scheme, rest) = url.split_once("://")?;
    // Of a file's url all that follows is its path.
    if scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let rest = rest.trim_start_matches(['/', '\\']);
    let authority = rest.split(['/', '\\', '?', '#']).next()?;
    let (start, length) = (url.len() - rest.len(), authority.rfind('@')? + 1);
    Some(start..start + length)
}

/// A path as it may be printed, whoever wrote it.
pub fn printable(path: &str) -> String {
    let shown: String = path.chars().take(200).collect();
    shown.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
}

/// What a bundle may be called, and what its version may be.
pub fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._+~:-".contains(c))
        && !text.starts_with(['.', '-'])
}

fn check_item(item: &Item) -> Result<(), BadItem> {
    check_path(&item.path)?;
    let room = entries::room(item.arch, item.kind);
    if !item.path.starts_with(&room) || item.path.len() == room.len() {
        return Err(BadItem::WrongRoom { room });
    }
    if item.size > LARGEST_ITEM {
        return Err(BadItem::TooLarge(item.size));
    }
    if let Some(mode) = item.mode
        && mode > 0o777
    {
        return Err(BadItem::Mode(mode));
    }
    if let Some(target) = &item.link {
        check_link(item, target)?;
    }
    if let Some(dst) = &item.dst {
        dst::check(dst).map_err(BadItem::Dst)?;
    }
    let blob = item.path.strip_prefix(&room).and_then(|path| path.strip_prefix("blobs/sha256/"));
    if item.kind == Kind::Image && blob.is_some_and(|name| name != item.sha256.hex()) {
        return Err(BadItem::Misnamed);
    }
    if item.source.url.as_deref().is_some_and(|url| user_in_url(url).is_some()) {
        return Err(BadItem::UserInUrl);
    }
    Ok(())
}

/// A link's target is relative and stays below `ARCH/dir/NAME/`. `..` may only stand at its
/// front: behind a name it would start from wherever another link leads.
fn check_link(item: &Item, target: &str) -> Result<(), BadItem> {
    if item.kind != Kind::Dir {
        return Err(BadItem::LinkOutsideDir);
    }
    if item.size != 0 || item.sha256 != Digest::of(b"") {
        return Err(BadItem::LinkWithContent);
    }
    // ARCH/dir/NAME/…/link: what is below NAME.
    let inside = item.path.splitn(4, '/').nth(3).ok_or(BadItem::LinkOutsideDir)?;
    let is_plain = target.len() <= LONGEST_PATH && !target.chars().any(|c| c.is_control() || c == '\\');
    if !is_plain || leads_out(inside, target) {
        return Err(BadItem::Escapes(printable(target)));
    }
    Ok(())
}

/// Whether a link leads out of the folder that its own path starts from. A target is relative, and
/// `..` may only be at its front: behind a name it would start from wherever another link leads.
pub fn leads_out(link: &str, target: &str) -> bool {
    let parts: Vec<&str> = target.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let ups = parts.iter().take_while(|part| **part == "..").count();
    target.is_empty()
        || target.starts_with('/')
        || ups > link.matches('/').count()
        || parts[ups..].contains(&"..")
}

/// Sorted, no path twice, no path the folder of another, one size per content.
fn check_neighbours(items: &[Item]) -> Result<(), BadIndex> {
    let paths: HashSet<&str> = items.iter().map(|item| item.path.as_str()).collect();
    let mut sizes: HashMap<Digest, &Item> = HashMap::new();
    let mut before: Option<&str> = None;
    for item in items {
        let at = |why| BadIndex::Item { path: printable(&item.path), why };
        match before.map(|before| before.cmp(&item.path)) {
            Some(std::cmp::Ordering::Equal) => return Err(at(BadItem::Twice)),
            Some(std::cmp::Ordering::Greater) => return Err(at(BadItem::Unsorted)),
            _ => before = Some(&item.path),
        }
        let mut folders = item.path.match_indices('/').map(|(end, _)| &item.path[..end]);
        if let Some(folder) = folders.find(|folder| paths.contains(folder)) {
            let why = BadItem::UsedAsFolder(printable(&item.path));
            return Err(BadIndex::Item { path: printable(folder), why });
        }
        let first = sizes.entry(item.sha256).or_insert(item);
        if first.size != item.size {
            return Err(at(BadItem::OtherSize(printable(&first.path))));
        }
    }
    Ok(())
}

/// Whatever an image consists of is in its arch's image room.
fn check_images(index: &Index) -> Result<(), BadIndex> {
    let here: HashSet<(Arch, Digest)> = index
        .items
        .iter()
        .filter(|item| item.kind == Kind::Image)
        .map(|item| (item.arch, item.sha256))
        .collect();
    for image in &index.images {
        let parts = [("manifest", image.manifest), ("config", image.config)];
        let layers = image.layers.iter().map(|layer| ("layer", *layer));
        for (what, digest) in parts.into_iter().chain(layers) {
            if !here.contains(&(image.arch, digest)) {
                let image_name = printable(&image.name);
                return Err(BadIndex::ImageLacks { image: image_name, arch: image.arch, what, digest });
            }
        }
    }
    Ok(())
}

/// Only a delta carries a part, and only content that some item has.
fn check_carried(index: &Index) -> Result<(), BadIndex> {
    let known: HashSet<Digest> =
        index.items.iter().filter(|item| item.link.is_none()).map(|item| item.sha256).collect();
    let mut before = None;
    for &digest in &index.carried {
        if index.parent.is_none() || !known.contains(&digest) || before >= Some(digest) {
            return Err(BadIndex::Carried { digest });
        }
        before = Some(digest);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Source;
    use crate::index::tests::item;

    fn index(items: Vec<Item>) -> Index {
        Index::new("kubernetes", "1.20.2", Arch::ALL.to_vec()).with_items(items)
    }

    fn problem(items: Vec<Item>) -> String {
        check(&index(items)).unwrap_err().to_string()
    }

    fn link(path: &str, target: &str) -> Item {
        Item { link: Some(target.to_string()), ..item(path, b"") }
    }

    #[test]
    fn paths_stay_in_their_room() {
        let at = |path: &str| Item { path: path.to_string(), ..item("amd64/bin/x", b"") };
        assert_eq!(problem(vec![at("/etc/passwd")]), "entry `/etc/passwd`: the path is absolute");
        assert_eq!(
            problem(vec![at("amd64/bin/../../x")]),
            "entry `amd64/bin/../../x`: the path contains `..`"
        );
        assert_eq!(problem(vec![at("arm64/bin/x")]), "entry `arm64/bin/x`: it is not in `amd64/bin/`");
        for path in ["", "amd64/bin/", "amd64//bin/x", "amd64/bin/./x", "amd64/bin/a\nb", "amd64/bin/a\\b"] {
            assert!(check(&index(vec![at(path)])).is_err(), "{path:?}");
        }
        assert_eq!(check(&index(vec![at("amd64/bin/ünïcode")])), Ok(()));
    }

    #[test]
    fn order_and_overlap() {
        let a = item("amd64/file/a", b"");
        assert_eq!(problem(vec![a.clone(), a.clone()]), "entry `amd64/file/a`: it is listed twice");
        let below = item("amd64/file/a/b", b"");
        assert!(problem(vec![a.clone(), below]).contains("uses it as a folder"));
        assert!(problem(vec![item("amd64/file/b", b""), a.clone()]).contains("wrong place"));
        let lie = Item { size: 9, ..item("amd64/file/b", b"") };
        assert!(problem(vec![a, lie]).contains("another size in `amd64/file/a`"));
    }

    #[test]
    fn no_bill_of_materials_is_endless() {
        let sbom = crate::index::Sbom { size: u64::MAX, sha256: Digest::of(b"") };
        let index = Index { sbom: Some(sbom), ..index(Vec::new()) };
        assert!(check(&index).unwrap_err().to_string().starts_with("entry `sbom.spdx.json`"));
    }

    #[test]
    fn links_stay_in_their_folder() {
        for target in ["b", "../b", "c/d", "./b", ".."] {
            assert_eq!(check(&index(vec![link("amd64/dir/cni/a/l", target)])), Ok(()), "{target}");
        }
        for target in ["/etc", "../../b", "b/../../..", "c/..", "", "../../../../../etc/passwd"] {
            assert!(problem(vec![link("amd64/dir/cni/a/l", target)]).contains("leads out"), "{target}");
        }
        assert!(problem(vec![link("amd64/dir/l", "b")]).contains("only allowed in `dir`"));
        assert!(problem(vec![link("amd64/file/l", "b")]).contains("only allowed in `dir`"));
    }

    #[test]
    fn modes_destinations_and_blobs() {
        assert!(problem(vec![Item { mode: Some(0o4755), ..item("amd64/bin/a", b"") }]).contains("4755"));
        assert!(
            problem(vec![Item { dst: Some("/etc".into()), ..item("amd64/bin/a", b"") }])
                .contains("whitelist")
        );
        let blob = format!("amd64/image/blobs/sha256/{}", Digest::of(b"y"));
        assert!(problem(vec![item(&blob, b"x")]).contains("digest of other content"));
    }

    #[test]
    fn no_url_has_a_user_or_password() {
        let from = |url: &str| {
            let source = Source { url: Some(url.to_string()), ..Source::default() };
            check(&index(vec![Item { source, ..item("amd64/bin/a", b"") }]))
        };
        for url in ["https://h/a@b", "https://h?q=a@b", "file:///a@b/c", "a@b", "http://h:80/x", ""] {
            assert_eq!(from(url), Ok(()), "{url}");
        }
        for url in ["https://u:p@h/x", "https://u@h", "http://u:p@q@h/x", "HTTPS:///u@h", "http://@h/"] {
            let problem = from(url).unwrap_err().to_string();
            assert_eq!(problem, "entry `amd64/bin/a`: the url it comes from has a user or password in it");
        }
        assert_eq!(user_in_url("http://u:p@q@h/x@y"), Some(7..13));
    }

    #[test]
    fn a_newer_format_is_named() {
        let error = parse(br#"{"format": 2, "unknown": {}}"#).unwrap_err();
        assert_eq!(error, BadIndex::Newer { found: 2 });
        assert!(error.to_string().contains("format 2"));
        assert!(matches!(parse(b"{"), Err(BadIndex::Syntax(_))));
    }
}
