//! A [`Provider`] as `resolvo` wants to see it.
//!
//! - A package is a solvable, a group is a name; both are numbered as they come into sight,
//!   so a search over few packages of a large world stays small.
//! - A need is a union of version sets of one package each: that keeps the order of choices
//!   explicit, across groups.
//! - `resolvo` encodes a condition by the *other* candidates of its name, which says too much
//!   when none is installed. So each condition gets a helper package of its own, required by
//!   every package that makes the condition hold: alone under its name, it is exact.
//! - A need without choices, conditional or not, asks for a version set without candidates.

use super::Order;
use crate::packages::provider::{Clash, GroupId, Need, PackageId, Provider};
use resolvo::{
    Candidates, Condition, ConditionId, ConditionalRequirement, Dependencies, DependencyProvider,
    HintDependenciesAvailable, Interner, KnownDependencies, LogicalOperator, NameId, Problem, Requirement,
    SolvableId, Solver, SolverCache, StringId, UnsolvableOrCancelled, VersionSetId, VersionSetUnionId,
    conflict::{ConflictCause, ConflictEdge, ConflictNode},
};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Display;

/// Why there is no solution: facts that cannot all hold. Enough to contradict each other,
/// rarely more.
#[derive(Debug, Default)]
pub(super) struct Refutation {
    /// A node needs one of these packages; `None` is the requests and the baseline.
    pub needs: BTreeSet<(Option<PackageId>, Vec<PackageId>)>,
    /// Packages with a need that nothing meets; the text of the need.
    pub unmet: BTreeSet<(Option<PackageId>, String)>,
    pub clashes: BTreeSet<(PackageId, PackageId)>,
    pub same_group: BTreeSet<(PackageId, PackageId)>,
}

pub(super) fn search(
    provider: &dyn Provider,
    order: &Order,
    roots: &[Need],
    baseline: &[Need],
) -> Result<HashSet<PackageId>, Refutation> {
    let world = World::new(provider, order);
    let requirements = roots.iter().chain(baseline).map(|need| world.requirement(need)).collect();
    // What only weak needs brought into the guess comes along where it still fits.
    let mut wanted: Vec<_> = order.guess.iter().copied().collect();
    wanted.sort();
    let wanted: Vec<_> = wanted.into_iter().map(|p| world.solvable(Solvable::Package(p))).collect();
    let mut solver = Solver::new(world);
    let problem = Problem::new().requirements(requirements).soft_requirements(wanted);
    match solver.solve(problem) {
        Ok(solvables) => {
            let world = solver.provider();
            Ok(solvables.into_iter().filter_map(|solvable| world.package(solvable)).collect())
        }
        Err(UnsolvableOrCancelled::Unsolvable(conflict)) => Err(refutation(&solver, &conflict)),
        Err(UnsolvableOrCancelled::Cancelled(_)) => unreachable!("nobody cancels a search"),
    }
}

fn refutation(solver: &Solver<World<'_>>, conflict: &resolvo::conflict::Conflict) -> Refutation {
    let world = solver.provider();
    let graph = conflict.graph(solver).graph;
    let mut refutation = Refutation::default();
    for edge in graph.edge_indices() {
        let Some((from, to)) = graph.edge_endpoints(edge) else { continue };
        let package = |node| match graph[node] {
            ConflictNode::Solvable(solvable) => world.package(solvable),
            _ => None,
        };
        match graph[edge] {
            ConflictEdge::Requires(requirement) => {
                let choices = world.choices(requirement);
                if choices.is_empty() {
                    refutation.unmet.insert((package(from), world.text(requirement)));
                } else {
                    refutation.needs.insert((package(from), choices));
                }
            }
            ConflictEdge::Conflict(cause) => {
                if let (Some(left), Some(right)) = (package(from), package(to)) {
                    match cause {
                        ConflictCause::ForbidMultipleInstances => {
                            refutation.same_group.insert((left, right));
                        }
                        _ => {
                            refutation.clashes.insert((left, right));
                        }
                    }
                }
            }
        }
    }
    refutation
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Solvable {
    Package(PackageId),
    /// Stands for a condition.
    Helper(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    Group(GroupId),
    Helper(u32),
    /// Has no candidates.
    Nothing,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum VersionSet {
    Only(u32),
    /// For clashes: every candidate of the name but these solvables.
    AllBut(NameId, Vec<SolvableId>),
    /// Nothing matches; the need's text.
    Unmet(String),
}

/// Numbers things in the order they are first seen.
struct Numbering<T> {
    items: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Clone + Eq + std::hash::Hash> Numbering<T> {
    fn new() -> Self {
        Self { items: Vec::new(), numbers: HashMap::new() }
    }

    fn number(&mut self, item: T) -> u32 {
        if let Some(number) = self.numbers.get(&item) {
            return *number;
        }
        let number = u32::try_from(self.items.len()).expect("fewer than 2^32 things are numbered");
        self.items.push(item.clone());
        self.numbers.insert(item, number);
        number
    }
}

struct World<'a> {
    provider: &'a dyn Provider,
    order: &'a Order,
    /// The conditions that a package makes hold.
    met_by: HashMap<PackageId, Vec<u32>>,
    numbered: RefCell<Numbered>,
}

struct Numbered {
    solvables: Numbering<Solvable>,
    names: Numbering<Name>,
    version_sets: Numbering<VersionSet>,
    unions: Numbering<Vec<VersionSetId>>,
    conditions: Numbering<ConditionKey>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ConditionKey {
    Holds(VersionSetId),
    Both(ConditionId, ConditionId),
}

impl<'a> World<'a> {
    fn new(provider: &'a dyn Provider, order: &'a Order) -> Self {
        let mut met_by: HashMap<PackageId, Vec<u32>> = HashMap::new();
        for (number, packages) in (0u32..).zip(provider.conditions()) {
            for package in packages {
                met_by.entry(*package).or_default().push(number);
            }
        }
        let numbered = Numbered {
            solvables: Numbering::new(),
            names: Numbering::new(),
            version_sets: Numbering::new(),
            unions: Numbering::new(),
            conditions: Numbering::new(),
        };
        Self { provider, order, met_by, numbered: RefCell::new(numbered) }
    }

    fn package(&self, solvable: SolvableId) -> Option<PackageId> {
        match self.numbered.borrow().solvables.items[solvable.into_raw() as usize] {
            Solvable::Package(package) => Some(package),
            Solvable::Helper(_) => None,
        }
    }

    fn solvable(&self, solvable: Solvable) -> SolvableId {
        SolvableId::from_raw(self.numbered.borrow_mut().solvables.number(solvable))
    }

    fn name(&self, name: Name) -> NameId {
        NameId::from_raw(self.numbered.borrow_mut().names.number(name))
    }

    fn version_set(&self, set: VersionSet) -> VersionSetId {
        VersionSetId(self.numbered.borrow_mut().version_sets.number(set))
    }

    fn only(&self, solvable: Solvable) -> VersionSetId {
        let solvable = self.solvable(solvable);
        self.version_set(VersionSet::Only(solvable.into_raw()))
    }

    fn requirement(&self, need: &Need) -> ConditionalRequirement {
        let choices = self.order.sort(&need.choices);
        let sets: Vec<_> = choices.into_iter().map(|choice| self.only(Solvable::Package(choice))).collect();
        let requirement = match sets.as_slice() {
            [] => Requirement::Single(self.version_set(VersionSet::Unmet(need.text.clone()))),
            [one] => Requirement::Single(*one),
            _ => Requirement::Union(VersionSetUnionId(self.numbered.borrow_mut().unions.number(sets))),
        };
        let condition = need.when.iter().fold(None, |all: Option<ConditionId>, condition| {
            let holds = ConditionKey::Holds(self.only(Solvable::Helper(condition.0)));
            let one = self.condition(holds);
            Some(match all {
                Some(all) => self.condition(ConditionKey::Both(all, one)),
                None => one,
            })
        });
        ConditionalRequirement { condition, requirement }
    }

    fn condition(&self, key: ConditionKey) -> ConditionId {
        ConditionId::new(self.numbered.borrow_mut().conditions.number(key))
    }

    /// One constraint for each group that the clash touches.
    fn constraints(&self, package: PackageId, clash: &Clash) -> Vec<VersionSetId> {
        let mut by_group: Vec<(GroupId, Vec<SolvableId>)> = Vec::new();
        for other in clash.with.iter().filter(|other| **other != package) {
            let group = self.provider.group(*other);
            let solvable = self.solvable(Solvable::Package(*other));
            match by_group.iter_mut().find(|(known, _)| *known == group) {
                Some((_, members)) => members.push(solvable),
                None => by_group.push((group, vec![solvable])),
            }
        }
        let sets = by_group.into_iter().map(|(group, mut members)| {
            members.sort();
            members.dedup();
            let name = self.name(Name::Group(group));
            self.version_set(VersionSet::AllBut(name, members))
        });
        sets.collect()
    }

    fn choices(&self, requirement: Requirement) -> Vec<PackageId> {
        let numbered = self.numbered.borrow();
        let sets = match requirement {
            Requirement::Single(set) => vec![set],
            Requirement::Union(union) => numbered.unions.items[union.0 as usize].clone(),
        };
        let solvables =
            sets.into_iter().filter_map(|set| match &numbered.version_sets.items[set.0 as usize] {
                VersionSet::Only(solvable) => Some(numbered.solvables.items[*solvable as usize]),
                _ => None,
            });
        let packages = solvables.filter_map(|solvable| match solvable {
            Solvable::Package(package) => Some(package),
            Solvable::Helper(_) => None,
        });
        packages.collect()
    }

    fn text(&self, requirement: Requirement) -> String {
        let numbered = self.numbered.borrow();
        match requirement {
            Requirement::Single(set) => match &numbered.version_sets.items[set.0 as usize] {
                VersionSet::Unmet(text) => text.clone(),
                _ => String::new(),
            },
            Requirement::Union(_) => String::new(),
        }
    }
}

impl Interner for World<'_> {
    type NameId = NameId;
    type SolvableId = SolvableId;

    fn display_solvable(&self, solvable: SolvableId) -> impl Display + '_ {
        match self.package(solvable) {
            Some(package) => {
                let identity = self.provider.identity(package);
                format!("{} {}", identity.name, identity.version)
            }
            None => "a condition".to_string(),
        }
    }

    fn display_name(&self, name: NameId) -> impl Display + '_ {
        format!("name {}", name.into_raw())
    }

    fn display_version_set(&self, set: VersionSetId) -> impl Display + '_ {
        format!("set {}", set.0)
    }

    fn display_string(&self, string: StringId) -> impl Display + '_ {
        format!("text {}", string.0)
    }

    fn version_set_name(&self, set: VersionSetId) -> NameId {
        let set = self.numbered.borrow().version_sets.items[set.0 as usize].clone();
        match set {
            VersionSet::Only(solvable) => self.solvable_name(SolvableId::from_raw(solvable)),
            VersionSet::AllBut(name, _) => name,
            VersionSet::Unmet(_) => self.name(Name::Nothing),
        }
    }

    fn solvable_name(&self, solvable: SolvableId) -> NameId {
        let solvable = self.numbered.borrow().solvables.items[solvable.into_raw() as usize];
        match solvable {
            Solvable::Package(package) => self.name(Name::Group(self.provider.group(package))),
            Solvable::Helper(condition) => self.name(Name::Helper(condition)),
        }
    }

    fn version_sets_in_union(&self, union: VersionSetUnionId) -> impl Iterator<Item = VersionSetId> {
        self.numbered.borrow().unions.items[union.0 as usize].clone().into_iter()
    }

    fn resolve_condition(&self, condition: ConditionId) -> Condition {
        match self.numbered.borrow().conditions.items[condition.as_u32() as usize] {
            ConditionKey::Holds(set) => Condition::Requirement(set),
            ConditionKey::Both(left, right) => Condition::Binary(LogicalOperator::And, left, right),
        }
    }
}

impl DependencyProvider for World<'_> {
    async fn filter_candidates(
        &self,
        candidates: &[SolvableId],
        set: VersionSetId,
        inverse: bool,
    ) -> Vec<SolvableId> {
        let numbered = self.numbered.borrow();
        let set = &numbered.version_sets.items[set.0 as usize];
        let matches = |candidate: &SolvableId| match set {
            VersionSet::Only(only) => candidate.into_raw() == *only,
            VersionSet::AllBut(_, excluded) => !excluded.contains(candidate),
            VersionSet::Unmet(_) => false,
        };
        candidates.iter().copied().filter(|candidate| matches(candidate) != inverse).collect()
    }

    async fn get_candidates(&self, name: NameId) -> Option<Candidates> {
        let name = self.numbered.borrow().names.items[name.into_raw() as usize];
        let candidates = match name {
            Name::Group(group) => {
                let members = self.provider.members(group).into_iter();
                members.map(|member| self.solvable(Solvable::Package(member))).collect()
            }
            Name::Helper(condition) => vec![self.solvable(Solvable::Helper(condition))],
            Name::Nothing => Vec::new(),
        };
        let hint_dependencies_available = HintDependenciesAvailable::None;
        Some(Candidates { candidates, hint_dependencies_available, ..Candidates::default() })
    }

    async fn sort_candidates(&self, _: &SolverCache<Self>, solvables: &mut [SolvableId]) {
        // Every version set of a need has one member: there is nothing to sort.
        debug_assert!(solvables.len() <= 1);
    }

    async fn get_dependencies(&self, solvable: SolvableId) -> Dependencies {
        let Some(package) = self.package(solvable) else {
            return Dependencies::Known(KnownDependencies::default());
        };
        let needs = self.provider.needs(package);
        let own = needs.iter().filter(|need| !need.weak && !need.choices.contains(&package));
        let mut requirements: Vec<_> = own.map(|need| self.requirement(need)).collect();
        for condition in self.met_by.get(&package).into_iter().flatten() {
            requirements.push(self.only(Solvable::Helper(*condition)).into());
        }
        let clashes = self.provider.clashes(package);
        let constrains = clashes.iter().flat_map(|clash| self.constraints(package, clash)).collect();
        Dependencies::Known(KnownDependencies { requirements, constrains })
    }
}
