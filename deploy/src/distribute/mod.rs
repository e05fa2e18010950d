//! Brings content to nodes: each item is read and inflated once for all nodes that need it, and
//! sent to all of them at the same time; a node that holds the others up gets its own stream; a
//! cut is taken up at the byte; the node verifies what it got.
//!
//! Which node needs what is the plan's business, and what a node's store looks like is `store`'s.

mod batch;
mod delivery;
mod group;
mod meter;

use crate::phases::Failure;
use crate::remote::{Host, RemoteError};
use crate::run::{Outcome, Run, Step, WhenStopped};
use crate::store;
use eggo_bundles::{Digest, Item};
use eggo_errors::{Exit, Explain, Report};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::sync::Arc;

/// Where content comes from: a bundle, or an old tarball.
pub trait Source: Send + Sync {
    /// The item's content from its beginning; fails at the end, at the latest, if it is not what was promised.
    fn read(&self, item: &Item) -> io::Result<Box<dyn Read + Send>>;
}

/// What one node is to get.
pub struct Delivery {
    pub host: Arc<dyn Host>,
    /// Everything it needs; equal content may stand in it more than once.
    pub items: Vec<Arc<Item>>,
    /// What its store had when last asked.
    pub contents: store::Contents,
}

/// What a distribution came to.
#[derive(Debug, Default)]
pub struct Delivered {
    /// Content bytes that each node was sent; nothing for a node that had all.
    pub sent: BTreeMap<String, u64>,
    pub failures: Vec<Failure>,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum DeliveryError {
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error("{node}: `{path}` does not arrive intact: its sha256 differs on the node")]
    Damaged { node: String, path: String },
    #[error("cannot read `{path}` from the bundle: {reason}")]
    Source { path: String, reason: String },
}

impl DeliveryError {
    /// What is wrong with an item of the bundle.
    pub fn source(item: &Item, error: &io::Error) -> Self {
        Self::Source { path: item.path.clone(), reason: error.to_string() }
    }
}

impl Explain for DeliveryError {
    fn code(&self) -> eggo_errors::Code {
        eggo_errors::Code::new(match self {
            Self::Remote(error) => return error.code(),
            Self::Damaged { .. } => "content-damaged",
            Self::Source { .. } => "bundle-unreadable",
        })
    }

    fn notes(&self) -> Vec<String> {
        match self {
            Self::Remote(error) => error.notes(),
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Remote(error) => error.hint(),
            Self::Damaged { .. } => Some("check the node's disk and memory".into()),
            Self::Source { .. } => {
                Some("copy the bundle again and verify it with `eggo-install verify`".into())
            }
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Source { .. } => Exit::Untrusted,
            _ => Exit::SomeHosts,
        }
    }
}

/// Brings every delivery to its node.
pub async fn distribute(deliveries: Vec<Delivery>, source: Arc<dyn Source>, run: &Run) -> Delivered {
    let items: BTreeMap<Digest, Arc<Item>> = deliveries
        .iter()
        .flat_map(|delivery| &delivery.items)
        .map(|item| (item.sha256, item.clone()))
        .collect();
    let groups = group::Groups::start(items, source, run.limits());
    let mut jobs = Vec::new();
    for delivery in deliveries {
        let (groups, meter) = (&groups, meter::Meter::new(delivery.host.name(), run.events().clone()));
        jobs.push(async move {
            let node = delivery.host.name().to_string();
            let result = deliver(run, delivery, groups, &meter).await;
            (node, meter.sent(), result)
        });
    }
    let results = run.limits().each(jobs).await;
    let mut delivered = Delivered::default();
    for (node, sent, result) in results {
        delivered.sent.insert(node.clone(), sent);
        if let Err(report) = result {
            delivered.failures.push(Failure { node, report });
        }
    }
    delivered.failures.sort_by(|a, b| a.node.cmp(&b.node));
    delivered
}

/// What came goes on from where it is: nobody waits for the rest when a stop is asked for.
async fn deliver(
    run: &Run,
    delivery: Delivery,
    groups: &group::Groups,
    meter: &meter::Meter,
) -> Result<(), Report> {
    let node = delivery.host.name().to_string();
    let step = Step::new("store/content", "receive content")
        .fingerprint_of(delivery.items.iter().map(|item| item.sha256.hex()))
        .when_stopped(WhenStopped::GivenUp)
        .always();
    // One that was interrupted at its very end lacks nothing but its end.
    let interrupted = run.journal().newest(&node, &step.id).is_some_and(|entry| !entry.done);
    if !interrupted && missing(&delivery.items, &delivery.contents).is_empty() {
        return Ok(());
    }
    let work = async |permit| {
        delivery::deliver(permit, delivery, groups, meter).await?;
        Ok(Outcome::changed_if(meter.sent() > 0))
    };
    run.step(&node, step, work).await.map(|_| ())
}

/// What of `items` is not whole in `contents`, with the number of bytes that are there already.
pub fn missing(items: &[Arc<Item>], contents: &store::Contents) -> BTreeMap<Digest, Missing> {
    let mut missing = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for item in items.iter().filter(|item| item.link.is_none() && seen.insert(item.sha256)) {
        if contents.whole.get(&item.sha256) == Some(&item.size) {
            continue;
        }
        // More than the whole is not the beginning of it.
        let there =
            contents.incoming.get(&item.sha256).copied().filter(|there| *there <= item.size).unwrap_or(0);
        missing.insert(item.sha256, Missing { size: item.size, there });
    }
    missing
}

/// An item that a node still needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    pub size: u64,
    /// The first bytes that are there already.
    pub there: u64,
}

#[cfg(test)]
mod tests;
