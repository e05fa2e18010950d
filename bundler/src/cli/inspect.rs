use super::open::{TrustArgs, is_pipe, with_bundle};
use super::output::{self, Format};
use crate::contents;
use eggo_bundles::{Arch, Digest, Index, Item, Kind, Role};
use eggo_terminal::{Report, Size, Table, Watch};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Show what is inside of a bundle
///
/// `-` reads from standard input, as far as the index.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  eggo-bundle inspect k8s.tar.gz
  eggo-bundle inspect k8s.tar.gz --tree
  eggo-bundle inspect k8s.tar.gz --format json | jq '.items[].name'")]
pub struct Args {
    bundle: PathBuf,
    /// Every file, as a tree.
    #[arg(long, conflicts_with = "format")]
    tree: bool,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    trust: TrustArgs,
}

pub fn run(args: &Args, watch: &Watch) -> Result<(), Report> {
    if is_pipe(&args.bundle) {
        let pipe = args.trust.opened_pipe(watch)?;
        return show(args, pipe.index(), pipe.identity(), None);
    }
    let opened = args.trust.opened(&args.bundle, watch)?;
    with_bundle!(&opened, bundle => show(args, bundle.index(), bundle.identity(), Some(bundle.size())))
}

/// `size` is that of the file, if it is one.
fn show(args: &Args, index: &Index, identity: Digest, size: Option<u64>) -> Result<(), Report> {
    match args.format {
        Format::Json => output::json(&Listing::of(index)),
        Format::Text if args.tree => output::print(&tree(index)),
        Format::Text => output::print(&summary(index, identity, size)),
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
}

impl<'a> Listing<'a> {
    fn of(index: &'a Index) -> Self {
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
        };
        Listing {
            format: index.format,
            name: &index.name,
            version: &index.version,
            archs: &index.archs,
            parent: index.parent,
            items: index.items.iter().map(line).collect(),
        }
    }
}

fn summary(index: &Index, identity: Digest, size: Option<u64>) -> String {
    let mut text = format!("{} {}", index.name, index.version);
    let archs: Vec<&str> = index.archs.iter().map(|arch| arch.as_str()).collect();
    text.push_str(&format!(" for {}", archs.join(" and ")));
    if let Some(size) = size {
        text.push_str(&format!(", {} in the file", Size(size)));
    }
    text.push_str(&format!("\nindex  {identity}\n"));
    if let Some(parent) = index.parent {
        text.push_str(&format!("parent {parent} (this is a delta)\n"));
    }
    text.push('\n');

    let mut table = Table::new(["ARCH", "KIND", "THINGS", "FILES", "SIZE", "SHARED"]).right(&[2, 3, 4, 5]);
    for row in contents::rows(index) {
        table.row([
            row.arch.to_string(),
            row.kind.to_string(),
            row.things.to_string(),
            row.files.to_string(),
            Size(row.size).to_string(),
            if row.shared == 0 { "-".to_string() } else { Size(row.shared).to_string() },
        ]);
    }
    text.push_str(&table.to_string());
    let (all, once) = contents::sizes(index);
    text.push_str(&format!("\n{} in all, {} after what is shared is counted once\n", Size(all), Size(once)));

    let images: BTreeSet<&str> = index.images.iter().map(|image| image.name.as_str()).collect();
    if !images.is_empty() {
        text.push_str("\nimages\n");
        images.iter().for_each(|image| text.push_str(&format!("  {image}\n")));
    }
    text
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
            text.push_str(&format!("{:indent$}{folder}/\n", "", indent = 2 * open.len()));
            open.push(folder);
        }
        let what = match &item.link {
            Some(target) => format!("{file} -> {target}"),
            None => format!("{file}  {}", Size(item.size)),
        };
        text.push_str(&format!("{:indent$}{what}\n", "", indent = 2 * open.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use eggo_bundles::index::Source;

    fn item(path: &str) -> Item {
        Item {
            path: path.to_string(),
            arch: Arch::Amd64,
            kind: Kind::Dir,
            name: "x".to_string(),
            version: String::new(),
            size: 3,
            sha256: Digest::of(b"abc"),
            roles: Vec::new(),
            dst: None,
            mode: None,
            link: None,
            requires: Vec::new(),
            source: Source::default(),
        }
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
    fn json_always_has_every_key() {
        let index = Index::new("n", "1", Arch::ALL.to_vec()).with_items(vec![item("amd64/dir/x/b")]);
        let value = serde_json::to_value(Listing::of(&index)).unwrap();
        let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["format", "name", "version", "archs", "parent", "items"]);
        let keys: Vec<&str> = value["items"][0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["path", "arch", "kind", "name", "version", "size", "sha256", "roles", "dst"]);
    }
}
