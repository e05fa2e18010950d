//! The work of the phases, one module each.

pub mod addons;
pub mod certificates;
pub mod control_plane;
pub mod dns;
pub mod etcd;
pub mod hooks;
pub mod labels;
pub mod load_balancer;
pub mod ready;
pub mod requests;
pub mod runtime;
pub mod serving;
pub mod workers;

use crate::cluster::context::Node;
use crate::phases::{Failure, PhaseError};
use crate::run::Run;
use eggo_errors::Report;
use futures::StreamExt as _;
use futures::future::BoxFuture;

/// How many nodes are worked on at the same time.
pub const AT_ONCE: usize = 64;

/// The work on one node.
pub type Work<'a> = BoxFuture<'a, Result<(), Report>>;

/// Does `work` on all nodes that have not failed yet, at the same time. One node's failure does not stop the
/// others; all failures come back together.
pub async fn on_each<'a>(
    run: &Run,
    nodes: &[&'a Node],
    work: impl Fn(&'a Node) -> Work<'a>,
) -> Result<(), PhaseError> {
    let jobs: Vec<BoxFuture<'a, Result<(), Failure>>> = nodes
        .iter()
        .filter(|node| !run.has_failed(&node.host.name))
        .map(|node| {
            let (name, work) = (node.host.name.clone(), work(node));
            let job: BoxFuture<'a, Result<(), Failure>> =
                Box::pin(async move { work.await.map_err(|report| Failure { node: name, report }) });
            job
        })
        .collect();
    let results: Vec<_> = futures::stream::iter(jobs).buffer_unordered(AT_ONCE).collect().await;
    let mut failures: Vec<Failure> = results.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() {
        return Ok(());
    }
    failures.sort_by(|a, b| a.node.cmp(&b.node));
    run.leave_out(&failures);
    Err(PhaseError::Nodes(failures))
}

/// A failure of one node, on which nothing later counts any more.
pub(super) fn failed_on(run: &Run, node: &str, report: Report) -> PhaseError {
    run.mark_failed(node);
    PhaseError::Nodes(vec![Failure { node: node.to_string(), report }])
}
