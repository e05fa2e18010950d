//! The phases of this module. They slot into the list of any operation whose context has a [`Nodes`].

use super::resend::with_intact;
use super::{Nodes, archives, claim, files, images, prune, system};
use crate::claim::Held;
use crate::distribute::{self, Delivery};
use crate::node::Planned;
use crate::packages;
use crate::phases::{Applies, OnFailure, Phase, PhaseError};
use eggo_bundles::Kind;
use eggo_errors::Report;
use std::sync::Mutex;

/// A context with nodes in it.
pub trait HasNodes: Send + Sync + 'static {
    fn nodes(&self) -> &Nodes;
}

impl HasNodes for Nodes {
    fn nodes(&self) -> &Nodes {
        self
    }
}

pub fn distribute<C: HasNodes>() -> Phase<C> {
    Phase {
        name: "distribute",
        title: "Distribute content",
        help: "send every node what it lacks, and verify it there",
        applies: Applies::EVERYWHERE,
        needs: &[],
        run: |context| Box::pin(send(context.nodes())),
        on_failure: OnFailure::GoOn,
    }
}

pub fn simulate<C: HasNodes>() -> Phase<C> {
    Phase {
        name: "simulate",
        title: "Try package transactions",
        help: "ask each node's package manager whether it would take the packages",
        applies: Applies::Content(|_, plan| plan.has_packages()),
        needs: &[],
        run: |context| Box::pin(try_packages(context.nodes())),
        on_failure: OnFailure::Stop,
    }
}

pub fn system<C: HasNodes>() -> Phase<C> {
    Phase {
        name: "system",
        title: "Prepare systems",
        help: "hostname, /etc/hosts, kernel modules and settings, firewall ports",
        applies: Applies::EVERYWHERE,
        needs: &[],
        run: |context| Box::pin(prepare(context.nodes())),
        on_failure: OnFailure::GoOn,
    }
}

pub fn packages<C: HasNodes>() -> Phase<C> {
    Phase {
        name: "packages",
        title: "Install packages",
        help: "in one transaction per node, by its own package manager; services held back",
        applies: Applies::Content(|_, plan| plan.has_packages() || !plan.repo_packages.is_empty()),
        needs: &[],
        run: |context| Box::pin(install_packages(context.nodes())),
        on_failure: OnFailure::GoOn,
    }
}

pub fn files<C: HasNodes>() -> Phase<C> {
    Phase {
        name: "files",
        title: "Install binaries and files",
        help: "put binaries, files and folders in their places; what they replace is kept",
        applies: Applies::Content(|_, plan| plan.items.iter().any(|wanted| wanted.dst.is_some())),
        needs: &[],
        run: |context| Box::pin(install_files(context.nodes())),
        on_failure: OnFailure::GoOn,
    }
}

/// After the container runtimes have started.
pub fn images<C: HasNodes>() -> Phase<C> {
    Phase {
        name: "images",
        title: "Load images",
        help: "load into each node's container runtime the images that it lacks",
        applies: Applies::Content(|_, plan| plan.of_kind(Kind::Image).next().is_some()),
        needs: &[],
        run: |context| Box::pin(load_images(context.nodes())),
        on_failure: OnFailure::GoOn,
    }
}

/// When nothing is left to do.
pub fn prune<C: HasNodes>() -> Phase<C> {
    Phase {
        name: "prune",
        title: "Tidy stores",
        help: "remove content that neither this install nor the one before it needs",
        applies: Applies::EVERYWHERE,
        needs: &[],
        run: |context| Box::pin(prune_stores(context.nodes())),
        on_failure: OnFailure::GoOn,
    }
}

async fn send(all: &Nodes) -> Result<(), PhaseError> {
    let run = &all.run;
    let (planned, held) = (all.planned(), Mutex::new(Vec::new()));
    let claimed = run.on_each(&planned, |node| async {
        if let Some(claim) = claim::claim(all, node).await? {
            held.lock().expect("no panic while locked").push((node.host.name.clone(), claim));
        }
        Ok(())
    });
    let claimed = claimed.await;
    let mut held = held.into_inner().expect("no panic while locked");
    if !held.is_empty() {
        // Two that share the nodes of one cluster would come to no cluster.
        held.sort_by(|a, b| a.0.cmp(&b.0));
        return Err(PhaseError::Whole(Held(held).into()));
    }
    let mut failures = match claimed {
        Err(PhaseError::Nodes(failures)) => failures,
        Err(whole) => return Err(whole),
        Ok(()) => Vec::new(),
    };
    let nodes = all.planned().into_iter().filter(|node| !run.has_failed(&node.host.name));
    let deliveries = nodes.map(|node| Delivery {
        host: node.remote.clone(),
        items: node.plan.items.iter().map(|wanted| wanted.item.clone()).collect(),
        contents: node.facts.store.clone(),
    });
    let delivered = distribute::distribute(deliveries.collect(), all.source.clone(), run).await;
    for failure in &delivered.failures {
        run.mark_failed(&failure.node);
    }
    failures.extend(delivered.failures);
    if failures.is_empty() { Ok(()) } else { Err(PhaseError::Nodes(failures)) }
}

/// As the plan has it. Where it could not decide, the reason is an error now.
fn transaction(node: &Planned<'_>) -> Result<packages::Transaction, packages::PackageError> {
    let items = node.plan.package_items();
    match &node.plan.packages {
        Some(changes) => Ok(changes.transaction(&items)),
        None => packages::decide(&node.facts, &items),
    }
}

async fn try_packages(all: &Nodes) -> Result<(), PhaseError> {
    all.run.on_each(&all.planned(), |node| try_packages_on(all, node)).await
}

async fn try_packages_on(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    if !node.plan.has_packages() {
        return Ok(());
    }
    let _waits = all.run.waits_for([node.host.name.as_str()], "ask the package manager");
    let transaction = transaction(node)?;
    let simulate = async || Ok(packages::simulate(&*node.remote, &transaction).await?);
    with_intact(all, node, simulate).await
}

async fn prepare(all: &Nodes) -> Result<(), PhaseError> {
    all.run.on_each(&all.planned(), |node| system::prepare(all, node)).await
}

async fn install_packages(all: &Nodes) -> Result<(), PhaseError> {
    all.run.on_each(&all.planned(), |node| install_on(all, node)).await
}

async fn install_on(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    let (run, remote, names) = (&all.run, &*node.remote, &node.plan.repo_packages);
    if !names.is_empty() {
        packages::install_from_repositories(run, remote, &node.facts, names).await?;
    }
    if node.plan.has_packages() {
        let transaction = transaction(node)?;
        with_intact(all, node, async || packages::install(run, remote, &transaction).await).await?;
    }
    Ok(())
}

async fn install_files(all: &Nodes) -> Result<(), PhaseError> {
    all.run.on_each(&all.planned(), |node| install_files_on(all, node)).await
}

async fn install_files_on(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    with_intact(all, node, async || files::install(all, node).await).await
}

async fn load_images(all: &Nodes) -> Result<(), PhaseError> {
    all.run.on_each(&all.planned(), |node| load_images_on(all, node)).await
}

async fn load_images_on(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    with_intact(all, node, async || images::load(all, node).await).await?;
    let archived = with_intact(all, node, async || archives::load(all, node).await).await?;
    images::pin(all, node, &[images::names(node), archived].concat()).await
}

async fn prune_stores(all: &Nodes) -> Result<(), PhaseError> {
    all.run.on_each(&all.planned(), |node| prune::prune(all, node)).await
}

/// Whether a node has all its packages and files, by its facts and the journal.
pub fn is_in_place(all: &Nodes, node: &Planned<'_>) -> bool {
    let missing = |name: &String| node.facts.package(name).is_none();
    let packages = !node.plan.has_packages() || transaction(node).is_ok_and(|found| found.install.is_empty());
    packages && !node.plan.repo_packages.iter().any(missing) && files::is_in_place(all, node)
}

/// Everything that one node is to have, for operations that go node by node.
pub async fn install_node(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    install_on(all, node).await?;
    install_files_on(all, node).await?;
    load_images_on(all, node).await
}

/// Some of what [`install_node`] did is about to be taken back: [`is_in_place`] must not say otherwise.
pub async fn reopen(all: &Nodes, node: &Planned<'_>) -> Result<(), Report> {
    files::reopen(all, node).await
}
