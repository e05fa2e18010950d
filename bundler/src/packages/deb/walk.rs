//! What apt would install: its depth-first marking (`pkgDepCache::MarkInstall` of apt 2.6),
//! step by step, without its repair of what goes wrong.
//!
//! Each package is marked, then its needs are met one by one: an installed or marked choice
//! will do, else the first in apt's order that can be marked with all it needs. A package
//! whose needs cannot be met is given up. *Protected* packages, those asked for and what they
//! need without a choice, may not be given up, and what they clash with is ruled out.
//! Where this ends in contradictions the solver's search takes over.

use super::world::World;
use crate::packages::provider::{Need, PackageId, Provider};
use std::collections::HashMap;

/// Deeper chains are given up, as apt does.
const MAX_DEPTH: usize = 3000;

#[derive(Debug, Clone, Copy, Default)]
struct State {
    marked: bool,
    protected: bool,
    /// Ruled out for good.
    discarded: bool,
}

struct Walk<'w, 'a> {
    world: &'w World<'a>,
    states: HashMap<PackageId, State>,
}

pub(super) fn walk(world: &World<'_>, roots: &[Need]) -> Vec<PackageId> {
    let mut walk = Walk { world, states: HashMap::new() };
    let mut asked: Vec<PackageId> = roots.iter().filter_map(|root| root.choices.first().copied()).collect();
    asked.retain(|id| !world.is_installed(*id));
    for id in &asked {
        let state = walk.state(*id);
        (state.marked, state.protected) = (true, true);
    }
    // apt goes through them in the order in which it heard of them.
    asked.sort_by_key(|id| world.rank(*id));
    asked.dedup();
    for id in asked {
        walk.mark(id, Asked::ByUser, 0);
    }
    let mut marked: Vec<_> =
        walk.states.iter().filter(|(_, state)| state.marked).map(|(id, _)| *id).collect();
    marked.sort();
    marked
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    ByUser,
    ByPackage,
}

impl Walk<'_, '_> {
    fn state(&mut self, id: PackageId) -> &mut State {
        self.states.entry(id).or_default()
    }

    fn get(&self, id: PackageId) -> State {
        self.states.get(&id).copied().unwrap_or_default()
    }

    fn is_there(&self, id: PackageId) -> bool {
        self.get(id).marked || (self.world.is_installed(id) && !self.is_replaced(id))
    }

    /// An installed package of which another version is marked.
    fn is_replaced(&self, id: PackageId) -> bool {
        let members = self.world.members(self.world.group(id));
        members.into_iter().any(|other| other != id && self.get(other).marked)
    }

    fn is_met(&self, need: &Need) -> bool {
        need.choices.iter().any(|choice| self.is_there(*choice))
    }

    fn is_broken(&self, id: PackageId) -> bool {
        let lowered = self.world.lowered(id);
        lowered.needs.iter().any(|need| !need.weak && !self.is_met(need))
            || lowered.clashes.iter().any(|clash| clash.with.iter().any(|other| self.is_there(*other)))
    }

    /// Marks `id` and all that it needs; `false` if that failed.
    fn mark(&mut self, id: PackageId, asked: Asked, depth: usize) -> bool {
        if self.world.is_installed(id) {
            return true;
        }
        let before = self.get(id);
        if depth > MAX_DEPTH
            || before.discarded
            || (before.protected && !before.marked && asked != Asked::ByUser)
        {
            return false;
        }
        if before.marked && !before.protected && !self.is_broken(id) {
            return true;
        }
        let may_fail = !before.protected && asked != Asked::ByUser;
        let lowered = self.world.lowered(id);
        // Which needs are open is decided now; meeting the first may meet the others.
        let open: Vec<usize> = (0..lowered.needs.len())
            .filter(|number| before.protected || !self.is_met(&lowered.needs[*number]))
            .collect();
        let mut failed = false;
        if !self.rule_out_clashes(id, before.protected, may_fail) {
            if may_fail {
                return false;
            }
            failed = true;
        }
        let state = self.state(id);
        (state.marked, state.protected) = (true, true);
        for number in open {
            let need = &lowered.needs[number];
            if !self.meet(need, before.protected, depth) && !need.weak {
                failed = true;
                if may_fail {
                    break;
                }
            }
        }
        let state = self.state(id);
        state.protected = before.protected;
        if failed && may_fail {
            (state.marked, state.discarded) = (false, true);
        }
        !failed
    }

    /// Unmarks what `id` clashes with, where that is allowed.
    fn rule_out_clashes(&mut self, id: PackageId, protected: bool, may_fail: bool) -> bool {
        let mut done = true;
        let lowered = self.world.lowered(id);
        for clash in &lowered.clashes {
            if !protected && !clash.with.iter().any(|other| self.is_there(*other)) {
                continue;
            }
            for other in &clash.with {
                let is_installed = self.world.is_installed(*other);
                let state = self.state(*other);
                if is_installed || (state.marked && state.protected) {
                    done = false;
                    if may_fail {
                        return false;
                    }
                    continue;
                }
                state.marked = false;
                if protected {
                    (state.discarded, state.protected) = (true, true);
                }
            }
        }
        done
    }

    fn meet(&mut self, need: &Need, protected: bool, depth: usize) -> bool {
        let possible = self.possible(need);
        if self.is_met(need) {
            // What a protected package needs without a choice is protected too.
            if let ([only], true, false) = (possible.as_slice(), protected, need.weak)
                && !self.get(*only).protected
                && !self.world.is_installed(*only)
            {
                self.state(*only).protected = true;
                return self.mark(*only, Asked::ByPackage, depth + 1);
            }
            return true;
        }
        for choice in &possible {
            if self.get(*choice).discarded {
                continue;
            }
            if protected && !need.weak && possible.len() == 1 {
                let state = self.get(*choice);
                if state.protected && !state.marked {
                    continue;
                }
                let state = self.state(*choice);
                (state.marked, state.protected) = (true, true);
            }
            if self.mark(*choice, Asked::ByPackage, depth + 1) {
                return true;
            }
        }
        false
    }

    /// The choices that are not ruled out.
    fn possible(&self, need: &Need) -> Vec<PackageId> {
        let usable = |id: &PackageId| {
            let state = self.get(*id);
            !state.discarded && (state.marked || !state.protected)
        };
        need.choices.iter().copied().filter(usable).collect()
    }
}
