//! The closure proof: everything that a bundle's content refers to is inside of it.
//!
//! Reads the bundle and nothing else.

use crate::addons;
use crate::images::Reference;
use crate::packages::proof;
use eggo_bundles::layout::{BadLayout, Layout};
use eggo_bundles::{Arch, Bundle, Index, Item, Kind, Readable};
use eggo_terminal::Explain;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Read;

const MAX_ADDON: u64 = 8 << 20;

/// Something that is missing or points outside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    pub severity: Severity,
    pub arch: Arch,
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The bundle will not do inside of the gap.
    Missing,
    /// It may be meant so.
    Doubtful,
}

/// All findings, sorted; the bundle's own bytes are checked by `verify`.
pub fn check<T: Readable>(bundle: &Bundle<T>) -> Result<Vec<Finding>, eggo_bundles::Error> {
    let index = bundle.index();
    let mut findings = BTreeSet::new();
    for &arch in &index.archs {
        let mut missing = |what: String| {
            findings.insert(Finding { severity: Severity::Missing, arch, what });
        };
        check_images(index, arch, &mut missing);
        check_requires(index, arch, &mut missing);
        for item in index.items.iter().filter(|item| item.arch == arch && item.kind == Kind::Addon) {
            check_addon(bundle, item, &mut missing)?;
        }
    }
    findings.extend(check_packages(bundle)?);
    findings.extend(one_sided(index));
    Ok(findings.into_iter().collect())
}

/// Packages can be installed with nothing but each other and the baseline. Where none is recorded,
/// as in a bundle made of eggo's tarballs, what they need besides is for people to judge.
fn check_packages<T: Readable>(bundle: &Bundle<T>) -> Result<Vec<Finding>, eggo_bundles::Error> {
    let error = match proof::check(bundle) {
        Ok(proven) => {
            let open = proven.into_iter().filter(|sufficient| !sufficient.unproven.is_empty());
            return Ok(open.map(|sufficient| without_baseline(&sufficient)).collect());
        }
        Err(error) => error.into_bundle()?,
    };
    let notes: Vec<String> = error.notes().iter().map(|note| note.trim().to_string()).collect();
    let why = if notes.is_empty() { String::new() } else { format!(": {}", notes.join("; ")) };
    let arch = match &error {
        proof::Error::Incomplete { arch, .. } => *arch,
        _ => bundle.index().archs[0],
    };
    Ok(vec![Finding { severity: Severity::Missing, arch, what: format!("{error}{why}") }])
}

fn without_baseline(sufficient: &proof::Sufficient) -> Finding {
    let needs: Vec<String> = sufficient.unproven.iter().map(|need| format!("`{need}`")).collect();
    let what = format!("no baseline is recorded: targets must have {}", needs.join(", "));
    Finding { severity: Severity::Doubtful, arch: sufficient.arch, what }
}

/// Every blob of every image is there, and the layout that runtimes load can be made.
fn check_images(index: &Index, arch: Arch, missing: &mut dyn FnMut(String)) {
    match Layout::of_index(index, arch, |_| true) {
        Ok(_) => {}
        Err(error @ BadLayout::MissingBlob { .. }) => missing(error.to_string()),
        Err(error) => missing(error.to_string()),
    }
}

/// A package's requirements were resolved when it was locked: their names must be here, or on
/// every target.
fn check_requires(index: &Index, arch: Arch, missing: &mut dyn FnMut(String)) {
    let packages = || index.items.iter().filter(|item| item.kind == Kind::Pkg && item.arch == arch);
    let names: HashSet<&str> = packages().map(|item| item.name.as_str()).collect();
    for item in packages() {
        for name in item.requires.iter().filter(|name| !names.contains(name.as_str())) {
            missing(format!("package `{}` needs `{name}`, which is not in the bundle", item.name));
        }
    }
}

/// Every image that an addon's pod specs name is in the bundle, for this arch.
fn check_addon<T: Readable>(
    bundle: &Bundle<T>,
    item: &Item,
    missing: &mut dyn FnMut(String),
) -> Result<(), eggo_bundles::Error> {
    let mut bytes = Vec::new();
    let read = bundle.read(item)?.take(MAX_ADDON).read_to_end(&mut bytes);
    read.map_err(|error| match error.downcast() {
        Ok(bundle) => bundle,
        Err(source) => eggo_bundles::Error::Io { path: bundle.path().to_path_buf(), source },
    })?;
    let discovery = match addons::discover(&item.path, &bytes) {
        Ok(discovery) => discovery,
        Err(error) => {
            missing(format!("addon `{}` cannot be read: {error}", item.name));
            return Ok(());
        }
    };
    let here: HashSet<Reference> = bundle
        .index()
        .images
        .iter()
        .filter(|image| image.arch == item.arch)
        .filter_map(|image| image.name.parse().ok())
        .collect();
    let wanted = discovery.images.iter().filter(|mention| mention.archs.contains(&item.arch));
    for mention in wanted.filter(|mention| !here.contains(&mention.reference)) {
        missing(format!(
            "addon `{}` needs image `{}` ({}:{}), which is not in the bundle",
            item.name, mention.reference, item.path, mention.line
        ));
    }
    Ok(())
}

/// Things that one arch has and another lacks. Packages differ between archs by nature, and images may be meant
/// for one: whether an addon needs them is another finding.
fn one_sided(index: &Index) -> Vec<Finding> {
    let mut homes: BTreeMap<(Kind, &str), BTreeSet<Arch>> = BTreeMap::new();
    let items = index.items.iter().filter(|item| !matches!(item.kind, Kind::Pkg | Kind::Image));
    for item in items {
        homes.entry((item.kind, &item.name)).or_default().insert(item.arch);
    }
    for image in &index.images {
        homes.entry((Kind::Image, &image.name)).or_default().insert(image.arch);
    }
    let mut findings = Vec::new();
    for ((kind, name), archs) in homes {
        for arch in index.archs.iter().filter(|arch| !archs.contains(arch)) {
            let severity = match kind {
                Kind::Addon => Severity::Missing,
                _ => Severity::Doubtful,
            };
            let what = format!("{kind} `{name}` is not there for {arch}");
            findings.push(Finding { severity, arch: *arch, what });
        }
    }
    findings
}
