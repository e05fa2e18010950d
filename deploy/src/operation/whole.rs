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
    let mut envelope = Envelope::begin(operation, &mut request)?;
    let result = envelope.part(work(request)).await;
    envelope.end(result)
}

/// An operation that has begun, and is done in one part or in several.
pub(super) struct Envelope {
    operation: Operation,
    events: Arc<Stamped>,
    access: Access,
    stop: Stop,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between two parts.
    Rests,
    Works,
    Ended,
}

impl Envelope {
    /// The request's events and its way onto the nodes are those of this operation from now on.
    pub(super) fn begin<R: Request>(operation: Operation, request: &mut R) -> Result<Self, Report> {
        let stop = request.stop().clone();
        let cluster = request.config().cluster_id.clone();
        let events = Stamped::new(&cluster, request.events().clone())
            .map_err(|error| Report::new(format!("no random numbers: {error}")))?;
        let events = Arc::new(events);
        *request.events() = events.clone();
        let access = request.access().apart();
        *request.access() = access.clone();
        events.event(Event::OperationStarted { operation });
        Ok(Self { operation, events, access, stop, state: State::Rests })
    }

    /// Does a part of it, which ends early when a stop is asked for.
    pub(super) async fn part<T>(
        &mut self,
        work: impl Future<Output = Result<T, Report>>,
    ) -> Result<T, Report> {
        self.state = State::Works;
        let result = until_stopped(&self.stop, &self.access, &*self.events, work).await;
        self.state = State::Rests;
        let changed = self.events.changed();
        match result {
            // Nobody is to miss that a bundle is not to be trusted.
            Some(Err(report)) if self.stop.is_asked() && report.exit != Exit::Untrusted => {
                Err(stop::stopped(changed, Some(&report)))
            }
            Some(result) => result,
            None => Err(stop::stopped(changed, None)),
        }
    }

    /// What it came to. Nothing is told after this.
    pub(super) fn end<T>(mut self, result: Result<T, Report>) -> Result<T, Report> {
        self.tell(result.as_ref().err());
        result
    }

    fn tell(&mut self, error: Option<&Report>) {
        self.state = State::Ended;
        let outcome = match error {
            None => Ending::Done,
            Some(report) if stop::is_stopped(report) => Ending::Stopped,
            Some(_) => Ending::Failed,
        };
        let (operation, changed) = (self.operation, self.events.changed());
        self.events.event(Event::OperationFinished { operation, outcome, changed, error: error.cloned() });
    }
}

impl Drop for Envelope {
    /// Whoever only wanted to know has what they wanted; whoever gave up in the middle has stopped it.
    fn drop(&mut self) {
        match self.state {
            State::Ended => {}
            State::Rests => self.tell(None),
            State::Works => self.tell(Some(&stop::stopped(self.events.changed(), None))),
        }
    }
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
