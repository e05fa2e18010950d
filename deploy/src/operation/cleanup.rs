//! Takes a cluster off its nodes, then its folder off the list of clusters.

use super::survey::{facts_of, on_this_machine};
use super::whole::whole;
use super::{Access, connect, install, upgrade};
use crate::blocking::blocking;
use crate::claim::Claim;
use crate::cleanup::phases::{self as cleanup_phases, HasCleaning};
use crate::cleanup::{Cleaning, Incomplete, Options, Titles};
use crate::config::{self, Config};
use crate::events::{Event, Operation, Sink};
use crate::facts::Look;
use crate::journal::Journal;
use crate::limits::Limits;
use crate::node::Node;
use crate::phases::{
    Applies, Context, Failure, OnFailure, Phase, PhaseError, Scene, Selection, run_list, titles_of,
};
use crate::run::Run;
use crate::state::{self, Folder, State as _};
use crate::stop::Stop;
use eggo_errors::{Count, Exit, Report};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

pub struct CleanupRequest {
    pub config: Arc<Config>,
    pub access: Access,
    /// The cluster's folder on this machine.
    pub state: PathBuf,
    pub options: Options,
    pub selection: Selection,
    pub afterwards: Afterwards,
    pub events: Arc<dyn Sink>,
    pub stop: Stop,
}

/// What is to become of the cluster's folder when nothing is left on any node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Afterwards {
    /// Keys are worth more than space: the folder gets a dated name.
    #[default]
    MoveAside,
    /// A new install uses the same keys.
    Keep,
    /// Keys are deleted; backups of etcd stay.
    Purge,
}

/// What a cleanup came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanedUp {
    /// Changes that were undone.
    pub undone: usize,
    pub folder: Fate,
}

/// What has become of the cluster's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// There was none.
    Absent,
    /// Nothing in it is of a cluster: it is as it was.
    NotOurs,
    Kept,
    MovedAside(PathBuf),
    /// With the folder in which backups, and what was not ours, are now.
    Purged(Option<PathBuf>),
}

/// A cleanup. The folder goes only when no node can have anything left.
pub fn phases() -> Vec<Phase<Leaving>> {
    vec![
        cleanup_phases::precleanup(),
        cleanup_phases::undo(),
        cleanup_phases::postcleanup(),
        Phase {
            name: "state",
            title: "Put the cluster's keys away",
            help: "when nothing is left on any node, move the cluster's folder on this machine aside",
            applies: Applies::ALWAYS,
            needs: &["undo"],
            run: |context| Box::pin(async { context.put_away().await.map_err(PhaseError::Whole) }),
            on_failure: OnFailure::Stop,
        },
    ]
}

/// Undoes what the journal says was done.
pub async fn cleanup(request: CleanupRequest) -> Result<CleanedUp, Report> {
    whole(Operation::Cleanup, request, carry_out).await
}

async fn carry_out(request: CleanupRequest) -> Result<CleanedUp, Report> {
    let CleanupRequest { config, access, state, mut options, selection, afterwards, events, stop } = request;
    selection.check(&phases())?;
    if !state.exists() {
        return Ok(CleanedUp { undone: 0, folder: Fate::Absent });
    }
    let (own, folder) = (config.clone(), state.clone());
    let Some(journal) = blocking(move || open(&own, &folder)).await? else {
        return Ok(CleanedUp { undone: 0, folder: Fate::NotOurs });
    };
    let hosts = hosts(&config, &state, &*events);
    let touched: BTreeSet<String> = journal.entries().into_iter().map(|entry| entry.node).collect();
    let named: Vec<_> = hosts.all.iter().filter(|host| touched.contains(&host.name)).cloned().collect();
    let (reached, failures) = connect(&named, &access, &events).await;
    for failure in &failures {
        events.event(Event::warning(Some(&failure.node), failure.report.message.clone()));
    }
    options.this_machine = on_this_machine(&config);
    let run = Run::new(journal, events.clone()).stopped_by(stop).limited(access.limits().clone());
    let run = Arc::new(run);
    let cleaning = Cleaning {
        config,
        run,
        state,
        reached: reached.into_iter().map(|node| (node.host.name, node.remote)).collect(),
        options,
        operator: "cleanup",
        hooks_follow: selection.wants("postcleanup"),
        titles: titles(),
        undone: AtomicUsize::new(0),
    };
    let leaving = Leaving { cleaning, access, events, hosts, afterwards, fate: OnceLock::new() };
    run_list(&phases(), &selection, &leaving).await?;
    let undone = leaving.cleaning.undone.load(Ordering::Relaxed);
    Ok(CleanedUp { undone, folder: leaving.fate.into_inner().unwrap_or(Fate::Kept) })
}

/// Of all phases whose changes are undone. Where several operations have one of the same name, the install's counts.
pub(super) fn titles() -> Titles {
    let upgrade = upgrade::phases();
    let install = install::phases();
    titles_of(&upgrade).chain(titles_of(&install)).collect()
}

/// What the phases of a cleanup work on.
pub struct Leaving {
    cleaning: Cleaning,
    access: Access,
    events: Arc<dyn Sink>,
    hosts: Hosts,
    afterwards: Afterwards,
    fate: OnceLock<Fate>,
}

impl Leaving {
    async fn put_away(&self) -> Result<(), Report> {
        let Cleaning { run, state, options, undone, .. } = &self.cleaning;
        if !run.journal().entries().is_empty() {
            // Some of it could not be undone, which has been said.
            return Ok(());
        }
        let known = run.journal().changed();
        let doubtful = match undone.load(Ordering::Relaxed) {
            // Nobody but the nodes themselves can say now that nothing is left.
            0 => self.hosts.all.clone(),
            _ => {
                self.hosts.of_the_cluster.iter().filter(|host| !known.contains(&host.name)).cloned().collect()
            }
        };
        let gone = self.bear_no_mark(doubtful).await?;
        if !gone.is_empty() && !options.forget_gone {
            return Err(not_seen(&gone, state));
        }
        for failure in &gone {
            let text = "not reached: nobody knows what it has of the cluster";
            self.events.event(Event::warning(Some(&failure.node), text));
        }
        // With the run goes the lock: it is held until this has ended.
        let (run, folder, afterwards) = (run.clone(), Folder::new(state), self.afterwards);
        let fate = blocking(move || {
            let _run = run;
            match afterwards {
                Afterwards::Keep => Ok(Fate::Kept),
                Afterwards::MoveAside => folder.move_aside().map(Fate::MovedAside),
                Afterwards::Purge => folder.purge().map(Fate::Purged),
            }
        });
        let failed = |error| Report::new(format!("cannot remove `{}`: {error}", state.display()));
        let fate = fate.await.map_err(failed)?;
        match &fate {
            Fate::MovedAside(aside) => {
                let text = format!("the cluster's keys and backups are now in `{}`", aside.display());
                self.events.event(Event::note(None, text));
            }
            Fate::Purged(Some(left)) => {
                let text = format!("backups of etcd are kept in `{}`", left.display());
                self.events.event(Event::note(None, text));
            }
            _ => {}
        }
        self.fate.get_or_init(|| fate);
        Ok(())
    }

    /// Those that cannot say. An error if any bears the mark of this cluster.
    async fn bear_no_mark(&self, hosts: Vec<config::Host>) -> Result<Vec<Failure>, Report> {
        if hosts.is_empty() {
            return Ok(Vec::new());
        }
        let (reached, mut gone) = connect(&hosts, &self.access, &self.events).await;
        gone.extend(
            refuse_marked(&self.cleaning.config, &self.cleaning.state, reached, self.access.limits()).await?,
        );
        Ok(gone)
    }
}

impl HasCleaning for Leaving {
    fn cleaning(&self) -> &Cleaning {
        &self.cleaning
    }
}

impl Context for Leaving {
    fn scene(&self) -> Scene<'_> {
        let Cleaning { run, config, .. } = &self.cleaning;
        Scene { run, config, hosts: &self.hosts.all, plan: None }
    }
}

/// The journal, if anything in the folder is of a cluster.
fn open(config: &Config, state: &Path) -> Result<Option<Journal>, Report> {
    if !is_ours(config, state)? {
        return Ok(None);
    }
    Ok(Some(Journal::open(state)?))
}

/// Whether anything in the folder is of a cluster. Refuses a journal that contradicts what is beside it, before that
/// journal is opened for writing, which would remove the rest of a torn line.
fn is_ours(config: &Config, state: &Path) -> Result<bool, Report> {
    let failed = |error| Report::new(format!("cannot read `{}`: {error}", state.display()));
    let names = Folder::new(state).list().map_err(failed)?;
    let more = names.iter().any(state::Name::comes_after_changes);
    if more && Journal::read(state)?.changed().is_empty() {
        let (cluster, folder) = (config.cluster_id.clone(), state.to_path_buf());
        return Err(Incomplete::NoChange { cluster, folder }.into());
    }
    Ok(more || Journal::has_records(state))
}

struct Hosts {
    /// Those of deploy.yaml, and those that an install has added and deploy.yaml no longer names.
    all: Vec<config::Host>,
    /// Those that the last install made a cluster of.
    of_the_cluster: Vec<config::Host>,
}

fn hosts(config: &Config, state: &Path, events: &dyn Sink) -> Hosts {
    let of_the_cluster = match state::load(state) {
        Ok(kept) => kept.map(|kept| kept.hosts).unwrap_or_default(),
        Err(report) => {
            events.event(Event::warning(None, report.message));
            Vec::new()
        }
    };
    let mut all = config.hosts.clone();
    let names: BTreeSet<&String> = config.hosts.iter().map(|host| &host.name).collect();
    all.extend(of_the_cluster.iter().filter(|host| !names.contains(&host.name)).cloned());
    Hosts { all, of_the_cluster }
}

/// An error if any of these nodes bears the mark of this cluster; else those that could not say.
pub(super) async fn refuse_marked(
    config: &Config,
    state: &Path,
    reached: Vec<Node>,
    limits: &Limits,
) -> Result<Vec<Failure>, Report> {
    let (surveyed, failures) = facts_of(reached, Look::survey(), limits).await;
    // A mark without a cluster's name is one that was just being written.
    let ours = |claim: &Claim| claim.cluster.as_ref().is_none_or(|cluster| *cluster == config.cluster_id);
    let marked = surveyed.into_iter().filter(|node| node.facts.claim.as_ref().is_some_and(ours));
    let nodes: Vec<String> = marked.map(|node| node.host.name).collect();
    if nodes.is_empty() {
        return Ok(failures);
    }
    let (cluster, folder) = (config.cluster_id.clone(), state.to_path_buf());
    Err(Incomplete::Marked { cluster, folder, nodes }.into())
}

fn not_seen(gone: &[Failure], state: &Path) -> Report {
    let nodes = Count(gone.len(), "node", "nodes");
    let message = format!("{nodes} cannot be reached, and may still run the cluster");
    let mut report = Report::new(message).code("nodes-not-reached");
    for failure in gone {
        report = report.note(failure.line());
        report.notes.extend(failure.report.notes.iter().cloned());
    }
    report
        .note(format!("`{}` stays as it is, with the cluster's keys", state.display()))
        .exit(Exit::SomeHosts)
        .hinted("run it again when they are back, or with `--forget-gone` if they will not come back")
}

#[cfg(test)]
mod tests;
