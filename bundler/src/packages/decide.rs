//! From a manifest's package names to lines of the lock, for one architecture and over any
//! format's [`Catalog`].

use super::Error;
use super::provider::{Need, PackageId, Provider};
use super::solver::{self, Chosen, Request, Requirer, Solution, Unsolvable};
use super::version::Relation;
use crate::http;
use crate::lock::{LockedPackage, LockedRepo};
use crate::manifest::{self, Manifest, PackageRequest};
use eggo_bundles::index::{Baseline, PackageFormat};
use eggo_bundles::{Arch, Digest};
use eggo_terminal::Count;
use std::collections::{BTreeMap, BTreeSet};
use tracing::debug;

/// Chains of dependencies are followed depth first.
const STACK: usize = 64 << 20;

/// A world of packages that can also say where their files are.
pub trait Catalog: Provider {
    fn format(&self) -> PackageFormat;

    /// What the manifest asks for, as a need.
    fn request(&self, name: &str, limit: Option<(Relation, &str)>) -> Need;

    /// Where the file of a package is; `None` for what only the baseline has.
    fn file(&self, package: PackageId) -> Option<File>;
}

/// A package's file as the metadata describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Every place where it is, the preferred one first.
    pub urls: Vec<String>,
    pub size: u64,
    pub sha256: Digest,
    /// Fingerprint of the key that vouches for the metadata; `None`: nobody does.
    pub key: Option<String>,
}

/// Lines of the lock.
#[derive(Debug, Clone, Default)]
pub struct Locked {
    pub packages: Vec<LockedPackage>,
    pub baselines: Vec<Baseline>,
    pub repos: Vec<LockedRepo>,
    /// With [`Scope::Known`]: what was asked for and is not known here, with who asked.
    pub unknown: BTreeSet<(String, String)>,
    /// What each of those was probably meant to be.
    pub near: BTreeMap<String, String>,
}

impl Locked {
    pub fn extend(&mut self, other: Locked) {
        self.packages.extend(other.packages);
        self.baselines.extend(other.baselines);
        self.repos.extend(other.repos);
        self.unknown.extend(other.unknown);
        self.near.extend(other.near);
    }
}

/// Which requests a format's worlds are asked to meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    All,
    /// Those it knows a package for: the manifest has repos of another format too.
    Known,
}

/// Solves all requests of `manifest` for `arch`.
pub fn decide(
    catalog: &dyn Catalog,
    manifest: &Manifest,
    arch: Arch,
    scope: Scope,
) -> Result<Locked, Unsolvable> {
    let requests = manifest.packages.iter().map(|request| to_request(catalog, manifest, request));
    let (requests, unknown): (Vec<Request>, Vec<Request>) =
        requests.partition(|request| scope == Scope::All || !request.need.choices.is_empty());
    let solution = solver::solve(catalog, &requests)?;
    let [asked, chosen] =
        [requests.len(), solution.chosen.len()].map(|count| Count(count, "package", "packages"));
    debug!("{arch}: {asked} asked for, {chosen} with all they need");
    let packages: Vec<LockedPackage> = solution
        .chosen
        .iter()
        .filter_map(|(id, chosen)| lock_package(catalog, &requests, arch, *id, chosen))
        .collect();
    for package in &packages {
        debug!("{arch}: {} {} from {}", package.name, package.version, package.repo);
    }
    let baselines = vec![lock_baseline(catalog, manifest, arch, &solution)];
    let unknown: BTreeSet<_> =
        unknown.into_iter().map(|request| (request.need.text, request.asked_by)).collect();
    let near =
        unknown.iter().filter_map(|(name, _)| Some((name.clone(), catalog.nearest(name)?.to_string())));
    let near = near.collect();
    Ok(Locked { packages, baselines, unknown, near, ..Locked::default() })
}

/// Decides for every arch on a thread of its own: they share nothing.
pub fn each_arch<T: Send>(
    worlds: Vec<T>,
    decide: impl Fn(T) -> Result<Locked, Error> + Sync,
) -> Result<Locked, Error> {
    let decide = &decide;
    let decided = std::thread::scope(|scope| {
        let threads: Vec<_> = worlds
            .into_iter()
            .map(|world| std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || decide(world)))
            .collect();
        let joined = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(error) => Err(Error::Thread(error)),
        });
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    let mut locked = Locked::default();
    decided.into_iter().for_each(|one| locked.extend(one));
    Ok(locked)
}

/// What meets a request of the manifest.
pub fn need(catalog: &dyn Catalog, request: &PackageRequest) -> Need {
    let limit =
        request.constraint.as_ref().map(|constraint| (constraint.relation, constraint.version.as_str()));
    catalog.request(&request.name, limit)
}

fn to_request(catalog: &dyn Catalog, manifest: &Manifest, request: &PackageRequest) -> Request {
    Request {
        need: need(catalog, request),
        asked_by: format!("{}, role `{}`", manifest.place(request.line), request.role),
        roles: BTreeSet::from([request.role]),
    }
}

fn lock_package(
    catalog: &dyn Catalog,
    requests: &[Request],
    arch: Arch,
    id: PackageId,
    chosen: &Chosen,
) -> Option<LockedPackage> {
    let identity = catalog.identity(id);
    let file = catalog.file(id)?;
    let mut mirrors = file.urls.iter().map(|url| http::recorded(url));
    let url = mirrors.next()?;
    let required_by: BTreeSet<String> = chosen
        .required_by
        .iter()
        .flat_map(|requirer| match requirer {
            Requirer::Request(number) => {
                requests[*number].roles.iter().map(|role| format!("role {role}")).collect()
            }
            Requirer::Package(by) => vec![catalog.identity(*by).name],
            Requirer::Baseline(_) => vec!["baseline".to_string()],
        })
        .collect();
    Some(LockedPackage {
        name: identity.name,
        version: identity.version,
        arch,
        architecture: identity.architecture,
        repo: identity.repo,
        url,
        sha256: file.sha256,
        size: file.size,
        mirrors: mirrors.collect(),
        roles: chosen.roles.iter().copied().collect(),
        required_by: required_by.into_iter().collect(),
        key: file.key,
    })
}

fn lock_baseline(catalog: &dyn Catalog, manifest: &Manifest, arch: Arch, solution: &Solution) -> Baseline {
    let installed = catalog.baseline().into_iter().filter_map(|need| need.choices.first().copied());
    let mut packages: Vec<String> = installed
        .map(|id| {
            let identity = catalog.identity(id);
            format!("{} {}", identity.name, identity.version)
        })
        .collect();
    packages.sort();
    let meets: BTreeSet<String> = solution.met_by_baseline.iter().map(|(need, _)| need.clone()).collect();
    let name = match &manifest.baseline {
        manifest::Baseline::Minimal => "minimal".to_string(),
        manifest::Baseline::None => "none".to_string(),
        manifest::Baseline::File(file) => file.to_string(),
    };
    Baseline { arch, format: catalog.format(), name, packages, meets: meets.into_iter().collect() }
}
