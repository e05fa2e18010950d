//! Takes a cluster off its nodes.

use super::{Access, connect};
use crate::cleanup::{self, Options};
use crate::config::Config;
use crate::events::{Event, Sink};
use crate::journal::Journal;
use crate::remote::Host;
use eggo_terminal::Report;
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
}

/// Undoes what the journal says was done; returns how many changes that were. When nothing is left,
/// the journal itself goes.
pub async fn cleanup(request: CleanupRequest) -> Result<usize, Report> {
    let CleanupRequest { config, access, state, options, events } = request;
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
    let cleaned = cleanup::cleanup(&journal, &reached, &options, &events).await?;
    cleaned.report()?;
    if journal.entries().is_empty() {
        journal.remove()?;
        // Certificates and the saved config are the caller's to keep or remove.
        let _ = std::fs::remove_dir(&state);
    }
    Ok(cleaned.undone)
}
