//! Why something is in a lock: the shortest chain of who asked for it, and who else did.

use crate::lock::{Lock, LockedPackage};
use eggo_bundles::Arch;
use serde::Serialize;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chain {
    pub name: String,
    pub version: String,
    /// Absent where it is the same for every arch.
    pub arch: Option<Arch>,
    /// From the thing itself to the one that the manifest asks for, and last the manifest's words.
    pub required_by: Vec<String>,
    /// Who needs the thing itself besides the first of the chain.
    pub also_required_by: Vec<String>,
}

/// A chain for each arch that has it.
pub fn chains(lock: &Lock, name: &str) -> Vec<Chain> {
    let mut chains = Vec::new();
    for package in lock.packages.iter().filter(|package| package.name == name) {
        chains.push(package_chain(lock, package));
    }
    for file in lock.all_files().filter(|file| file.name == name) {
        chains.push(Chain {
            name: name.to_string(),
            version: file.version.clone(),
            arch: Some(file.arch),
            required_by: vec!["the manifest".to_string()],
            also_required_by: Vec::new(),
        });
    }
    for image in lock.images.iter().filter(|image| image.name == name || is_short_for(name, &image.name)) {
        chains.push(Chain {
            name: image.name.clone(),
            version: image.manifest.oci(),
            arch: Some(image.arch),
            required_by: image.required_by.first().map(|by| manifest_or(by)).into_iter().collect(),
            also_required_by: image.required_by.iter().skip(1).map(|by| manifest_or(by)).collect(),
        });
    }
    for addon in lock.addons.iter().filter(|addon| addon.name == name) {
        chains.push(Chain {
            name: name.to_string(),
            version: addon.sha256.oci(),
            arch: None,
            required_by: vec!["the manifest".to_string()],
            also_required_by: Vec::new(),
        });
    }
    chains
}

/// What in the lock was probably meant.
pub fn nearest<'a>(lock: &'a Lock, name: &str) -> Option<&'a str> {
    let packages = lock.packages.iter().map(|package| package.name.as_str());
    let files = lock.all_files().map(|file| file.name.as_str());
    let images = lock.images.iter().map(|image| image.name.as_str());
    eggo_yaml::nearest(name, packages.chain(files).chain(images))
}

/// Breadth first, so that the chain is a shortest one.
fn package_chain(lock: &Lock, package: &LockedPackage) -> Chain {
    let by_name: HashMap<&str, &LockedPackage> =
        lock.packages.iter().filter(|p| p.arch == package.arch).map(|p| (p.name.as_str(), p)).collect();
    let mut seen = HashSet::from([package.name.as_str()]);
    let mut waiting: VecDeque<(&LockedPackage, Vec<String>)> = VecDeque::from([(package, Vec::new())]);
    let mut required_by = Vec::new();
    while let Some((current, path)) = waiting.pop_front() {
        if let Some(root) = root(current) {
            required_by = path;
            required_by.push(root);
            break;
        }
        for by in &current.required_by {
            if let Some(next) = by_name.get(by.as_str())
                && seen.insert(next.name.as_str())
            {
                let mut path = path.clone();
                path.push(named(next));
                waiting.push_back((next, path));
            }
        }
    }
    let others = package.required_by.iter().filter_map(|by| by_name.get(by.as_str())).map(|by| named(by));
    let also_required_by = others.filter(|other| required_by.first() != Some(other)).collect();
    Chain {
        name: package.name.clone(),
        version: package.version.clone(),
        arch: Some(package.arch),
        required_by,
        also_required_by,
    }
}

/// Who asks for a package that no other package asks for.
fn root(package: &LockedPackage) -> Option<String> {
    let roles: Vec<&str> =
        package.required_by.iter().filter(|by| by.starts_with("role ")).map(String::as_str).collect();
    match roles.as_slice() {
        [] if package.required_by.iter().any(|by| by == "baseline") => {
            Some("the baseline, which has one that cannot stay".to_string())
        }
        [] => None,
        roles => Some(format!("the manifest, {}", roles.join(", "))),
    }
}

fn named(package: &LockedPackage) -> String {
    format!("{} {}", package.name, package.version)
}

/// The name of a baseline that has this package, so that no bundle needs to.
pub fn baseline_with<'a>(lock: &'a Lock, name: &str) -> Option<&'a str> {
    let has = |line: &String| line.split(' ').next() == Some(name);
    let baseline = lock.baselines.iter().find(|baseline| baseline.packages.iter().any(has));
    baseline.map(|baseline| baseline.name.as_str())
}

fn manifest_or(by: &str) -> String {
    if by == "manifest" { "the manifest".to_string() } else { by.to_string() }
}

/// `nginx` for `docker.io/library/nginx:latest`.
fn is_short_for(short: &str, full: &str) -> bool {
    full.strip_suffix(short).is_some_and(|before| before.ends_with('/'))
        || full.rsplit_once(':').is_some_and(|(name, _)| name.ends_with(&format!("/{short}")))
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)?;
        match self.arch {
            Some(arch) => writeln!(f, " ({arch})")?,
            None => writeln!(f)?,
        }
        for by in &self.required_by {
            writeln!(f, "  required by {by}")?;
        }
        if !self.also_required_by.is_empty() {
            writeln!(f, "  also required by {}", self.also_required_by.join(", "))?;
        }
        Ok(())
    }
}
