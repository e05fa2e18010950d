//! Whether the nodes are fit for what is asked for: one answer for everybody who asks.

use super::prepare::Prepared;
use super::request::{Goal, InstallRequest};
use super::survey::on_this_machine;
use super::upgrade;
use crate::blocking::blocking;
use crate::events::{Event, Sink};
use crate::journal::JournalView;
use crate::node::{Planned, Surveyed};
use crate::plan::Plan;
use crate::preflight::{self, Circumstances, Heads, Level, Verdict};
use crate::run::Named as _;
use crate::state;
use crate::version::Version;
use eggo_errors::Report;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Every check on every node.
pub(super) async fn judge(
    request: &InstallRequest,
    surveyed: &[Surveyed],
    plan: &Arc<Plan>,
    journal: &JournalView,
) -> Result<Verdict, Report> {
    let InstallRequest { config, access, source, state, options, .. } = request;
    let entries = journal.entries();
    let touched: BTreeSet<&str> = entries.iter().map(|entry| entry.node.as_str()).collect();
    let ours = surveyed.iter().filter(|node| {
        let claim = node.facts.claim.as_ref();
        let same = claim.is_some_and(|claim| journal.mark(node.name()).as_ref() == Some(&claim.mark));
        same && touched.contains(node.name())
    });
    let ours = ours.map(|node| node.host.name.clone()).collect();
    let foreign = surveyed.iter().filter(|node| {
        let claim = node.facts.claim.as_ref();
        claim.is_some_and(|claim| !journal.holds(claim))
    });
    let foreign = foreign.map(|node| node.host.name.clone()).collect();
    let (planned, source) = (plan.clone(), source.clone());
    let heads = blocking(move || {
        preflight::check_archs(&planned, &*source)?;
        Heads::read(&planned, &*source)
    });
    let heads = heads.await?;
    let circumstances = Circumstances {
        config,
        state,
        heads: &heads,
        ours,
        foreign,
        take_over: options.take_over,
        this_machine: on_this_machine(config),
        limits: access.limits(),
        kubernetes: kubernetes(request),
    };
    Ok(preflight::check(&circumstances, &Planned::all(surveyed, plan), &options.ignore).await)
}

/// The Kubernetes in the bundle, where a cluster exists that only an upgrade may bring to it.
fn kubernetes(request: &InstallRequest) -> Option<Version> {
    let carried = upgrade::version(&request.index).ok().filter(Version::is_known);
    carried.filter(|_| request.options.goal != Goal::Upgrade && state::was_made(&request.state))
}

/// What does not stop the operation is still said.
pub(super) fn tell(prepared: &Prepared, events: &dyn Sink) {
    for finding in prepared.verdict.findings.iter().filter(|finding| finding.level != Level::Error) {
        events.event(Event::warning(
            Some(&finding.node),
            format!("{}: {}", finding.check.as_str(), finding.message),
        ));
    }
    let Some(upgrade) = &prepared.upgrade else { return };
    let (to, changes) = (upgrade.to, upgrade.masters.iter().chain(&upgrade.workers));
    for change in changes.filter(|change| change.from != to) {
        events.event(Event::note(Some(&change.node), format!("{} → {to}", change.from)));
    }
}
