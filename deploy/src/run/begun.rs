//! What begins also ends: whoever watches is told of the end, however a phase or a step comes to it.

use super::{Run, Step, WhenStopped};
use crate::events::{Event, seconds};
use crate::failure::PhaseError;
use crate::stop::Busy;
use eggo_errors::Report;
use std::future::Future;
use std::time::Instant;

impl Run {
    /// Does the `work` of a phase. The one way to be in a phase: all steps in between are of it.
    pub(crate) async fn in_phase<T>(
        &self,
        phase: &str,
        title: &str,
        work: impl Future<Output = Result<T, PhaseError>>,
    ) -> Result<T, PhaseError> {
        let begun = BegunPhase::new(self, phase, title)?;
        let result = self.patiently(phase, title, work).await;
        begun.finish(match &result {
            Err(PhaseError::Nodes(failures)) => failures.len(),
            Err(PhaseError::Whole(_)) => 1,
            Ok(_) => 0,
        });
        result
    }
}

/// A phase that has begun.
struct BegunPhase<'a> {
    run: &'a Run,
    phase: String,
    title: String,
    begin: Instant,
    before: usize,
    failed: usize,
}

impl<'a> BegunPhase<'a> {
    /// None begins any more once it was asked to stop.
    pub(crate) fn new(run: &'a Run, phase: &str, title: &str) -> Result<Self, PhaseError> {
        run.stop.check().map_err(PhaseError::Whole)?;
        run.enter(phase);
        let (phase, title) = (phase.to_string(), title.to_string());
        run.event(Event::PhaseStarted { phase: phase.clone(), title: title.clone() });
        // Unless it is told otherwise, it was given up.
        Ok(Self { run, phase, title, begin: Instant::now(), before: run.changed(), failed: 1 })
    }

    pub(crate) fn finish(mut self, failed: usize) {
        self.failed = failed;
    }
}

impl Drop for BegunPhase<'_> {
    fn drop(&mut self) {
        self.run.event(Event::PhaseFinished {
            phase: std::mem::take(&mut self.phase),
            title: std::mem::take(&mut self.title),
            seconds: seconds(self.begin.elapsed()),
            changed: self.run.changed() - self.before,
            failed: self.failed,
        });
    }
}

/// A step that has begun, and is waited for when a stop is asked for.
pub(crate) struct BegunStep<'a> {
    run: &'a Run,
    phase: String,
    node: String,
    step: String,
    title: String,
    begin: Instant,
    /// What came of it: whether it changed anything, or why it failed.
    end: Result<bool, String>,
    _busy: Option<Busy>,
}

impl<'a> BegunStep<'a> {
    pub(crate) fn new(run: &'a Run, phase: &str, node: &str, step: &Step) -> Self {
        let busy = (step.when_stopped != WhenStopped::GivenUp).then(|| run.stop.busy());
        let (phase, node, step, title) = (phase.into(), node.into(), step.id.clone(), step.title.clone());
        let end = Err("it was abandoned: nobody knows how far it got".into());
        let begun = Self { run, phase, node, step, title, begin: Instant::now(), end, _busy: busy };
        let Self { phase, node, step, title, .. } = &begun;
        run.event(Event::StepStarted {
            phase: phase.clone(),
            node: node.clone(),
            step: step.clone(),
            title: title.clone(),
        });
        begun
    }

    pub(crate) fn finish(mut self, changed: bool) {
        self.end = Ok(changed);
    }

    pub(crate) fn fail(mut self, report: &Report) {
        self.end = Err(report.message.clone());
    }
}

impl Drop for BegunStep<'_> {
    fn drop(&mut self) {
        let take = std::mem::take::<String>;
        let (phase, node) = (take(&mut self.phase), take(&mut self.node));
        let (step, title) = (take(&mut self.step), take(&mut self.title));
        self.run.event(match std::mem::replace(&mut self.end, Ok(false)) {
            Ok(changed) => {
                let seconds = seconds(self.begin.elapsed());
                Event::StepFinished { phase, node, step, title, seconds, changed }
            }
            Err(message) => Event::StepFailed { phase, node, step, title, message },
        });
    }
}
