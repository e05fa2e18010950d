//! The work of the phases, one module each.

pub mod addons;
pub mod certificates;
pub mod control_plane;
pub mod dns;
pub mod etcd;
pub mod hooks;
pub mod labels;
pub mod load_balancer;
mod pods;
pub mod ready;
pub mod requests;
pub mod runtime;
pub mod serving;
pub mod workers;

use crate::cluster::context::Node;
use crate::phases::{Failure, PhaseError};
use crate::run::Run;
use eggo_errors::Report;
use futures::future::BoxFuture;

/// The work on one node.
pub type Work<'a> = BoxFuture<'a, Result<(), Report>>;

/// Does `work` on all nodes that have not failed yet, at the same time. One node's failure does not stop the
/// others; all failures come back together.
pub async fn on_each<'a>(
    run: &Run,
    nodes: &[&'a Node],
    work: impl Fn(&'a Node) -> Work<'a>,
) -> Result<(), PhaseError> {
    run.on_each(nodes, move |node| work(node)).await
}

/// A failure of one node, on which nothing later counts any more.
pub(super) fn failed_on(run: &Run, node: &str, report: Report) -> PhaseError {
    run.mark_failed(node);
    PhaseError::Nodes(vec![Failure { node: node.to_string(), report }])
}
