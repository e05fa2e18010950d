//! Whether a set of packages is a solution: every need met, no clash, one of each group.

use crate::packages::provider::{Need, PackageId, Provider};
use std::collections::HashSet;

pub(super) fn stands(
    provider: &dyn Provider,
    roots: &[Need],
    baseline: &[Need],
    installed: &HashSet<PackageId>,
) -> bool {
    let conditions = provider.conditions();
    let any = |packages: &[PackageId]| packages.iter().any(|package| installed.contains(package));
    let met = |need: &Need| {
        let counts = need.when.iter().all(|when| conditions.get(when.0 as usize).is_some_and(|c| any(c)));
        need.weak || !counts || any(&need.choices)
    };
    let mut groups = HashSet::with_capacity(installed.len());
    roots.iter().chain(baseline).all(met)
        && installed.iter().all(|package| {
            groups.insert(provider.group(*package))
                && provider.needs(*package).iter().all(met)
                && !provider.clashes(*package).iter().any(|clash| any(&clash.with))
        })
}
