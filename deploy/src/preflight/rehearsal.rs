//! Whether the nodes' own package managers would take the packages: asked with stubs in their stead, before
//! anything is sent. What is there already is not asked about, so a second run asks nothing.

use super::checks::Found;
use super::{Circumstances, Level};
use crate::facts::Manager;
use crate::node::Planned;
use crate::packages::{self, PackageError, Transaction};
use bytes::Bytes;
use eggo_bundles::{Digest, Kind};
use std::collections::BTreeMap;

pub(super) async fn check(circumstances: &Circumstances<'_>, nodes: &[Planned<'_>]) -> Vec<(String, Found)> {
    let heads = circumstances.heads;
    // Nodes that get the same share the bytes.
    let mut archives: BTreeMap<Vec<Digest>, Bytes> = BTreeMap::new();
    let mut jobs = Vec::new();
    for node in nodes {
        let Some(transaction) = transaction(node) else { continue };
        let digests = transaction.install.iter().map(|item| item.sha256).collect();
        let archive = archives.entry(digests);
        let archive = archive.or_insert_with(|| packages::stubs(&transaction, |item| heads.stub(item)));
        jobs.push(ask(node, transaction.manager, archive.clone()));
    }
    circumstances.limits.each(jobs).await.into_iter().flatten().collect()
}

/// `None` where there is nothing to ask, or where other checks have told why it cannot go well.
fn transaction(node: &Planned<'_>) -> Option<Transaction> {
    let (facts, plan) = (&node.facts, node.plan);
    let items: Vec<_> = plan.of_kind(Kind::Pkg).map(|wanted| wanted.item.clone()).collect();
    let transaction = packages::decide(facts, &items).ok()?;
    let can = transaction.manager == Manager::Rpm || facts.has("apt-get");
    let worth = !transaction.install.is_empty() && packages::unmet(facts, &transaction.install).is_empty();
    (can && worth).then_some(transaction)
}

async fn ask(node: &Planned<'_>, manager: Manager, stubs: Bytes) -> Option<(String, Found)> {
    let message = match packages::rehearse(&*node.remote, manager, stubs).await {
        Ok(()) => return None,
        // On one line of the table.
        Err(PackageError::Refused { said, .. }) => {
            said.lines().map(str::trim).collect::<Vec<_>>().join("; ").replace(":; ", ": ")
        }
        Err(error) => error.to_string(),
    };
    let found = Found { level: Level::Error, message };
    Some((node.host.name.clone(), found))
}
