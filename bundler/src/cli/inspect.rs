use super::open::{TrustArgs, is_pipe, with_bundle};
use super::output::{self, Format, FormatArgs};
use crate::contents;
use eggo_bundles::{Arch, Digest, Index, Item, Kind, PublicKey, Role};
use eggo_terminal::{Report, Size, Table, Watch, printable};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Show what is inside of a bundle
///
/// Reads no more than the index, and says whether a trusted key signed it; `verify` reads all.
/// `-` reads from standard input. Of a delta it also shows what the delta carries itself.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle inspect k8s.tar.gz
  eggo-bundle inspect k8s.tar.gz --tree
  eggo-bundle inspect k8s.tar.gz --format json | jq '.items[].name'")]
pub(super) struct Args {
    /// The bundle; of a split one, the first part; `-` for standard input.
    bundle: PathBuf,
    /// Every file, as a tree.
    #[arg(long, conflicts_with_all = ["format", "json"])]
    tree: bool,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    trust: TrustArgs,
}

pub(super) fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    if is_pipe(&args.bundle) {
        let (pipe, key) = args.trust.opened_pipe(watch)?;
        return show(args, &Seen::of(pipe.index(), pipe.identity(), key.as_ref(), None));
    }
    let opened = args.trust.opened(&args.bundle, watch)?;
    with_bundle!(&opened, bundle => {
        show(args, &Seen::of(bundle.index(), bundle.identity(), opened.key(), Some(bundle.size())))
    })
}

/// What is known of a bundle without reading its content.
struct Seen<'a> {
    index: &'a Index,
    identity: Digest,
    /// The trusted key that signed it.
    key: Option<String>,
    /// That of the file, if it is one.
    size: Option<u64>,
}

impl<'a> Seen<'a> {
    fn of(index: &'a Index, identity: Digest, key: Option<&PublicKey>, size: Option<u64>) -> Self {
        Self { index, identity, key: key.map(PublicKey::id), size }
    }
}

fn show(args: &Args, seen: &Seen<'_>) -> Result<(), Report> {
    match args.format.get() {
        Format::Json => output::json(&Listing::of(seen)),
        Format::Text if args.tree => output::print(&tree(seen.index)),
        Format::Text => output::print(&summary(seen)),
    }
}

/// What scripts rely on: every key is always there.
#[derive(Serialize)]
struct Listing<'a> {
    format: u32,
    name: &'a str,
    version: &'a str,
    archs: &'a [Arch],
    parent: Option<Digest>,
    verified: bool,
    key: Option<&'a str>,
    items: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    path: &'a str,
    arch: Arch,
    kind: Kind,
    name: &'a str,
    version: &'a str,
    size: u64,
    sha256: Digest,
    roles: &'a [Role],
    dst: Option<&'a str>,
    /// Whether it is in this file, and not only in a delta's parent.
    carried: bool,
}

impl<'a> Listing<'a> {
    fn of(seen: &'a Seen<'_>) -> Self {
        let index = seen.index;
        let line = |item: &'a Item| Line {
            path: &item.path,
            arch: item.arch,
            kind: item.kind,
            name: &item.name,
            version: &item.version,
            size: item.size,
            sha256: item.sha256,
            roles: &item.roles,
            dst: item.dst.as_deref(),
            carried: index.carries(item),
        };
        Listing {
            format: index.format,
            name: &index.name,
            version: &index.version,
            archs: &index.archs,
            parent: index.parent,
            verified: seen.key.is_some(),
            key: seen.key.as_deref(),
            items: index.items.iter().map(line).collect(),
        }
    }
}

fn summary(seen: &Seen<'_>) -> String {
    let Seen { index, identity, key, size } = seen;
    let mut text = format!("{} {}", index.name, index.version);
    let archs: Vec<&str> = index.archs.iter().map(|arch| arch.as_str()).collect();
    text.push_str(&format!(" for {}", archs.join(" and ")));
    if let Some(size) = size {
        text.push_str(&format!(", {} in the file", Size(*size)));
    }
    text.push_str(&match key {
        Some(key) => format!("\nverified, signed by key {key}\n"),
        None => "\nnot verified: no trusted key signed it\n".to_string(),
    });
    text.push_str(&format!("index  {identity}\n"));
    if let (Some(parent), Some(share)) = (index.parent, contents::carried(index)) {
        text.push_str(&format!("parent {parent}\nthis is a delta: it {share}\n"));
    }
    text.push('\n');
    text.push_str(&table(index).to_string());
    let (all, once) = contents::sizes(index);
    text.push_str(&format!("\n{} in all, {} after what is shared is counted once\n", Size(all), Size(once)));

    let images: BTreeSet<&str> = index.images.iter().map(|image| image.name.as_str()).collect();
    if !images.is_empty() {
        text.push_str("\nimages\n");
        images.iter().for_each(|image| text.push_str(&format!("  {}\n", printable(image))));
    }
    text
}

/// Of a delta, with what it carries itself.
fn table(index: &Index) -> Table {
    let mut header = vec!["ARCH", "KIND", "THINGS", "FILES", "SIZE", "SHARED"];
    if index.parent.is_some() {
        header.push("CARRIED");
    }
    let mut table = Table::new(header).right(&[2, 3, 4, 5, 6]);
    let some = |size: u64| if size == 0 { "-".to_string() } else { Size(size).to_string() };
    for row in contents::rows(index) {
        let mut cells = vec![
            row.arch.to_string(),
            row.kind.to_string(),
            row.things.to_string(),
            row.files.to_string(),
            Size(row.size).to_string(),
            some(row.shared),
        ];
        if index.parent.is_some() {
            cells.push(some(row.carried));
        }
        table.row(cells);
    }
    table
}

fn tree(index: &Index) -> String {
    let mut text = String::new();
    let mut open: Vec<&str> = Vec::new();
    for item in &index.items {
        let parts: Vec<&str> = item.path.split('/').collect();
        let (file, folders) = parts.split_last().map_or(("", &[][..]), |(file, folders)| (*file, folders));
        let same = open.iter().zip(folders).take_while(|(a, b)| a == b).count();
        open.truncate(same);
        for folder in &folders[same..] {
            text.push_str(&format!("{:indent$}{}/\n", "", printable(folder), indent = 2 * open.len()));
            open.push(folder);
        }
        let what = match &item.link {
            Some(target) => format!("{file} -> {target}"),
            None if index.carries(item) => format!("{file}  {}", Size(item.size)),
            None => format!("{file}  {}  (in the parent)", Size(item.size)),
        };
        text.push_str(&format!("{:indent$}{}\n", "", printable(&what), indent = 2 * open.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use eggo_bundles::Image;

    fn item(path: &str) -> Item {
        Item { path: path.to_string(), ..Item::new(Arch::Amd64, Kind::Dir, "x", Digest::of(b"abc"), 3) }
    }

    #[test]
    fn a_tree_opens_each_folder_once() {
        let paths = ["amd64/bin/a", "amd64/dir/x/b", "amd64/dir/x/c", "arm64/bin/a"];
        let index = Index::new("n", "1", Arch::ALL.to_vec()).with_items(paths.map(item).to_vec());
        assert_eq!(
            tree(&index),
            "amd64/\n  bin/\n    a  3 B\n  dir/\n    x/\n      b  3 B\n      c  3 B\narm64/\n  bin/\n    a  3 B\n"
        );
    }

    #[test]
    fn foreign_names_do_not_reach_the_terminal_as_they_are() {
        let digest = Digest::of(b"");
        let mut index =
            Index::new("n", "1", Arch::ALL.to_vec()).with_items(vec![item("amd64/dir/\u{202e}x")]);
        index.images.push(Image {
            name: "x\u{1b}[2J\ny".into(),
            arch: Arch::Amd64,
            manifest: digest,
            media_type: String::new(),
            config: digest,
            layers: Vec::new(),
            roles: Vec::new(),
        });
        let shown = summary(&Seen::of(&index, digest, None, None));
        assert!(shown.contains("  x\\u{1b}[2J\\ny\n"), "{shown}");
        assert!(tree(&index).contains("\\u{202e}x"), "{}", tree(&index));
    }

    #[test]
    fn json_always_has_every_key() {
        let index = Index::new("n", "1", Arch::ALL.to_vec()).with_items(vec![item("amd64/dir/x/b")]);
        let seen = Seen::of(&index, Digest::of(b""), None, None);
        let value = serde_json::to_value(Listing::of(&seen)).unwrap();
        let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["format", "name", "version", "archs", "parent", "verified", "key", "items"]);
        let keys: Vec<&str> = value["items"][0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            ["path", "arch", "kind", "name", "version", "size", "sha256", "roles", "dst", "carried"]
        );
    }
}
