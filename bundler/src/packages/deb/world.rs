//! The packages of the enabled suites for one architecture, and what a target has of them, as
//! the solver sees them.
//!
//! Like apt without pins, one version of each package counts: the newest of those with the
//! highest priority. Records are scanned when the world is made, relations only when the
//! solver asks for them.

mod answers;

use super::relation::{Target, alternatives, groups};
use crate::packages::pattern::matches;
use crate::packages::provider::{Clash, Need, PackageId};
use crate::packages::version::{Relation, deb};
use hashbrown::{HashMap, HashSet};
use std::cell::RefCell;
use std::rc::Rc;

/// One distilled `Packages` file.
#[derive(Debug, Clone)]
pub struct Index {
    /// The repo's name in the manifest.
    pub repo: String,
    /// `bookworm/main`, for messages.
    pub suite: String,
    /// Filenames are relative to any of these.
    pub urls: Vec<String>,
    /// Fingerprint of the key that signed the suite; `None`: nobody did.
    pub key: Option<String>,
    pub priority: Priority,
    /// Package names, with `*`, that are not taken from here.
    pub exclude: Vec<String>,
    pub text: String,
}

/// How much apt likes a suite, without pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// `NotAutomatic`: 1.
    NotAutomatic,
    /// `NotAutomatic` and `ButAutomaticUpgrades`: 100.
    OnlyUpgrades,
    /// 500.
    Normal,
}

/// Which version is wanted of a package that the manifest asks for with a version.
#[derive(Debug, Clone)]
pub struct Pin {
    pub name: String,
    pub relation: Relation,
    pub version: String,
}

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Debian's name of the architecture.
    pub architecture: String,
    pub recommends: bool,
    pub pins: Vec<Pin>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Package<'a> {
    pub name: &'a str,
    pub version: &'a str,
    architecture: &'a str,
    flags: &'a str,
    /// The whole record; empty for an installed package that no repo knows.
    record: &'a str,
    index: Option<usize>,
    pub group: u32,
    installed: bool,
}

/// All that is known under one name.
#[derive(Debug, Clone, Copy)]
struct Name<'a> {
    name: &'a str,
    candidate: Option<PackageId>,
    installed: Option<PackageId>,
    /// The position of its first mention over all files.
    rank: u64,
}

pub struct World<'a> {
    indexes: &'a [Index],
    options: Options,
    /// Needs, as packages write them, that targets are known to meet.
    assumed: HashSet<String>,
    packages: Vec<Package<'a>>,
    names: Vec<Name<'a>>,
    by_name: HashMap<&'a str, u32>,
    /// Virtual name → its providers and the version each gives it.
    provides: HashMap<&'a str, Vec<(PackageId, Option<&'a str>)>>,
    /// Versions that do not count, for messages and the oldest version of a package.
    others: Vec<(Package<'a>, Out)>,
    lowered: RefCell<HashMap<PackageId, Rc<Lowered>>>,
}

/// Why a version does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Out {
    Older,
    Excluded,
    WeakHash,
    Unasked,
}

/// A package's relations, resolved to packages. Kept: the walk, the proof and the search all ask.
pub(super) struct Lowered {
    pub needs: Vec<Need>,
    pub clashes: Vec<Clash>,
}

impl<'a> World<'a> {
    pub fn new(indexes: &'a [Index], options: Options) -> Self {
        let mut world = Self {
            indexes,
            options,
            assumed: HashSet::new(),
            packages: Vec::new(),
            names: Vec::new(),
            by_name: HashMap::new(),
            provides: HashMap::new(),
            others: Vec::new(),
            lowered: RefCell::default(),
        };
        let records: usize = indexes.iter().map(|index| index.text.len() / 400).sum();
        world.by_name.reserve(records);
        world.packages.reserve(records);
        for number in 0..indexes.len() {
            world.scan(number);
        }
        world.collect_provides(0);
        world
    }

    fn scan(&mut self, number: usize) {
        let index = &self.indexes[number];
        let base = (number as u64) << 32;
        let mut rest = index.text.as_str();
        let blank_line = memchr::memmem::Finder::new("\n\n");
        while !rest.is_empty() && !rest.starts_with("=\n") {
            let end = blank_line.find(rest.as_bytes()).unwrap_or(rest.len());
            let record = &rest[..end];
            rest = rest.get(end + 2..).unwrap_or("");
            self.record(number, record, base);
        }
        for line in rest.lines().skip(1) {
            if let Some((name, rank)) = line.split_once('\t') {
                self.name(name, base + rank.parse::<u64>().unwrap_or(0));
            }
        }
    }

    fn record(&mut self, number: usize, record: &'a str, base: u64) {
        let (mut head, _) = lines(record);
        let mut next = || {
            let end = memchr::memchr(b'\t', head.as_bytes()).unwrap_or(head.len());
            let field = &head[..end];
            head = head.get(end + 1..).unwrap_or("");
            field
        };
        let (name, version, architecture, flags, rank) = (next(), next(), next(), next(), next());
        if architecture != self.options.architecture && architecture != "all" {
            return;
        }
        let (_size, sha256) = (next(), next());
        let group = self.name(name, base + rank.parse::<u64>().unwrap_or(0));
        let index = Some(number);
        let package = Package { name, version, architecture, flags, record, index, group, installed: false };
        if sha256.len() != 64 {
            self.others.push((package, Out::WeakHash));
        } else if self.indexes[number].exclude.iter().any(|pattern| matches(pattern, name)) {
            self.others.push((package, Out::Excluded));
        } else if !self.is_wanted(&package) {
            self.others.push((package, Out::Unasked));
        } else {
            self.offer(package);
        }
    }

    fn is_wanted(&self, package: &Package<'_>) -> bool {
        let mut pins = self.options.pins.iter().filter(|pin| pin.name == package.name);
        pins.all(|pin| pin.relation.holds(deb::compare(package.version, &pin.version)))
    }

    /// Makes `package` the candidate of its name if it beats the present one.
    fn offer(&mut self, package: Package<'a>) {
        let name = &mut self.names[package.group as usize];
        match name.candidate {
            None => {
                name.candidate = Some(PackageId(self.packages.len() as u32));
                self.packages.push(package);
            }
            Some(id) => {
                let present = &mut self.packages[id.0 as usize];
                let priority = |p: &Package<'_>| p.index.map(|index| self.indexes[index].priority);
                let better = priority(&package)
                    .cmp(&priority(present))
                    .then_with(|| deb::compare(package.version, present.version));
                let loser = if better.is_gt() { std::mem::replace(present, package) } else { package };
                self.others.push((loser, Out::Older));
            }
        }
    }

    fn name(&mut self, name: &'a str, rank: u64) -> u32 {
        let next = self.names.len() as u32;
        let number = *self.by_name.entry(name).or_insert(next);
        if number == next {
            self.names.push(Name { name, candidate: None, installed: None, rank });
        }
        number
    }

    /// What targets have, as name, version and perhaps architecture.
    pub fn install(&mut self, installed: impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)>) {
        let first_new = self.packages.len();
        for (name, version, architecture) in installed {
            // A library for other programs of the machine meets no need of a native one.
            let is_native =
                |architecture: &str| architecture == "all" || architecture == self.options.architecture;
            if architecture.is_none_or(is_native) {
                self.install_one(name, version, architecture);
            }
        }
        self.collect_provides(first_new);
        self.lowered.borrow_mut().clear();
    }

    /// These needs, as packages write them, are met by what targets have.
    pub fn assume(&mut self, needs: impl IntoIterator<Item = String>) {
        self.assumed.extend(needs);
        self.lowered.borrow_mut().clear();
    }

    /// What the repositories know of the same version, they know of the installed one too; of
    /// another version, only what it provides.
    fn install_one(&mut self, name: &'a str, version: &'a str, architecture: Option<&'a str>) {
        let group = self.name(name, u64::MAX);
        if self.names[group as usize].installed.is_some() {
            return;
        }
        let candidate = self.names[group as usize].candidate;
        if let Some(id) = candidate.filter(|id| self.package(*id).version == version) {
            self.packages[id.0 as usize].installed = true;
            self.names[group as usize].installed = Some(id);
            return;
        }
        let exact = self.others.iter().map(|(other, _)| *other);
        let exact = exact.clone().find(|other| other.name == name && other.version == version);
        let known = exact.or(candidate.map(|id| *self.package(id)));
        let unknown = Package {
            name,
            version,
            architecture: architecture.unwrap_or(""),
            flags: "",
            record: "",
            index: None,
            group,
            installed: true,
        };
        let package = Package { version, installed: true, ..known.unwrap_or(unknown) };
        self.names[group as usize].installed = Some(PackageId(self.packages.len() as u32));
        self.packages.push(package);
    }

    fn collect_provides(&mut self, first: usize) {
        for (number, package) in self.packages.iter().enumerate().skip(first) {
            // It is before the others.
            let (_, rest) = lines(package.record);
            let Some(field) = rest.strip_prefix('P').map(|rest| lines(rest).0) else { continue };
            for target in groups(field).filter_map(Target::parse) {
                let version = match target.version {
                    None => None,
                    Some((Relation::Equal, version)) => Some(version),
                    // Only `=` means anything here.
                    Some(_) => continue,
                };
                self.provides.entry(target.name).or_default().push((PackageId(number as u32), version));
            }
        }
    }

    pub(super) fn package(&self, id: PackageId) -> &Package<'a> {
        &self.packages[id.0 as usize]
    }

    /// When the package's name was first heard of.
    pub(super) fn rank(&self, id: PackageId) -> u64 {
        self.names[self.package(id).group as usize].rank
    }

    /// The names of all packages that an Essential system has: those marked so.
    pub fn essential(&self) -> Vec<&'a str> {
        let candidates = self.names.iter().filter_map(|name| name.candidate);
        let essential = candidates.filter(|id| self.package(*id).flags.contains('e'));
        let mut names: Vec<_> = essential.map(|id| self.package(id).name).collect();
        names.sort_unstable();
        names
    }

    /// A package's name and the oldest version that the enabled suites have of it.
    pub fn oldest(&self, id: PackageId) -> (&'a str, &'a str) {
        let newest = self.package(id);
        let others = self.others.iter().map(|(other, _)| other).filter(|other| other.name == newest.name);
        let oldest = others.map(|other| other.version).fold(newest.version, |oldest, version| {
            if deb::compare(version, oldest).is_lt() { version } else { oldest }
        });
        (newest.name, oldest)
    }

    /// Everything that meets `target`, in apt's order.
    fn choices(&self, target: &Target<'_>) -> Vec<PackageId> {
        let mut found = Vec::new();
        if let Some(number) = self.by_name.get(target.name) {
            let name = &self.names[*number as usize];
            // Of an installed package and its upgrade, the installed one will do.
            for id in [name.installed, name.candidate.filter(|id| Some(*id) != name.installed)] {
                found.extend(id.filter(|id| self.meets(*id, target, Some(self.package(*id).version))));
            }
        }
        for (id, version) in self.provides.get(target.name).into_iter().flatten() {
            if !found.contains(id) && self.meets(*id, target, *version) {
                found.push(*id);
            }
        }
        found.sort_by_key(|id| self.preference(*id, target.name));
        found
    }

    fn meets(&self, id: PackageId, target: &Target<'_>, version: Option<&str>) -> bool {
        let package = self.package(id);
        let architecture_fits = match target.qualifier {
            None | Some("native") => true,
            Some("any") => package.flags.contains('a'),
            Some(named) => {
                named == package.architecture
                    || (package.architecture == "all" && named == self.options.architecture)
            }
        };
        architecture_fits && target.allows(version)
    }

    /// apt's order of providers (CompareProviders): what is installed, what bears the name,
    /// essential, important, by priority, and last heard of first.
    fn preference(&self, id: PackageId, name: &str) -> impl Ord + use<> {
        let package = self.package(id);
        let priority = package.flags.as_bytes().first().copied();
        let rank = self.rank(id);
        (
            !package.installed,
            package.name != name,
            !package.flags.contains('e'),
            !package.flags.contains('i'),
            priority,
            std::cmp::Reverse(rank),
        )
    }

    pub(super) fn lowered(&self, id: PackageId) -> Rc<Lowered> {
        if let Some(lowered) = self.lowered.borrow().get(&id) {
            return lowered.clone();
        }
        let lowered = Rc::new(self.lower(id));
        self.lowered.borrow_mut().insert(id, lowered.clone());
        lowered
    }

    fn lower(&self, id: PackageId) -> Lowered {
        let package = self.package(id);
        let mut needs = Vec::new();
        // What is installed works already: its needs are met, or no business of ours.
        let fields: &[(char, bool)] = match (package.installed, self.options.recommends) {
            (true, _) => &[],
            (false, false) => &[('R', false), ('D', false)],
            (false, true) => &[('R', false), ('D', false), ('E', true)],
        };
        for (tag, weak) in fields {
            for group in field(package.record, *tag).into_iter().flat_map(groups) {
                if self.assumed.contains(group) {
                    continue;
                }
                let mut choices = Vec::new();
                for target in alternatives(group) {
                    for choice in self.choices(&target) {
                        if !choices.contains(&choice) {
                            choices.push(choice);
                        }
                    }
                }
                // What is installed comes before every other alternative.
                choices.sort_by_key(|choice| !self.package(*choice).installed);
                needs.push(Need { text: group.to_string(), when: Vec::new(), choices, weak: *weak });
            }
        }
        let mut clashes = Vec::new();
        for (tag, label) in [('C', "Conflicts"), ('B', "Breaks")] {
            for group in field(package.record, tag).into_iter().flat_map(groups) {
                let Some(target) = Target::parse(group) else { continue };
                let with: Vec<_> = self
                    .choices(&target)
                    .into_iter()
                    .filter(|other| self.package(*other).group != package.group)
                    .collect();
                if !with.is_empty() {
                    clashes.push(Clash { text: format!("{label}: {group}"), with });
                }
            }
        }
        Lowered { needs, clashes }
    }
}

/// The first line, and all others.
fn lines(text: &str) -> (&str, &str) {
    match memchr::memchr(b'\n', text.as_bytes()) {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, ""),
    }
}

/// The relation field `tag` of a record.
fn field(record: &str, tag: char) -> Option<&str> {
    record.split('\n').skip(1).find_map(|line| line.strip_prefix(tag))
}
