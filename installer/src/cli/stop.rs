//! Ctrl-C and SIGTERM: the first asks the operation to stop, the second ends the program at once.

use super::runtime;
use eggo_deploy::stop::Stop;
use eggo_terminal::{Exit, Report, is_asking};
use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};

/// Runs an operation, which `stop` belongs to, to its end or until it is stopped.
pub fn carry_out<T>(stop: &Stop, work: impl Future<Output = Result<T, Report>>) -> Result<T, Report> {
    listen(stop.clone())?;
    runtime()?.block_on(work)
}

/// On a thread of its own: a question to the user holds the other one.
fn listen(stop: Stop) -> Result<(), Report> {
    let failed = |error: std::io::Error| Report::new(format!("cannot wait for signals: {error}"));
    let runtime = runtime()?;
    let (mut interrupt, mut terminate) = runtime
        .block_on(async { Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)) })
        .map_err(failed)?;
    std::thread::spawn(move || {
        runtime.block_on(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                // Who is being asked has not agreed to anything yet.
                if stop.is_asked() || is_asking() {
                    std::process::exit(Exit::Stopped as i32);
                }
                // The operation says that it stops, through its view: between the bars, not into them.
                stop.ask();
            }
        });
    });
    Ok(())
}
