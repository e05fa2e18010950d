//! Ctrl-C, SIGTERM and SIGHUP leave no half file behind, whatever the file system.

use eggo_bundles::temporary;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What shells add to a signal's number for the exit code of what it ended.
const ENDED_BY: i32 = 128;

/// From now on such a signal removes what is not finished, and ends the process.
pub(super) fn clean_up_when_told_to_end() {
    // Without them there is less order, and no reason not to work.
    let Ok(runtime) = Builder::new_current_thread().enable_io().build() else { return };
    let ignored = ignored();
    let heeded = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
        .into_iter()
        .filter(|kind| ignored & (1 << (kind.as_raw_value() - 1)) == 0);
    let entered = runtime.enter();
    let waiting: Vec<_> = heeded.filter_map(|kind| Some((kind, signal(kind).ok()?))).map(ended).collect();
    drop(entered);
    if waiting.is_empty() {
        return;
    }
    std::thread::spawn(move || {
        let (number, ..) = runtime.block_on(futures::future::select_all(waiting));
        temporary::end_process(ENDED_BY + number)
    });
}

type Ended = std::pin::Pin<Box<dyn Future<Output = i32> + Send>>;

fn ended((kind, mut signal): (SignalKind, Signal)) -> Ended {
    Box::pin(async move {
        signal.recv().await;
        kind.as_raw_value()
    })
}

/// What was ignored when this process began (a job in the background, `nohup`) stays so: a bit for
/// each signal, from 1 on.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
