//! DEB repositories: sources, signed Release files, `Packages`, and apt's way of choosing.

pub mod distill;
pub mod relation;
pub mod release;
pub mod repository;
pub mod sources;
pub mod system;
mod walk;
pub mod world;

use super::baseline::Installed;
use super::decide::{self, Locked, Scope};
use super::history::History;
use super::solver::{self, Request, Unsolvable};
use super::version::Relation;
use super::{Error, read_baseline};
use crate::Tools;
use crate::manifest::{self, Constraint, Manifest, RepoSource};
use eggo_bundles::content::deb::Deb;
use eggo_bundles::index::Baseline;
use eggo_bundles::{Arch, Digest};
use repository::{Loaded, Repo};
use sources::{SignedBy, Source};
use std::collections::BTreeSet;
use system::System;
use world::{Index, Options, Pin, Priority, World};

/// Resolves what the manifest asks of its deb repos.
pub async fn lock(
    manifest: &Manifest,
    archs: &[Arch],
    scope: Scope,
    history: &History,
    tools: Tools<'_>,
) -> Result<Locked, Error> {
    let system = &System::default();
    let repos = repos(manifest, system)?;
    let Loaded { indexes: loaded, seen } = repository::load(&repos, archs, system, history, tools).await?;
    let mut baselines = Vec::new();
    for arch in archs {
        baselines.push(read_baseline(manifest, *arch)?);
    }
    let worlds = loaded.iter().zip(&baselines).collect();
    let mut locked = decide::each_arch(worlds, |((arch, indexes), baseline)| {
        decide_arch(manifest, *arch, scope, indexes, baseline.as_deref())
    })?;
    locked.repos = seen;
    Ok(locked)
}

fn decide_arch(
    manifest: &Manifest,
    arch: Arch,
    scope: Scope,
    indexes: &[Index],
    baseline: Option<&[Installed]>,
) -> Result<Locked, Error> {
    let unsolvable = |reason: Unsolvable| Error::Unsolvable { arch, reason: Box::new(reason) };
    let mut world = World::new(indexes, options(manifest, arch));
    match (&manifest.baseline, baseline) {
        (_, Some(installed)) => world.install(
            installed.iter().map(|p| (p.name.as_str(), p.version.as_str(), p.architecture.as_deref())),
        ),
        (manifest::Baseline::Minimal, None) => {
            let installed = minimal(&world).map_err(unsolvable)?;
            world.install(installed.into_iter().map(|(name, version)| (name, version, None)));
        }
        _ => {}
    }
    decide::decide(&world, manifest, arch, scope).map_err(unsolvable)
}

/// Essential packages and all they need, in the oldest version that the suites have: a target
/// that was installed from them has at least that.
fn minimal<'a>(world: &World<'a>) -> Result<Vec<(&'a str, &'a str)>, Unsolvable> {
    let requests: Vec<Request> = world
        .essential()
        .into_iter()
        .map(|name| Request {
            need: decide::Catalog::request(world, name, None),
            asked_by: "the baseline `minimal`".to_string(),
            roles: Default::default(),
        })
        .collect();
    let solution = solver::solve(world, &requests)?;
    Ok(solution.chosen.keys().map(|id| world.oldest(*id)).collect())
}

/// Whether these packages are installable together on a target that has `baseline`. Without one,
/// a target is taken to have what they need besides, which is returned.
pub fn suffices(
    arch: Arch,
    packages: &[Deb],
    baseline: Option<&Baseline>,
) -> Result<BTreeSet<String>, Unsolvable> {
    let mut stanzas = String::new();
    for package in packages {
        for (name, value) in &package.fields {
            // A paragraph as in `Packages`: an empty line would end it.
            let value = value.replace("\n\n", "\n .\n").replace('\n', "\n ");
            stanzas.push_str(&format!("{name}: {value}\n"));
        }
        // Known by their content; where they are and how long they are says nothing here.
        let digest = Digest::of(package.name().as_bytes());
        stanzas.push_str(&format!("Filename: {}.deb\nSize: 0\nSHA256: {digest}\n\n", package.name()));
    }
    let unreadable = |error: distill::Error| Unsolvable {
        message: format!("a control file {error}"),
        notes: Vec::new(),
        hint: None,
    };
    let text = distill::distill(&mut stanzas.as_bytes()).map_err(unreadable)?;
    let index = Index {
        repo: "bundle".to_string(),
        suite: arch.to_string(),
        urls: Vec::new(),
        key: None,
        priority: Priority::Normal,
        exclude: Vec::new(),
        text,
    };
    let indexes = [index];
    let options = Options { architecture: arch.as_str().to_string(), ..Options::default() };
    let mut world = World::new(&indexes, options);
    world.assume(baseline.iter().flat_map(|baseline| baseline.meets.iter().cloned()));
    let installed = baseline.iter().flat_map(|baseline| &baseline.packages);
    world.install(
        installed.filter_map(|line| line.split_once(' ')).map(|(name, version)| (name, version, None)),
    );
    let requests: Vec<Request> = packages
        .iter()
        .map(|package| Request {
            need: decide::Catalog::request(
                &world,
                package.name(),
                Some((Relation::Equal, package.version())),
            ),
            asked_by: "the bundle".to_string(),
            roles: Default::default(),
        })
        .collect();
    let open = if baseline.is_none() { solver::unmet(&world, &requests) } else { BTreeSet::new() };
    world.assume(open.iter().cloned());
    solver::solve(&world, &requests).map(|_| open)
}

fn options(manifest: &Manifest, arch: Arch) -> Options {
    let pins = manifest.packages.iter().filter_map(|request| {
        let Constraint { relation, version } = request.constraint.clone()?;
        Some(Pin { name: request.name.clone(), relation, version })
    });
    Options { architecture: arch.as_str().to_string(), recommends: manifest.recommends, pins: pins.collect() }
}

fn repos(manifest: &Manifest, system: &System) -> Result<Vec<Repo>, Error> {
    let mut repos = Vec::new();
    for repo in &manifest.repos {
        let mut sources = match &repo.source {
            RepoSource::DebSystem => system.sources().map_err(repository::Error::from)?,
            RepoSource::Deb { urls, suites, components } => vec![Source {
                urls: urls.clone(),
                suites: suites.clone(),
                components: components.clone(),
                architectures: Vec::new(),
                excluded: Vec::new(),
                signed_by: SignedBy::Default,
                trusted: false,
                check_valid_until: true,
                place: manifest.place(repo.line),
            }],
            RepoSource::Rpm { .. } | RepoSource::RpmFile { .. } => continue,
        };
        for source in &mut sources {
            source.trusted |= repo.allow_unsigned;
            source.check_valid_until &= repo.check_valid_until;
            if !repo.keys.is_empty() {
                let files = repo.keys.iter().map(|key| manifest.resolve(key));
                source.signed_by = SignedBy::Files(files.collect());
            }
        }
        let (name, exclude, archs) = (repo.name.clone(), repo.exclude.clone(), repo.archs.clone());
        repos.push(Repo { name, sources, exclude, archs });
    }
    Ok(repos)
}
