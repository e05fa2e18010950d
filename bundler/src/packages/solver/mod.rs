//! Which packages, given what was asked for: a CDCL search (`resolvo`) over a [`Provider`].
//!
//! Wherever the provider's guess of what apt or dnf would do stands as a solution, it *is* the
//! answer; where it does not, it orders the choices of a search that backtracks. Nothing
//! depends on hash order or time: the same world and requests give the same solution.
//!
//! Not here: what a dependency means (the providers), and what an error looks like on a
//! terminal (the command line).

mod encoding;
mod explain;
mod proof;

pub use explain::Unsolvable;

use super::provider::{Need, PackageId, Provider};
use eggo_bundles::Role;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

/// A package that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `text` as it is in the manifest, choices best first.
    pub need: Need,
    /// Where it was asked for: "`bundle.yaml` line 14, role `node`".
    pub asked_by: String,
    pub roles: BTreeSet<Role>,
}

/// The packages to install, without those that a target already has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Solution {
    pub chosen: BTreeMap<PackageId, Chosen>,
    /// What was needed and is met by what a target already has: the need as written, and
    /// the package that meets it.
    pub met_by_baseline: BTreeSet<(String, PackageId)>,
}

/// Why a package is part of a solution, and for whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    pub required_by: BTreeSet<Requirer>,
    pub roles: BTreeSet<Role>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requirer {
    /// The request of this number.
    Request(usize),
    Package(PackageId),
    /// It replaces a package of the baseline that could not stay.
    Baseline(PackageId),
}

/// Finds the packages that meet all `requests` together.
pub fn solve(provider: &dyn Provider, requests: &[Request]) -> Result<Solution, Unsolvable> {
    let baseline = provider.baseline();
    let roots: Vec<Need> = requests.iter().map(|request| request.need.clone()).collect();
    let order = Order { guess: provider.guess(&roots).into_iter().collect() };
    let guessed = with_baseline(&order.guess, &baseline);
    let installed = if proof::stands(provider, &roots, &baseline, &guessed) {
        guessed
    } else {
        encoding::search(provider, &order, &roots, &baseline)
            .map_err(|refutation| explain::explain(provider, requests, &baseline, &refutation))?
    };
    debug_assert!(proof::stands(provider, &roots, &baseline, &installed));
    Ok(sweep(provider, &order, requests, &baseline, &installed))
}

/// The needs of the requested packages that nothing in this world meets.
pub fn unmet(provider: &dyn Provider, requests: &[Request]) -> BTreeSet<String> {
    let packages = requests.iter().flat_map(|request| &request.need.choices);
    let needs = packages.flat_map(|package| provider.needs(*package));
    let unmet = needs.filter(|need| need.choices.is_empty() && need.when.is_empty() && !need.weak);
    unmet.map(|need| need.text).collect()
}

/// The guess beside what a target has, less what the guess replaces.
fn with_baseline(guess: &HashSet<PackageId>, baseline: &[Need]) -> HashSet<PackageId> {
    let stays = |need: &&Need| !need.choices.iter().any(|choice| guess.contains(choice));
    let kept = baseline.iter().filter(stays).filter_map(|need| need.choices.first());
    guess.iter().chain(kept).copied().collect()
}

/// In which order the choices of a need are tried.
pub(crate) struct Order {
    guess: HashSet<PackageId>,
}

impl Order {
    /// The guessed ones first, otherwise as the provider gave them.
    fn sort(&self, choices: &[PackageId]) -> Vec<PackageId> {
        let (guessed, others): (Vec<_>, Vec<_>) =
            choices.iter().copied().partition(|choice| self.guess.contains(choice));
        guessed.into_iter().chain(others).collect()
    }
}

/// Walks from the requests over what was installed: keeps what is reached, notes who needed
/// it and for which roles. A search that went back may leave packages behind that nobody
/// needs any more; they end here.
fn sweep(
    provider: &dyn Provider,
    order: &Order,
    requests: &[Request],
    baseline: &[Need],
    installed: &HashSet<PackageId>,
) -> Solution {
    let mut sweep =
        Sweep { provider, order, installed, solution: Solution::default(), queue: VecDeque::new() };
    for (number, request) in requests.iter().enumerate() {
        sweep.reach(&request.need, Requirer::Request(number), &request.roles);
    }
    sweep.drain();
    // A package of the baseline that had to go takes its replacement along.
    let every_role: BTreeSet<Role> = requests.iter().flat_map(|request| request.roles.clone()).collect();
    for need in baseline {
        let kept = need.choices.iter().find(|choice| installed.contains(choice));
        let replaced = need.choices.first().filter(|first| !installed.contains(first));
        if let (Some(kept), Some(replaced)) = (kept, replaced)
            && !sweep.solution.chosen.contains_key(kept)
        {
            sweep.choose(*kept, Requirer::Baseline(*replaced), &every_role);
        }
    }
    sweep.drain();
    sweep.solution
}

struct Sweep<'a> {
    provider: &'a dyn Provider,
    order: &'a Order,
    installed: &'a HashSet<PackageId>,
    solution: Solution,
    queue: VecDeque<PackageId>,
}

impl Sweep<'_> {
    fn reach(&mut self, need: &Need, by: Requirer, roles: &BTreeSet<Role>) {
        let conditions = self.provider.conditions();
        let holds = |packages: &Vec<PackageId>| packages.iter().any(|p| self.installed.contains(p));
        if !need.when.iter().all(|condition| conditions.get(condition.0 as usize).is_some_and(holds)) {
            return;
        }
        let choices = self.order.sort(&need.choices);
        if let Some(choice) = choices.into_iter().find(|choice| self.installed.contains(choice)) {
            if self.provider.is_installed(choice) {
                self.solution.met_by_baseline.insert((need.text.clone(), choice));
            } else if by != Requirer::Package(choice) {
                self.choose(choice, by, roles);
            }
        }
    }

    fn choose(&mut self, package: PackageId, by: Requirer, roles: &BTreeSet<Role>) {
        let is_new = !self.solution.chosen.contains_key(&package);
        let chosen = self.solution.chosen.entry(package).or_default();
        chosen.required_by.insert(by);
        let before = chosen.roles.len();
        chosen.roles.extend(roles);
        // A package seen before goes round again only to hand new roles on.
        if is_new || chosen.roles.len() > before {
            self.queue.push_back(package);
        }
    }

    fn drain(&mut self) {
        while let Some(package) = self.queue.pop_front() {
            let roles = self.solution.chosen[&package].roles.clone();
            for need in self.provider.needs(package) {
                self.reach(&need, Requirer::Package(package), &roles);
            }
        }
    }
}
