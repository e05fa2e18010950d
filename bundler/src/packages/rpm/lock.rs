//! From a manifest's rpm repositories to lines of the lock, arch by arch.

use super::metadata::{Metadata, Package, Word};
use super::modules::Filter;
use super::repository::{Error, Place, Repository};
use super::rich::Plain;
use super::sources;
use super::world::{Versions, Weak, World, unknown_files};
use crate::Tools;
use crate::lock::LockedRepo;
use crate::manifest::{self, Manifest, Repo, RepoSource};
use crate::packages::baseline::Installed;
use crate::packages::decide::{self, Catalog, File, Locked, Scope};
use crate::packages::history::History;
use crate::packages::provider::{Need, PackageId, Provider};
use crate::packages::solver::{self, Request, Unsolvable};
use crate::packages::version::Relation;
use crate::packages::version::rpm::Evr;
use crate::packages::{self, read_baseline};
use eggo_bundles::Arch;
use eggo_bundles::index::PackageFormat;
use futures::future::try_join_all;
use std::collections::{BTreeSet, HashSet};

/// What every node has that `eggo-install` can work on: it logs in, unpacks, checks and starts
/// services, by these packages or by none. What they need is there too.
const MINIMAL: [&str; 14] = [
    "filesystem",
    "setup",
    "basesystem",
    "glibc",
    "bash",
    "coreutils",
    "systemd",
    "rpm",
    "openssh-server",
    "tar",
    "gzip",
    "util-linux",
    "shadow-utils",
    "shadow",
];

/// Resolves every package of the manifest that these repositories have, for each of `archs`.
pub async fn lock(
    manifest: &Manifest,
    archs: &[Arch],
    scope: Scope,
    history: &History,
    tools: Tools<'_>,
) -> Result<Locked, packages::Error> {
    for line in ignored(manifest, archs)? {
        tools.progress.note(&line);
    }
    let loaded = try_join_all(archs.iter().map(|arch| load(manifest, *arch, history, tools))).await?;
    let repositories = loaded.iter().flat_map(|loaded| &loaded.repositories);
    let seen: Vec<LockedRepo> = repositories.map(|repository| repository.seen.clone()).collect();
    for name in newly_unsigned(manifest, archs, &seen, history)? {
        tools.progress.note(&format!(
            "note: repo `{name}` signs its packages, but not its metadata; `repo-gpgcheck: true` would refuse that"
        ));
    }
    let mut locked = decide::each_arch(loaded, |loaded| {
        let arch = loaded.arch;
        let mut world = loaded.world(manifest);
        if manifest.best {
            world.accept(Versions::Newest);
        }
        decide::decide(&world, manifest, arch, scope).map_err(|mut reason| {
            if manifest.best {
                name_older(&mut reason, world, manifest, arch, scope);
            }
            packages::Error::Unsolvable { arch, reason: Box::new(reason) }
        })
    })?;
    locked.repos = seen;
    Ok(locked)
}

/// Where older versions could be installed, says which, and how to get them.
fn name_older(reason: &mut Unsolvable, mut world: World, manifest: &Manifest, arch: Arch, scope: Scope) {
    let newest: HashSet<PackageId> =
        manifest.packages.iter().flat_map(|request| decide::need(&world, request).choices).collect();
    world.accept(Versions::Any);
    let Ok(locked) = decide::decide(&world, manifest, arch, scope) else { return };
    let newest: HashSet<(String, String)> = newest
        .into_iter()
        .map(|id| world.identity(id))
        .map(|identity| (identity.name, identity.version))
        .collect();
    let names: HashSet<&String> = newest.iter().map(|(name, _)| name).collect();
    let older = locked.packages.iter().filter(|package| {
        names.contains(&package.name) && !newest.contains(&(package.name.clone(), package.version.clone()))
    });
    let notes: Vec<String> = older
        .map(|old| format!("older and installable: `{} {}` ({})", old.name, old.version, old.repo))
        .collect();
    if !notes.is_empty() {
        reason.notes.extend(notes);
        reason.hint = Some(
            "add a repo that carries what the newest version needs, or accept older versions with `best: false`"
                .to_string(),
        );
    }
}

/// What `.repo` files say and nobody here goes by, a line for each section.
fn ignored(manifest: &Manifest, archs: &[Arch]) -> Result<BTreeSet<String>, Error> {
    let mut lines = BTreeSet::new();
    for arch in archs {
        for place in places(manifest, *arch)?.iter().filter(|place| !place.ignored.is_empty()) {
            let keys: Vec<String> = place.ignored.iter().map(|key| format!("`{key}`")).collect();
            let keys = keys.join(" and ");
            lines.insert(format!("warning: repo `{}` sets {keys}, which has no effect here", place.name));
        }
    }
    Ok(lines)
}

/// Repositories with keys whose metadata has no signature, each when it is seen for the first time.
fn newly_unsigned(
    manifest: &Manifest,
    archs: &[Arch],
    seen: &[LockedRepo],
    history: &History,
) -> Result<BTreeSet<String>, Error> {
    let unsigned =
        |name: &str| seen.iter().any(|repo| repo.name == name && repo.key.is_none() && !history.knows(repo));
    let mut names = BTreeSet::new();
    for arch in archs {
        let doubtful = |place: &Place| !place.keys.is_empty() && place.repo_gpgcheck.is_none();
        let places = places(manifest, *arch)?.into_iter().filter(doubtful);
        names.extend(places.map(|place| place.name).filter(|name| unsigned(name)));
    }
    Ok(names)
}

/// What is known of the packages for one arch.
struct Loaded {
    arch: Arch,
    metadata: Metadata,
    repositories: Vec<Repository>,
    /// Files that packages need and only the filelists tell of.
    files: Vec<(u32, Word)>,
    installed: HashSet<u32>,
}

impl Loaded {
    fn world(self, manifest: &Manifest) -> World {
        let weak = if manifest.recommends { Weak::Follow } else { Weak::Ignore };
        let mut world = World::new(self.metadata, self.repositories, weak, &self.files, self.installed);
        if manifest.baseline == manifest::Baseline::Minimal {
            world.install(minimal(&world));
        }
        world
    }
}

/// The packages of all repositories for one arch.
async fn load(
    manifest: &Manifest,
    arch: Arch,
    history: &History,
    tools: Tools<'_>,
) -> Result<Loaded, packages::Error> {
    let mut metadata = Metadata::default();
    let (mut repositories, mut filters) = (Vec::new(), Vec::new());
    let places = places(manifest, arch)?;
    for (number, place) in places.iter().enumerate() {
        let (repository, filter) = place.load(number as u16, &mut metadata, history, tools).await?;
        repositories.push(repository);
        filters.push(filter);
    }
    give_way(&mut metadata, &places, &filters);
    let captured = read_baseline(manifest, arch)?;
    let mut installed: HashSet<u32> = HashSet::new();
    for package in captured.iter().flatten() {
        installed.insert(find_or_add(&mut metadata, package));
    }
    let wanted = unknown_files(&mut metadata);
    let mut files: Vec<(u32, Word)> = Vec::new();
    if !wanted.is_empty() {
        for (number, (place, repository)) in places.iter().zip(&repositories).enumerate() {
            files.extend(place.find_files(number as u16, repository, &metadata, &wanted, tools).await?);
        }
    }
    Ok(Loaded { arch, metadata, repositories, files, installed })
}

/// Packages outside of modules are overridden by enabled streams of other repositories, too.
fn give_way(metadata: &mut Metadata, places: &[Place], filters: &[Filter]) {
    let words = &metadata.words;
    metadata.packages.retain(|package| {
        let [name, evr, arch] = [package.name, package.evr, package.arch].map(|word| words.get(word));
        let own = package.repo as usize;
        let mut others = filters.iter().enumerate().filter(|(number, _)| *number != own);
        places[own].module_hotfixes
            || !others.any(|(_, filter)| filter.replaces(name, evr, arch))
            || filters[own].is_modular(name, evr, arch)
    });
}

/// The packages of [`MINIMAL`] that the repositories have, and all that those need.
fn minimal(world: &World) -> HashSet<u32> {
    let request = |name: &&str| {
        let choices = world.asked(&Plain { name, version: None });
        (!choices.is_empty()).then(|| Request {
            need: Need { text: name.to_string(), choices, ..Need::default() },
            asked_by: "the minimal baseline".to_string(),
            roles: BTreeSet::new(),
        })
    };
    let requests: Vec<Request> = MINIMAL.iter().filter_map(request).collect();
    // A repository without a whole system in it (an add-on) makes no baseline.
    let solution = solver::solve(world, &requests).unwrap_or_default();
    solution.chosen.keys().map(|id| id.0).collect()
}

/// A captured package: the one of the repositories, if they have just that version.
fn find_or_add(metadata: &mut Metadata, installed: &Installed) -> u32 {
    let is_it = |package: &Package| {
        metadata.name(package) == installed.name
            && metadata.evr(package).compare(&Evr::parse(&installed.version)).is_eq()
            && installed.architecture.as_deref().is_none_or(|arch| arch == metadata.arch(package))
    };
    match metadata.packages.iter().position(is_it) {
        Some(position) => position as u32,
        None => {
            let arch = installed.architecture.as_deref().unwrap_or("noarch");
            metadata.add_installed(&installed.name, &installed.version, arch)
        }
    }
}

/// Every rpm repository of the manifest; a `.repo` file may hold several.
pub(super) fn places(manifest: &Manifest, arch: Arch) -> Result<Vec<Place>, Error> {
    let mut places = Vec::new();
    for repo in manifest.repos.iter().filter(|repo| repo.serves(arch)) {
        let place = Place {
            name: repo.name.clone(),
            arch,
            urls: Vec::new(),
            mirrorlist: None,
            metalink: None,
            releasever: None,
            keys: repo.keys.clone(),
            folder: manifest.resolve(""),
            allow_unsigned: repo.allow_unsigned,
            repo_gpgcheck: repo.repo_gpgcheck,
            exclude: repo.exclude.clone(),
            modules: Vec::new(),
            module_hotfixes: false,
            ignored: Vec::new(),
        };
        match &repo.source {
            RepoSource::DebSystem | RepoSource::Deb { .. } => {}
            RepoSource::Rpm { urls, mirrorlist, metalink, releasever, modules } => places.push(Place {
                urls: urls.clone(),
                mirrorlist: mirrorlist.clone(),
                metalink: metalink.clone(),
                releasever: releasever.clone(),
                modules: modules.clone(),
                ..place
            }),
            RepoSource::RpmFile { file, releasever, modules } => {
                let place = Place { releasever: releasever.clone(), modules: modules.clone(), ..place };
                places.extend(from_file(manifest, repo, file, &place)?);
            }
        }
    }
    unique(&places)?;
    Ok(places)
}

/// Packages are locked, and their signatures checked, by the name of the place.
fn unique(places: &[Place]) -> Result<(), Error> {
    let mut names = HashSet::new();
    match places.iter().find(|place| !names.insert(&place.name)) {
        Some(twice) => Err(Error::Twice { repo: twice.name.clone() }),
        None => Ok(()),
    }
}

/// The urls of every rpm repository for `arch` but for those of mirror lists; of what cannot be read, none.
pub fn own_roots(manifest: &Manifest, arch: Arch) -> Vec<String> {
    let places = places(manifest, arch).unwrap_or_default();
    places.iter().flat_map(Place::own_roots).map(|root| root.to_string()).collect()
}

fn from_file(manifest: &Manifest, repo: &Repo, file: &str, place: &Place) -> Result<Vec<Place>, Error> {
    let read_error = |source| Error::Read { repo: repo.name.clone(), file: file.to_string(), source };
    let text = manifest.local(file).and_then(std::fs::read_to_string).map_err(read_error)?;
    let place = |section: sources::Section| Place {
        name: section.id,
        urls: section.urls,
        mirrorlist: section.mirrorlist,
        metalink: section.metalink,
        keys: if repo.keys.is_empty() { section.keys } else { repo.keys.clone() },
        allow_unsigned: repo.allow_unsigned,
        // Files often say `repo_gpgcheck=0`, which is no reason to forget that there was a signature.
        repo_gpgcheck: repo.repo_gpgcheck.or(section.repo_gpgcheck.then_some(true)),
        exclude: repo.exclude.iter().cloned().chain(section.exclude).collect(),
        module_hotfixes: section.module_hotfixes,
        ignored: section.ignored,
        ..place.clone()
    };
    Ok(sources::repo_file(&text).into_iter().map(place).collect())
}

impl Catalog for World {
    fn format(&self) -> PackageFormat {
        PackageFormat::Rpm
    }

    fn request(&self, name: &str, limit: Option<(Relation, &str)>) -> Need {
        let plain = Plain { name, version: limit };
        let text = match limit {
            Some((relation, version)) => format!("{name} {relation} {version}"),
            None => name.to_string(),
        };
        Need { text, choices: self.asked(&plain), ..Need::default() }
    }

    fn file(&self, id: PackageId) -> Option<File> {
        let package = self.package(id);
        let repository = self.repositories.get(package.repo as usize)?;
        let words = &self.metadata.words;
        let location = words.get(package.location);
        let urls = repository.roots.iter().map(|root| format!("{root}{location}")).collect();
        let sha256 = words.get(package.checksum).parse().ok()?;
        Some(File { urls, size: package.size, sha256, key: repository.seen.key.clone() })
    }
}
