//! Notes for people: what is inside, and where it came from.

use crate::contents;
use eggo_bundles::{Bundle, Digest, Index, Item, Kind, Verified};
use eggo_terminal::Size;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

pub(super) fn notes(bundle: &Bundle<Verified>, file: &str, digest: &Digest) -> String {
    let index = bundle.index();
    let archs: Vec<&str> = index.archs.iter().map(|arch| arch.as_str()).collect();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# {} {}\n", index.name, index.version);
    let _ = writeln!(text, "For {}. `{file}`, {}.\n", archs.join(" and "), Size(bundle.size()));
    let _ = writeln!(text, "- sha256 `{digest}`");
    let _ = writeln!(text, "- index `{}`, signed by key {}", bundle.identity(), bundle.key().id());
    if let Some(parent) = index.parent {
        let _ = writeln!(text, "- a delta: it needs the bundle whose index is `{parent}`");
    }
    let _ = writeln!(
        text,
        "\nVerify with `sha256sum -c SHA256SUMS` and `eggo-bundle verify {file} --pubkey KEY.pub`."
    );

    let _ = writeln!(text, "\n## What is inside\n\n| arch | kind | things | size |\n|---|---|---:|---:|");
    for row in contents::rows(index) {
        let _ = writeln!(text, "| {} | {} | {} | {} |", row.arch, row.kind, row.things, Size(row.size));
    }
    for (kind, title) in [
        (Kind::Pkg, "Packages"),
        (Kind::Bin, "Binaries"),
        (Kind::File, "Files"),
        (Kind::Dir, "Folders"),
        (Kind::Addon, "Addons"),
    ] {
        section(&mut text, index, kind, title);
    }
    if !index.images.is_empty() {
        let _ = writeln!(text, "\n## Images\n\n| image | arch | manifest |\n|---|---|---|");
        let mut images: Vec<_> = index.images.iter().collect();
        images.sort_by(|a, b| (&a.name, a.arch).cmp(&(&b.name, b.arch)));
        for image in images {
            let _ = writeln!(text, "| {} | {} | {} |", image.name, image.arch, image.manifest.oci());
        }
    }
    text
}

/// A line for each thing: its versions, archs, and where it came from.
fn section(text: &mut String, index: &Index, kind: Kind, title: &str) {
    let mut things: BTreeMap<(&str, &str), Vec<&Item>> = BTreeMap::new();
    for item in index.items.iter().filter(|item| item.kind == kind) {
        things.entry((&item.name, &item.version)).or_default().push(item);
    }
    if things.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n## {title}\n\n| name | version | arch | from |\n|---|---|---|---|");
    for ((name, version), items) in things {
        let archs: BTreeSet<&str> = items.iter().map(|item| item.arch.as_str()).collect();
        let archs: Vec<&str> = archs.into_iter().collect();
        let _ = writeln!(text, "| {name} | {version} | {} | {} |", archs.join(", "), origin(items[0]));
    }
}

fn origin(item: &Item) -> String {
    let source = &item.source;
    let signed = source.key.as_ref().map(|key| format!(", signed by {key}")).unwrap_or_default();
    match (&source.repo, &source.url) {
        (Some(repo), _) => format!("repo {repo}{signed}"),
        (None, Some(url)) => format!("{url}{signed}"),
        (None, None) => format!("the builder's machine{signed}"),
    }
}
