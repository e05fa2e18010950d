//! The envelope: every event of an operation gets its run, its cluster, a number and the time.

use super::{Event, Sink, Told};
use jiff::Timestamp;
use std::sync::{Arc, Mutex};

/// The events of one operation, on their way to whoever watches.
pub(crate) struct Stamped {
    run: String,
    cluster: String,
    sink: Arc<dyn Sink>,
    count: Mutex<Count>,
}

#[derive(Default)]
struct Count {
    events: u64,
    changed: usize,
}

impl Stamped {
    pub(crate) fn new(cluster: &str, sink: Arc<dyn Sink>) -> Result<Self, getrandom::Error> {
        let mut id = [0; 8];
        getrandom::fill(&mut id)?;
        Ok(Self { run: hex::encode(id), cluster: cluster.into(), sink, count: Mutex::default() })
    }

    /// The changes of all phases that have ended.
    pub(crate) fn changed(&self) -> usize {
        self.count.lock().expect("no panic while locked").changed
    }
}

impl Sink for Stamped {
    fn event(&self, event: Event) {
        // Held until it is told: whoever watches gets the numbers in order.
        let mut count = self.count.lock().expect("no panic while locked");
        count.events += 1;
        if let Event::PhaseFinished { changed, .. } = &event {
            count.changed += changed;
        }
        self.sink.told(Told {
            run: self.run.clone(),
            cluster: self.cluster.clone(),
            number: count.events,
            time: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            event,
        });
    }
}
