//! Takes a cluster off its nodes.

use super::survey::on_this_machine;
use super::whole::whole;
use super::{Access, connect};
use crate::cleanup::{self, CleanupHooks, Options};
use crate::config::Config;
use crate::events::{Event, Operation, Sink};
use crate::hooks::Hooks;
use crate::journal::Journal;
use crate::remote::Host;
use crate::run::Run;
use crate::stop::Stop;
use eggo_errors::Report;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

pub struct CleanupRequest {
    pub config: Arc<Config>,
    pub access: Access,
    /// The cluster's folder on this machine.
    pub state: PathBuf,
    pub options: Options,
    pub events: Arc<dyn Sink>,
    pub stop: Stop,
}

/// Undoes what the journal says was done; returns how many changes that were. When nothing is left,
/// the journal itself goes.
pub async fn cleanup(request: CleanupRequest) -> Result<usize, Report> {
    whole(Operation::Cleanup, request, run).await
}

async fn run(request: CleanupRequest) -> Result<usize, Report> {
    let CleanupRequest { config, access, state, mut options, events, stop } = request;
    if !state.exists() {
        return Ok(0);
    }
    let journal = Journal::open(&state)?;
    let touched: BTreeSet<String> = journal.entries().into_iter().map(|entry| entry.node).collect();
    let hosts: Vec<_> = config.hosts.iter().filter(|host| touched.contains(&host.name)).cloned().collect();
    let (reached, failures) = connect(&hosts, &access, &events).await;
    for failure in &failures {
        events.event(Event::warning(Some(&failure.node), failure.report.message.clone()));
    }
    let reached: BTreeMap<String, Arc<dyn Host>> =
        reached.into_iter().map(|(host, remote)| (host.name, remote as Arc<dyn Host>)).collect();
    options.this_machine = on_this_machine(&config);
    let run = Run::new(journal, events).stopped_by(stop);
    let hooks = Hooks { config: &config, run: &run, operator: "cleanup" };
    let hooks = CleanupHooks { hooks, state: &state, skip: options.skip_hooks };
    let failures = hooks.before(&reached).await?;
    let mut cleaned = cleanup::cleanup(&run, &reached, &options).await?;
    cleaned.failures.extend(failures);
    cleaned.failures.extend(hooks.after(&reached).await?);
    cleaned.report()?;
    let journal = run.into_journal();
    if journal.entries().is_empty() {
        journal.remove()?;
        // Certificates and the saved config are the caller's to keep or remove.
        let _ = std::fs::remove_dir(&state);
    }
    Ok(cleaned.undone)
}
