//! The packages of one arch: who provides what, who clashes with whom. `answers` says it to the solver.

mod answers;

use super::super::provider::{ConditionId, GroupId, Need, PackageId};
use super::super::version::Relation;
use super::super::version::rpm::Evr;
use super::metadata::{Capability, Metadata, Package, Word};
use super::repository::Repository;
use super::rich::{self, Clause, Plain, Set};
use super::words::ByWord;
use eggo_bundles::Arch;
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

/// Whether to follow `Recommends`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weak {
    Ignore,
    Follow,
}

pub struct World {
    pub metadata: Metadata,
    pub(super) repositories: Vec<Repository>,
    weak: Weak,
    installed: HashSet<u32>,
    /// Needs, as written, that targets are known to meet.
    assumed: HashSet<String>,
    by_name: ByWord<u32>,
    provided: ByWord<(u32, Capability)>,
    /// Who obsoletes packages of a name.
    obsoleting: ByWord<(u32, Capability)>,
    /// Only of the paths that somebody requires or conflicts with.
    by_file: ByWord<u32>,
    versions: Versions,
    groups: Vec<GroupId>,
    members: Vec<Vec<u32>>,
    rich: HashMap<(Word, bool), Vec<Lowered>>,
    conditions: Vec<Vec<PackageId>>,
    needs: Vec<OnceCell<Vec<Need>>>,
}

/// Which versions of a package may meet what a person asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// The newest, as dnf with `best`; what targets already have is fine as well.
    Newest,
    /// Older ones, where the newest cannot be installed.
    Any,
}

/// A clause of a rich dependency over real packages.
#[derive(Debug, Clone)]
struct Lowered {
    when: Vec<ConditionId>,
    choices: Vec<u32>,
}

/// The package architectures that a machine of `arch` can run, best first.
pub fn runs(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::Amd64 => &["x86_64", "noarch", "i686", "i586", "i486", "i386"],
        Arch::Arm64 => &["aarch64", "noarch"],
    }
}

/// The paths that packages ask for and the primary metadata does not tell who has.
/// If there are any, the filelists must be read for them.
pub fn unknown_files(metadata: &mut Metadata) -> HashSet<Word> {
    let mut wanted = required_files(metadata);
    for file in &metadata.files {
        wanted.remove(file);
    }
    for package in &metadata.packages {
        for capability in metadata.capabilities(&package.provides) {
            wanted.remove(&capability.name);
        }
    }
    wanted
}

/// Those inside of rich dependencies become words of their own.
fn required_files(metadata: &mut Metadata) -> HashSet<Word> {
    let capabilities = metadata
        .packages
        .iter()
        .flat_map(|p| metadata.capabilities(&p.requires).iter().chain(metadata.capabilities(&p.conflicts)));
    let text = |name: &Word| metadata.words.get(*name);
    let names = capabilities.map(|c| c.name).filter(|name| text(name).starts_with(['/', '(']));
    let (rich, mut files): (HashSet<Word>, HashSet<Word>) = names.partition(|name| rich::is_rich(text(name)));
    let paths = rich.iter().flat_map(|name| rich::files(text(name)));
    let paths: BTreeSet<String> = paths.map(str::to_string).collect();
    files.extend(paths.iter().map(|path| metadata.words.add(path)));
    files
}

impl World {
    /// `extra_files`: which packages have the files that only the filelists know.
    /// `installed`: the packages that a target already has.
    pub fn new(
        mut metadata: Metadata,
        repositories: Vec<Repository>,
        weak: Weak,
        extra_files: &[(u32, Word)],
        installed: HashSet<u32>,
    ) -> Self {
        let wanted_files = required_files(&mut metadata);
        let words = metadata.words.count();
        let packages = || (0..).zip(&metadata.packages);
        let files =
            packages().flat_map(|(id, package)| metadata.files(package).iter().map(move |file| (*file, id)));
        let files = files.filter(|(file, _)| wanted_files.contains(file));
        let provided = packages().flat_map(|(id, package)| {
            metadata.capabilities(&package.provides).iter().map(move |c| (c.name, (id, *c)))
        });
        let obsoleting = packages().flat_map(|(id, package)| {
            metadata.capabilities(&package.obsoletes).iter().map(move |c| (c.name, (id, *c)))
        });
        let mut world = Self {
            by_name: ByWord::collect(words, packages().map(|(id, package)| (package.name, id))),
            provided: ByWord::collect(words, provided),
            obsoleting: ByWord::collect(words, obsoleting),
            by_file: ByWord::collect(words, files.chain(extra_files.iter().map(|(id, file)| (*file, *id)))),
            needs: (0..metadata.packages.len()).map(|_| OnceCell::new()).collect(),
            metadata,
            repositories,
            weak,
            installed,
            assumed: HashSet::new(),
            versions: Versions::Any,
            groups: Vec::new(),
            members: Vec::new(),
            rich: HashMap::new(),
            conditions: Vec::new(),
        };
        world.make_groups();
        world.lower_rich();
        world
    }

    /// Which versions may meet what is asked for by name.
    pub fn accept(&mut self, versions: Versions) {
        self.versions = versions;
    }

    /// Adds to what targets already have.
    pub fn install(&mut self, packages: impl IntoIterator<Item = u32>) {
        self.installed.extend(packages);
        // Choices are sorted by what is installed.
        self.needs.iter_mut().for_each(|needs| drop(needs.take()));
    }

    /// These needs, as the metadata writes them, are met by what targets have.
    pub fn assume(&mut self, needs: impl IntoIterator<Item = String>) {
        self.assumed.extend(needs);
        self.needs.iter_mut().for_each(|needs| drop(needs.take()));
    }

    /// Of a group at most one is installed.
    fn make_groups(&mut self) {
        let metadata = &self.metadata;
        let mut group_of: HashMap<(Word, bool), GroupId> = HashMap::new();
        for (id, package) in (0..).zip(&metadata.packages) {
            // The 32 bit build of a package may be beside the native one.
            let is_foreign = metadata.arch(package).starts_with('i');
            let members = &mut self.members;
            let group = *group_of.entry((package.name, is_foreign)).or_insert_with(|| {
                members.push(Vec::new());
                GroupId(members.len() as u32 - 1)
            });
            self.members[group.0 as usize].push(id);
            self.groups.push(group);
        }
    }

    /// Conditions must be known before anybody asks for needs, so rich dependencies, which are
    /// few, are lowered at once.
    fn lower_rich(&mut self) {
        let mut texts: BTreeSet<(Word, bool)> = BTreeSet::new();
        for package in &self.metadata.packages {
            let lists =
                [(&package.requires, false), (&package.recommends, false), (&package.conflicts, true)];
            for (range, is_conflict) in lists {
                let names = self.metadata.capabilities(range).iter().map(|c| c.name);
                let rich = names.filter(|name| rich::is_rich(self.metadata.words.get(*name)));
                texts.extend(rich.map(|name| (name, is_conflict)));
            }
        }
        let mut conditions: Vec<Vec<PackageId>> = Vec::new();
        for (word, is_conflict) in texts {
            let text = self.metadata.words.get(word);
            let clauses = if is_conflict { rich::forbidden(text) } else { rich::required(text) };
            // What cannot be read cannot be met: no choices, and the text says why.
            let lowered = match clauses {
                Ok(clauses) => clauses.iter().map(|c| self.lower(c, &mut conditions)).collect(),
                Err(_) => vec![Lowered { when: Vec::new(), choices: Vec::new() }],
            };
            self.rich.insert((word, is_conflict), lowered);
        }
        self.conditions = conditions;
    }

    fn lower(&self, clause: &Clause<'_>, conditions: &mut Vec<Vec<PackageId>>) -> Lowered {
        let choices: BTreeSet<u32> = clause.some.iter().flat_map(|set| self.set(set)).collect();
        let mut condition = |packages: BTreeSet<u32>| {
            conditions.push(packages.into_iter().map(PackageId).collect());
            ConditionId(conditions.len() as u32 - 1)
        };
        let when = clause.unless_any.iter().map(|set| condition(self.set(set))).collect();
        Lowered { when, choices: choices.into_iter().collect() }
    }

    fn set(&self, set: &Set<'_>) -> BTreeSet<u32> {
        match set {
            Set::Plain(plain) => self.plain(plain),
            Set::With(left, right) => &self.set(left) & &self.set(right),
            Set::Without(left, right) => &self.set(left) - &self.set(right),
            Set::Either(left, right) => &self.set(left) | &self.set(right),
        }
    }

    /// Packages that meet `name [relation version]`, which need not be a text of the metadata.
    pub fn plain(&self, plain: &Plain<'_>) -> BTreeSet<u32> {
        let Some(name) = self.metadata.words.find(plain.name) else { return BTreeSet::new() };
        let provided = self.provided.get(name).iter();
        let meets = provided.filter(|(_, capability)| match (plain.version, capability.relation) {
            (None, _) | (_, None) => true,
            (Some(limit), Some(relation)) => {
                let evr = Evr::parse(self.metadata.words.get(capability.evr));
                super::metadata::overlap((relation, evr), (limit.0, Evr::parse(limit.1)))
            }
        });
        let files = self.by_file.get(name).iter().copied();
        meets.map(|(id, _)| *id).chain(files).collect()
    }

    /// Packages that meet a requirement of the metadata, in the order of the metadata.
    fn meeting(&self, required: &Capability) -> Vec<u32> {
        let provided = self.provided.get(required.name).iter();
        let mut ids: Vec<u32> =
            provided.filter(|(_, c)| self.metadata.meets(c, required)).map(|(id, _)| *id).collect();
        ids.extend(self.by_file.get(required.name));
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// What people ask for by name: packages of that name, else whatever provides it.
    /// Best first: the native arch, the newest version.
    pub fn asked(&self, plain: &Plain<'_>) -> Vec<PackageId> {
        let named = self.metadata.words.find(plain.name).map(|name| self.by_name.get(name));
        let fits = |id: &&u32| {
            plain.version.is_none_or(|(relation, version)| {
                relation.holds(self.evr(**id).compare(&Evr::parse(version)))
            })
        };
        let mut ids: Vec<u32> = named.into_iter().flatten().filter(fits).copied().collect();
        if ids.is_empty() {
            ids = self.plain(plain).into_iter().collect();
        }
        if self.versions == Versions::Newest {
            self.keep_newest(&mut ids);
        }
        self.best_first(&mut ids);
        ids.into_iter().map(PackageId).collect()
    }

    /// Of each name and kind of arch the newest version, and what is there already.
    fn keep_newest(&self, ids: &mut Vec<u32>) {
        let kind = |id: u32| (self.metadata.packages[id as usize].name, self.foreignness(id));
        let mut newest: HashMap<_, u32> = HashMap::new();
        for id in ids.iter().copied() {
            let best = newest.entry(kind(id)).or_insert(id);
            if self.evr(id).compare(&self.evr(*best)).is_gt() {
                *best = id;
            }
        }
        ids.retain(|id| {
            self.installed.contains(id) || self.evr(*id).compare(&self.evr(newest[&kind(*id)])).is_eq()
        });
    }

    pub fn package(&self, id: PackageId) -> &Package {
        &self.metadata.packages[id.0 as usize]
    }

    pub(super) fn evr(&self, id: u32) -> Evr<'_> {
        self.metadata.evr(&self.metadata.packages[id as usize])
    }

    /// How well the arch fits: 0 is native or independent of it.
    pub(super) fn foreignness(&self, id: u32) -> usize {
        usize::from(self.metadata.arch(&self.metadata.packages[id as usize]).starts_with('i'))
    }

    fn best_first(&self, ids: &mut [u32]) {
        let name = |id: u32| self.metadata.name(&self.metadata.packages[id as usize]);
        ids.sort_by(|l, r| {
            let installed = |id| !self.installed.contains(id);
            installed(l)
                .cmp(&installed(r))
                .then_with(|| self.foreignness(*l).cmp(&self.foreignness(*r)))
                .then_with(|| name(*l).cmp(name(*r)))
                .then_with(|| self.evr(*r).compare(&self.evr(*l)))
                .then_with(|| l.cmp(r))
        });
    }

    pub(super) fn lowered_needs(&self, id: u32) -> &[Need] {
        self.needs[id as usize].get_or_init(|| {
            let package = &self.metadata.packages[id as usize];
            let mut needs = Vec::new();
            self.add_needs(id, &package.requires, false, &mut needs);
            self.add_conditional_conflicts(id, package, &mut needs);
            if self.weak == Weak::Follow {
                self.add_needs(id, &package.recommends, true, &mut needs);
            }
            needs
        })
    }

    fn add_needs(&self, id: u32, range: &Range<u32>, weak: bool, needs: &mut Vec<Need>) {
        for required in self.metadata.capabilities(range) {
            let name = self.metadata.words.get(required.name);
            // What rpm itself must be able to do; the target's rpm can, or is upgraded first.
            if name.starts_with("rpmlib(") {
                continue;
            }
            let text = self.metadata.show(required);
            if self.assumed.contains(&text) {
                continue;
            }
            if rich::is_rich(name) {
                for lowered in self.rich.get(&(required.name, false)).into_iter().flatten() {
                    self.push(id, needs, text.clone(), lowered.when.clone(), lowered.choices.clone(), weak);
                }
            } else {
                self.push(id, needs, text, Vec::new(), self.meeting(required), weak);
            }
        }
    }

    /// `Conflicts: (a and b)` and the like: nothing is wrong until the condition holds.
    fn add_conditional_conflicts(&self, id: u32, package: &Package, needs: &mut Vec<Need>) {
        for conflict in self.metadata.capabilities(&package.conflicts) {
            for lowered in self.rich.get(&(conflict.name, true)).into_iter().flatten() {
                let text = format!("conflicts {}", self.metadata.show(conflict));
                self.push(id, needs, text, lowered.when.clone(), lowered.choices.clone(), false);
            }
        }
    }

    fn push(
        &self,
        id: u32,
        needs: &mut Vec<Need>,
        text: String,
        when: Vec<ConditionId>,
        mut choices: Vec<u32>,
        weak: bool,
    ) {
        if choices.contains(&id) {
            return;
        }
        self.best_first(&mut choices);
        needs.push(Need { text, when, choices: choices.into_iter().map(PackageId).collect(), weak });
    }

    /// Packages of the name and version that `obsoletes` names; provides do not count.
    fn obsoleted(&self, obsoletes: &Capability) -> Vec<u32> {
        let same_name = self.by_name.get(obsoletes.name).iter().copied();
        same_name.filter(|id| self.hits(obsoletes, *id)).collect()
    }

    /// Whether `obsoletes` means the version of a package of its name.
    fn hits(&self, obsoletes: &Capability, id: u32) -> bool {
        let Some(relation) = obsoletes.relation else { return true };
        let limit = Evr::parse(self.metadata.words.get(obsoletes.evr));
        super::metadata::overlap((Relation::Equal, self.evr(id)), (relation, limit))
    }

    /// What may stand in for a package: newer versions of it, then whatever obsoletes it.
    fn replacing(&self, id: u32) -> Vec<u32> {
        let newer = |other: &u32| *other != id && self.evr(*other).compare(&self.evr(id)).is_gt();
        let mut replacing: Vec<u32> = self.group_members(id).iter().copied().filter(newer).collect();
        self.best_first(&mut replacing);
        let name = self.metadata.packages[id as usize].name;
        let obsoleting = self.obsoleting.get(name).iter().filter(|(_, obsoletes)| self.hits(obsoletes, id));
        let is_other = |other: &u32| *other != id && !replacing.contains(other);
        let mut obsoleting: Vec<u32> = obsoleting.map(|(other, _)| *other).filter(is_other).collect();
        self.best_first(&mut obsoleting);
        obsoleting.dedup();
        replacing.extend(obsoleting);
        replacing
    }

    /// Whether `newer` obsoletes `older`.
    pub(super) fn obsoletes(&self, newer: u32, older: u32) -> bool {
        let package = &self.metadata.packages[newer as usize];
        let mut list = self.metadata.capabilities(&package.obsoletes).iter();
        list.any(|obsoletes| self.obsoleted(obsoletes).contains(&older))
    }

    /// Packages that meet any of these weak dependencies.
    pub(super) fn meeting_any(&self, range: &Range<u32>) -> Vec<u32> {
        let plain = self.metadata.capabilities(range).iter();
        plain.flat_map(|capability| self.meeting(capability)).collect()
    }

    pub(super) fn group_members(&self, id: u32) -> &[u32] {
        &self.members[self.groups[id as usize].0 as usize]
    }
}
