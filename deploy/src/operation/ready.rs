//! Preparing an operation, and running what was prepared: at once, or a day later from another process.
//!
//! Preparing takes no lock and changes nothing, so anybody may look at any time. Running takes the cluster's lock, and
//! looks again where anything may have happened in between.

use super::prepare::{MadeFrom, Prepared};
use super::request::{Goal, InstallRequest, Options};
use super::verdict::{judge, tell};
use super::whole::Envelope;
use super::{Installed, install, survey, upgrade};
use crate::blocking::blocking;
use crate::config::{Config, Host};
use crate::facts::Manager;
use crate::journal::{Approval, Journal, JournalError, JournalView};
use crate::node::Surveyed;
use crate::phases::steps;
use crate::plan::{self, Known, NodePlan, PackageFormat, Plan, PlanError};
use crate::state;
use eggo_bundles::{Digest, Index};
use eggo_errors::Report;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What was prepared, with the nodes as they were found: it can be run at once, over the same connections.
pub struct Ready {
    prepared: Prepared,
    approval: Approval,
    found: Found,
    is_told: bool,
    request: InstallRequest,
    envelope: Envelope,
}

struct Found {
    nodes: Vec<Surveyed>,
    /// How far the journal went when the nodes were looked at.
    records: usize,
}

/// Looks at the nodes and decides what would be done. Takes no lock; the nodes need not be fit for it.
pub async fn prepare(mut request: InstallRequest) -> Result<Ready, Report> {
    let mut envelope = Envelope::begin(request.options.goal.operation(), &mut request)?;
    match envelope.part(look(&request)).await {
        Ok((prepared, found)) => {
            let approval = prepared.approval()?;
            Ok(Ready { prepared, approval, found, is_told: false, request, envelope })
        }
        Err(report) => envelope.end(Err(report)),
    }
}

/// Runs what was approved, if a look at the nodes gives the same plan once more.
pub async fn run(request: InstallRequest, approved: &Prepared) -> Result<Installed, Report> {
    approved.check()?;
    prepare(request).await?.fit()?.approved(approved.digest).await?.run().await
}

impl Ready {
    /// To be shown, or kept for an approval later.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// An error if any node is not fit. What does not stop the operation is still said.
    pub fn fit(mut self) -> Result<Self, Report> {
        if !std::mem::replace(&mut self.is_told, true) {
            tell(&self.prepared, &*self.request.events);
        }
        match self.prepared.verdict.decide() {
            Ok(()) => Ok(self),
            Err(unfit) => self.envelope.end(Err(unfit.into())),
        }
    }

    /// An error if `digest` is not that of this plan, nor of one that has begun and goes on with this.
    pub async fn approved(mut self, digest: Digest) -> Result<Self, Report> {
        let state = self.request.state.clone();
        let accepted = async { accept(&self.prepared, digest, &read(&state).await?) };
        match self.envelope.part(accepted).await {
            Ok(approval) => Ok(Self { approval, ..self }),
            Err(report) => self.envelope.end(Err(report)),
        }
    }

    /// Nobody wants it: how the operation ends then.
    pub fn decline(self) -> Report {
        let report = Report::new("stopped: nothing was changed").code("declined");
        self.envelope.end::<()>(Err(report.clone())).err().unwrap_or(report)
    }

    /// Does it.
    pub async fn run(self) -> Result<Installed, Report> {
        let Self { prepared, approval, found, request, mut envelope, .. } = self.fit()?;
        let work = async {
            let state = request.state.clone();
            let journal = blocking(move || Journal::open(&state)).await?;
            // Whoever had the lock meanwhile may have changed the nodes.
            let (prepared, found) = match journal.records() == found.records {
                true => (prepared, found),
                false => {
                    let (again, found) = look(&request).await?;
                    accept(&again, approval.digest, &journal)?;
                    again.verdict.decide()?;
                    (again, found)
                }
            };
            match request.options.goal {
                Goal::Install | Goal::Join => {
                    install::carry_out(request, journal, prepared, found.nodes, approval).await
                }
                Goal::Upgrade => upgrade::carry_out(request, journal, prepared, found.nodes, approval).await,
            }
        };
        let result = envelope.part(work).await;
        envelope.end(result)
    }
}

async fn look(request: &InstallRequest) -> Result<(Prepared, Found), Report> {
    let InstallRequest { config, access, index, state, options, events, .. } = request;
    match options.goal {
        Goal::Install | Goal::Join => options.selection.check(&install::phases())?,
        Goal::Upgrade => {
            options.selection.check(&upgrade::phases())?;
            upgrade::version(index)?;
            if !state::was_made(state) {
                return Err(state::none(config, state));
            }
        }
    }
    let journal = read(state).await?;
    let nodes = survey(&config.hosts, access, events).await?;
    let plan = Arc::new(plan(config, index, &known(&nodes), options)?);
    let versions = match options.goal {
        Goal::Install | Goal::Join => None,
        Goal::Upgrade => Some(upgrade::versions(request, &nodes).await?),
    };
    let verdict = judge(request, &nodes, &plan, &journal).await?;
    let made_from = MadeFrom::new(config, index)?;
    let plan = Arc::unwrap_or_clone(plan);
    let prepared = Prepared::new(options.clone(), made_from, plan, versions, verdict)?;
    Ok((prepared, Found { nodes, records: journal.records() }))
}

/// What an operation would do, from what is known of the nodes, without I/O. See [`plan::plan`].
pub fn plan(
    config: &Config,
    index: &Index,
    known: &BTreeMap<String, Known<'_>>,
    options: &Options,
) -> Result<Plan, PlanError> {
    let selection = &options.selection;
    match options.goal {
        Goal::Install | Goal::Join => {
            let list = install::phases();
            let steps =
                |config: &Config, host: &Host, node: &NodePlan| steps(&list, selection, config, host, node);
            plan::plan(config, index, known, options.plan, &steps)
        }
        Goal::Upgrade => {
            let list = upgrade::phases();
            let steps =
                |config: &Config, host: &Host, node: &NodePlan| steps(&list, selection, config, host, node);
            plan::plan(config, index, known, options.plan, &steps)
        }
    }
}

fn known(nodes: &[Surveyed]) -> BTreeMap<String, Known<'_>> {
    let known = nodes.iter().map(|node| {
        let packages = node.facts.manager.map(|manager| match manager {
            Manager::Dpkg => PackageFormat::Deb,
            Manager::Rpm => PackageFormat::Rpm,
        });
        let content = node.facts.store.whole.keys().copied().collect();
        (node.host.name.clone(), Known { packages, content, facts: Some(&node.facts) })
    });
    known.collect()
}

async fn read(state: &Path) -> Result<JournalView, JournalError> {
    let state = state.to_path_buf();
    blocking(move || Journal::read(&state)).await
}

/// What runs in the end: this plan, or one that was approved, has begun, and comes to the same by this.
fn accept(now: &Prepared, approved: Digest, journal: &JournalView) -> Result<Approval, Report> {
    let approval = now.approval()?;
    if approval.digest == approved {
        return Ok(approval);
    }
    let goes_on = |begun: &Approval| begun.digest == approved && begun.target == approval.target;
    journal.begun().filter(goes_on).ok_or_else(|| {
        Report::new("the plan is not the one that was approved: nothing was changed")
            .code("plan-changed")
            .note(format!("approved {approved}"))
            .note(format!("now      {}", approval.digest))
            .hinted("look at the plan again with `eggo-install plan`, and approve that one")
    })
}
