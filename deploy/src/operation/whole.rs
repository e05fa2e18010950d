//! Around every operation: its first and its last event, and its early end when a stop is asked for.

use super::{Access, CleanupRequest, InstallRequest, LifeRequest};
use crate::config::Config;
use crate::events::{Ending, Event, Operation, Sink, Stamped};
use crate::stop::{self, Stop};
use eggo_errors::{Exit, Report};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

/// What all requests have.
pub(super) trait Request {
    fn config(&self) -> &Config;
    fn stop(&self) -> &Stop;
    fn events(&mut self) -> &mut Arc<dyn Sink>;
    fn access(&mut self) -> &mut Access;
}

macro_rules! is_request {
    ($($request:ty),*) => {
        $(impl Request for $request {
            fn config(&self) -> &Config {
                &self.config
            }

            fn stop(&self) -> &Stop {
                &self.stop
            }

            fn events(&mut self) -> &mut Arc<dyn Sink> {
                &mut self.events
            }

            fn access(&mut self) -> &mut Access {
                &mut self.access
            }
        })*
    };
}

is_request!(InstallRequest, LifeRequest, CleanupRequest);

/// Does the `work` of an operation. However it ends: whoever watches is told of that once, at last.
pub(super) async fn whole<R: Request, T, W>(
    operation: Operation,
    mut request: R,
    work: impl FnOnce(R) -> W,
) -> Result<T, Report>
where
    W: Future<Output = Result<T, Report>>,
{
    let stop = request.stop().clone();
    let cluster = request.config().cluster_id.clone();
    let events = Stamped::new(&cluster, request.events().clone())
        .map_err(|error| Report::new(format!("no random numbers: {error}")))?;
    let events = Arc::new(events);
    *request.events() = events.clone();
    let access = request.access().apart();
    *request.access() = access.clone();
    events.event(Event::OperationStarted { operation });
    let result = until_stopped(&stop, &access, &*events, work(request)).await;
    let changed = events.changed();
    let result = match result {
        // Nobody is to miss that a bundle is not to be trusted.
        Some(Err(report)) if stop.is_asked() && report.exit != Exit::Untrusted => {
            Err(stop::stopped(changed, Some(&report)))
        }
        Some(result) => result,
        None => Err(stop::stopped(changed, None)),
    };
    let (outcome, error) = match &result {
        Ok(_) => (Ending::Done, None),
        Err(report) if stop::is_stopped(report) => (Ending::Stopped, Some(report.clone())),
        Err(report) => (Ending::Failed, Some(report.clone())),
    };
    events.event(Event::OperationFinished { operation, outcome, changed, error });
    result
}

/// `None`: it was given up. Then nothing of it runs on any node, and it is dropped, with the lock that it holds,
/// before this returns.
async fn until_stopped<W: Future>(
    stop: &Stop,
    access: &Access,
    events: &dyn Sink,
    work: W,
) -> Option<W::Output> {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        output = &mut work => return Some(output),
        () = stop.asked() => events.event(Event::Stopping {}),
    }
    tokio::select! {
        biased;
        output = &mut work => return Some(output),
        () = stop.given_up() => {}
    }
    // The lock is held until the last script on a node has ended; the steps may see that end, too.
    tokio::select! {
        biased;
        output = &mut work => Some(output),
        () = access.end_commands() => None,
    }
}

#[cfg(test)]
mod tests;
