//! What dnf would install. Where a requirement leaves a choice, libsolv decides in an order of
//! its own; this follows that order, so that the same names give the same packages.
//!
//! 1. What was asked for is decided first.
//! 2. Whatever follows from the decisions so far (only one candidate left, none left) is
//!    followed at once.
//! 3. Open requirements are visited from the last package of the metadata to the first, round
//!    and round, going on behind the last decision.
//! 4. Of the candidates those of the native arch stay, of each name the newest, none that
//!    another one obsoletes, and, if any was recommended by what is decided, only such; then the
//!    first by name is taken, what is suggested before the rest.
//! 5. At the end a choice whose alternative came in later anyway is decided again for that one.
//!
//! There is no backtracking here: the solver proves the guess, and searches if it does not hold.

use super::super::provider::{ConditionId, Need, PackageId, Provider};
use super::world::World;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// Step 5 ends after this many rounds at the latest.
const MAX_ROUNDS: usize = 64;

pub(super) fn guess(world: &World, roots: &[Need]) -> Vec<u32> {
    let rules = Rules::new(world, roots);
    let mut forced: HashMap<usize, u32> = HashMap::new();
    let mut best = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let mut run = Run::new(world, &rules);
        let complete = run.decide(&forced);
        let better = run.superseded();
        best = run.installed();
        match better {
            Some((rule, alternative))
                if complete && forced.insert(rule, alternative) != Some(alternative) => {}
            _ => break,
        }
    }
    best
}

/// "If `head` is installed and all of `when` hold, one of `choices` is."
struct Rule {
    /// `None`: asked for by the user.
    head: Option<u32>,
    when: Vec<ConditionId>,
    choices: Vec<u32>,
}

/// The rules of every package that could come in, in the order in which they are visited.
struct Rules {
    list: Vec<Rule>,
    /// How many at the front are requests.
    requests: usize,
    of_head: HashMap<u32, Vec<usize>>,
    of_choice: HashMap<u32, Vec<usize>>,
    of_condition: HashMap<u32, Vec<usize>>,
    clashes: HashMap<u32, Vec<u32>>,
}

impl Rules {
    fn new(world: &World, roots: &[Need]) -> Self {
        let rule = |head: Option<u32>, need: &Need| {
            let mut choices: Vec<u32> = need.choices.iter().map(|choice| choice.0).collect();
            choices.sort_unstable();
            Rule { head, when: need.when.clone(), choices }
        };
        let mut list: Vec<Rule> = roots.iter().map(|need| rule(None, need)).collect();
        let requests = list.len();
        let mut seen: HashSet<u32> = HashSet::new();
        let mut queue: VecDeque<u32> = list.iter().flat_map(|rule| rule.choices.clone()).collect();
        let mut clashes: HashMap<u32, Vec<u32>> = HashMap::new();
        while let Some(id) = queue.pop_front() {
            if !seen.insert(id) {
                continue;
            }
            for need in world.lowered_needs(id).iter().filter(|need| !need.weak) {
                queue.extend(need.choices.iter().map(|choice| choice.0));
                list.push(rule(Some(id), need));
            }
            for other in world.clashes(PackageId(id)).into_iter().flat_map(|clash| clash.with) {
                clashes.entry(id).or_default().push(other.0);
                clashes.entry(other.0).or_default().push(id);
            }
        }
        list[requests..].sort_by(|l, r| r.head.cmp(&l.head).then_with(|| l.choices.cmp(&r.choices)));
        let mut rules = Self {
            list,
            requests,
            of_head: HashMap::new(),
            of_choice: HashMap::new(),
            of_condition: HashMap::new(),
            clashes,
        };
        rules.index(world);
        rules
    }

    fn index(&mut self, world: &World) {
        for (number, rule) in self.list.iter().enumerate() {
            if let Some(head) = rule.head {
                self.of_head.entry(head).or_default().push(number);
            }
            for choice in &rule.choices {
                self.of_choice.entry(*choice).or_default().push(number);
            }
            for condition in &rule.when {
                for package in &world.conditions()[condition.0 as usize] {
                    self.of_condition.entry(package.0).or_default().push(number);
                }
            }
        }
    }
}

/// A choice that was made: by which rule, among whom, and when.
struct Branch {
    rule: usize,
    chosen: u32,
    alternatives: Vec<u32>,
    time: usize,
}

struct Run<'a> {
    world: &'a World,
    rules: &'a Rules,
    /// In or out; a package that is missing here is still open.
    decided: HashMap<u32, bool>,
    /// When a package came in, counted in choices.
    came_in: BTreeMap<u32, usize>,
    recommended: HashSet<u32>,
    suggested: HashSet<u32>,
    branches: Vec<Branch>,
    queue: VecDeque<(u32, bool)>,
}

impl<'a> Run<'a> {
    fn new(world: &'a World, rules: &'a Rules) -> Self {
        Self {
            world,
            rules,
            decided: HashMap::new(),
            came_in: BTreeMap::new(),
            recommended: HashSet::new(),
            suggested: HashSet::new(),
            branches: Vec::new(),
            queue: VecDeque::new(),
        }
    }

    /// Returns whether every requirement ended met.
    fn decide(&mut self, forced: &HashMap<usize, u32>) -> bool {
        for baseline in self.world.baseline() {
            self.queue.extend(baseline.choices.first().map(|id| (id.0, true)));
        }
        // Packages that need what nobody has can never come in.
        for rule in self.rules.list.iter().filter(|rule| rule.choices.is_empty() && rule.when.is_empty()) {
            self.queue.extend(rule.head.map(|head| (head, false)));
        }
        if !self.propagate() {
            return false;
        }
        let all = self.rules.list.len();
        for number in 0..self.rules.requests {
            if !self.settle(number, forced) {
                return false;
            }
        }
        let (mut number, mut quiet) = (self.rules.requests, 0);
        while quiet <= all {
            if number >= all {
                number = self.rules.requests;
            }
            if number < all && self.is_open(number) {
                if !self.settle(number, forced) {
                    return false;
                }
                quiet = 0;
            }
            number += 1;
            quiet += 1;
        }
        true
    }

    fn is_in(&self, id: u32) -> bool {
        self.decided.get(&id) == Some(&true)
    }

    fn applies(&self, rule: &Rule) -> bool {
        let conditions = self.world.conditions();
        let holds = |id: &ConditionId| conditions[id.0 as usize].iter().any(|package| self.is_in(package.0));
        rule.head.is_none_or(|head| self.is_in(head)) && rule.when.iter().all(holds)
    }

    fn is_open(&self, number: usize) -> bool {
        let rule = &self.rules.list[number];
        self.applies(rule) && !rule.choices.iter().any(|id| self.is_in(*id))
    }

    /// Chooses for a rule, and follows what the choice entails.
    fn settle(&mut self, number: usize, forced: &HashMap<usize, u32>) -> bool {
        if !self.is_open(number) {
            return true;
        }
        let rule = &self.rules.list[number];
        let open: Vec<u32> =
            rule.choices.iter().copied().filter(|id| !self.decided.contains_key(id)).collect();
        let candidates = self.prefer(open);
        let Some(first) = candidates.first().copied() else { return false };
        let chosen = forced.get(&number).copied().filter(|id| candidates.contains(id)).unwrap_or(first);
        let time = self.branches.len() + 1;
        self.branches.push(Branch { rule: number, chosen, alternatives: candidates, time });
        self.queue.push_back((chosen, true));
        self.propagate()
    }

    /// Step 4.
    fn prefer(&self, mut candidates: Vec<u32>) -> Vec<u32> {
        let world = self.world;
        let name = |id: u32| world.metadata.name(&world.metadata.packages[id as usize]);
        if let Some(best) = candidates.iter().map(|id| world.foreignness(*id)).min() {
            candidates.retain(|id| world.foreignness(*id) == best);
        }
        candidates.sort_by(|l, r| {
            let newest_first = world.evr(*r).compare(&world.evr(*l));
            name(*l).cmp(name(*r)).then(newest_first).then_with(|| l.cmp(r))
        });
        candidates.dedup_by(|next, first| name(*next) == name(*first));
        let all = candidates.clone();
        candidates.retain(|id| !all.iter().any(|other| other != id && world.obsoletes(*other, *id)));
        if candidates.is_empty() {
            candidates = all;
        }
        if candidates.iter().any(|id| self.recommended.contains(id)) {
            candidates.retain(|id| self.recommended.contains(id));
        }
        candidates.sort_by_key(|id| !self.suggested.contains(id));
        candidates
    }

    /// Step 2. Returns false on a contradiction.
    fn propagate(&mut self) -> bool {
        while let Some((id, is_in)) = self.queue.pop_front() {
            match self.decided.insert(id, is_in) {
                Some(before) if before != is_in => return false,
                Some(_) => continue,
                None => {}
            }
            let rules = self.rules;
            let mut touched: Vec<usize> = Vec::new();
            if is_in {
                self.came_in.insert(id, self.branches.len());
                let package = &self.world.metadata.packages[id as usize];
                self.recommended.extend(self.world.meeting_any(&package.recommends));
                self.suggested.extend(self.world.meeting_any(&package.suggests));
                let others = self.world.group_members(id).iter().filter(|other| **other != id);
                self.queue.extend(others.map(|other| (*other, false)));
                let clashes = rules.clashes.get(&id).into_iter().flatten();
                self.queue.extend(clashes.map(|other| (*other, false)));
                touched.extend(rules.of_head.get(&id).into_iter().flatten());
                touched.extend(rules.of_condition.get(&id).into_iter().flatten());
            } else {
                touched.extend(rules.of_choice.get(&id).into_iter().flatten());
            }
            if !touched.into_iter().all(|number| self.unit(number)) {
                return false;
            }
        }
        true
    }

    /// What a rule forces now. Returns false if it cannot be met.
    fn unit(&mut self, number: usize) -> bool {
        let rule = &self.rules.list[number];
        if rule.choices.iter().any(|id| self.is_in(*id)) {
            return true;
        }
        let mut open = rule.choices.iter().copied().filter(|id| !self.decided.contains_key(id));
        let (first, second) = (open.next(), open.next());
        let applies = self.applies(rule);
        match (first, second) {
            (Some(only), None) if applies => self.queue.push_back((only, true)),
            (None, _) if applies => return false,
            (None, _) if rule.when.is_empty() => self.queue.extend(rule.head.map(|head| (head, false))),
            _ => {}
        }
        true
    }

    /// Step 5: the last choice one of whose alternatives was installed after it.
    fn superseded(&self) -> Option<(usize, u32)> {
        self.branches.iter().rev().find_map(|branch| {
            let later = |id: &&u32| {
                **id != branch.chosen && self.came_in.get(id).is_some_and(|time| *time > branch.time)
            };
            branch.alternatives.iter().find(later).map(|id| (branch.rule, *id))
        })
    }

    fn installed(&self) -> Vec<u32> {
        self.came_in.keys().copied().filter(|id| !self.world.is_installed(PackageId(*id))).collect()
    }
}
