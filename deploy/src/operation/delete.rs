//! Takes nodes out of a cluster, then everything of ours off them.

use super::cleanup::{refuse_marked, titles};
use super::life::LifeRequest;
use super::survey::on_this_machine;
use super::whole::whole;
use crate::cleanup::phases::{self as cleanup, HasCleaning};
use crate::cleanup::{Cleaning, Options as CleanupOptions, Reached};
use crate::cluster::delete::{Departure, check};
use crate::events::{Event, Operation};
use crate::node::Node;
use crate::phases::{Applies, Context, Failure, OnFailure, Phase, Scene, Selection, run_list};
use crate::remote::Command;
use eggo_bundles::Role;
use eggo_errors::{Count, Exit, Report};
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// What is asked of a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteOptions {
    /// How long pods may take to leave.
    pub drain: Duration,
    /// Nodes that cannot be reached are taken out all the same: they will not come back.
    pub forget_gone: bool,
    pub selection: Selection,
}

impl Default for DeleteOptions {
    fn default() -> Self {
        let drain = Duration::from_secs(300);
        Self { drain, forget_gone: false, selection: Selection::default() }
    }
}

/// A deletion.
pub fn phases() -> Vec<Phase<Deleting>> {
    vec![
        // A node on which a hook fails is not taken out.
        Phase { on_failure: OnFailure::Stop, ..cleanup::precleanup() },
        Phase {
            name: "backup",
            title: "Back up etcd",
            help: "keep a snapshot of etcd on this machine, if a master or a member of etcd goes",
            applies: Applies::Hosts(|_, host| host.has(Role::Etcd) || host.has(Role::Master)),
            needs: &[],
            run: |context| Box::pin(context.departure.back_up()),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "drain",
            title: "Drain workers",
            help: "move their pods elsewhere, stop them and take them out of the API, one after the other",
            applies: Applies::Hosts(|_, host| host.has(Role::Worker)),
            needs: &[],
            run: |context| Box::pin(context.departure.drain()),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "load-balancer",
            title: "Update the load balancer",
            help: "send no new connection to masters that go",
            applies: Applies::Hosts(|config, host| {
                config.load_balancer().is_some() && host.has(Role::Master)
            }),
            needs: &[],
            run: |context| Box::pin(context.departure.load_balancer()),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "controllers",
            title: "Stop controllers",
            help: "stop all but the apiserver on masters that go; DNS forgets them",
            applies: Applies::Hosts(|_, host| host.has(Role::Master)),
            needs: &["load-balancer"],
            run: |context| Box::pin(context.departure.stop_controllers()),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "etcd",
            title: "Take members out of etcd",
            help: "tell the other apiservers to do without them, then take one after the other out",
            applies: Applies::Hosts(|config, host| config.etcd.external.is_none() && host.has(Role::Etcd)),
            needs: &["backup", "controllers"],
            run: |context| Box::pin(context.departure.etcd()),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "apiserver",
            title: "Stop apiservers",
            help: "stop the apiserver on masters that go",
            applies: Applies::Hosts(|_, host| host.has(Role::Master)),
            needs: &["etcd"],
            run: |context| Box::pin(context.departure.stop_apiservers()),
            on_failure: OnFailure::Stop,
        },
        Phase {
            name: "forget",
            title: "Forget the nodes",
            help: "remove their certificates, and them from the cluster's configuration, on this machine",
            applies: Applies::ALWAYS,
            needs: &["drain", "apiserver"],
            run: |context| Box::pin(context.departure.forget()),
            on_failure: OnFailure::Stop,
        },
        Phase { needs: &["forget"], ..cleanup::undo() },
        cleanup::postcleanup(),
    ]
}

/// One that cannot be reached is refused before anything is changed, or forgotten on request: it may be back in a
/// minute, with all that it has.
pub async fn delete(request: LifeRequest, names: &[String], options: DeleteOptions) -> Result<(), Report> {
    whole(Operation::Delete, request, |request| carry_out(request, names, options)).await
}

async fn carry_out(request: LifeRequest, names: &[String], options: DeleteOptions) -> Result<(), Report> {
    let DeleteOptions { drain, forget_gone, selection } = options;
    selection.check(&phases())?;
    let state = request.state.clone();
    let cluster = request.cluster().await?;
    check(&cluster, names).await?;
    let (mut reached, mut gone) = (Reached::new(), Vec::new());
    for node in cluster.nodes.iter().filter(|node| names.contains(&node.host.name)) {
        let name = node.host.name.clone();
        match node.remote.run(Command::look("see whether it answers", "true")).await {
            Ok(_) => drop(reached.insert(name, node.remote.clone())),
            Err(error) => gone.push(Failure { node: name, report: error.into() }),
        }
    }
    if !gone.is_empty() && !forget_gone {
        return Err(not_reached(&gone));
    }
    for failure in gone {
        cluster.run.event(Event::warning(Some(&failure.node), failure.report.message));
    }
    // What the journal does not know would stay on them.
    let known = cluster.run.journal().changed();
    let unknown = cluster.nodes.iter().filter(|node| !known.contains(&node.host.name));
    let unknown =
        unknown.filter_map(|node| Some(Node::new(node.host.clone(), reached.get(&node.host.name)?.clone())));
    refuse_marked(&cluster.config, &state, unknown.collect(), cluster.run.limits()).await?;
    let options = CleanupOptions {
        images: true,
        forget_gone,
        only: names.iter().cloned().collect(),
        this_machine: on_this_machine(&cluster.config),
    };
    let (config, run) = (cluster.config.clone(), cluster.run.clone());
    let deleting = Deleting {
        departure: Departure::new(cluster, names, reached.keys().cloned().collect(), drain),
        cleaning: Cleaning {
            config,
            run,
            state,
            reached,
            options,
            operator: "delete",
            hooks_follow: selection.wants("postcleanup"),
            titles: titles(),
            undone: AtomicUsize::new(0),
        },
    };
    run_list(&phases(), &selection, &deleting).await
}

/// What the phases of a deletion work on.
pub struct Deleting {
    departure: Departure,
    cleaning: Cleaning,
}

impl HasCleaning for Deleting {
    fn cleaning(&self) -> &Cleaning {
        &self.cleaning
    }
}

impl Context for Deleting {
    fn scene(&self) -> Scene<'_> {
        Scene { hosts: &self.departure.going, ..self.departure.cluster.scene() }
    }
}

fn not_reached(gone: &[Failure]) -> Report {
    let nodes = Count(gone.len(), "node", "nodes");
    let mut report =
        Report::new(format!("{nodes} cannot be reached: nothing was changed")).code("nodes-not-reached");
    for failure in gone {
        report = report.note(failure.line());
        report.notes.extend(failure.report.notes.iter().cloned());
    }
    report
        .exit(Exit::SomeHosts)
        .hinted("run it again when they are back, or with `--forget-gone` if they will not come back")
}
