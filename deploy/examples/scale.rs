//! Installs onto so many simulated nodes, each of which takes 10 ms for every command, and prints what the installing
//! process itself took: seconds, seconds of CPU per node, and bytes of memory at the peak. For `scripts/bench scale`.

#[allow(dead_code, reason = "tests use all of it")]
#[path = "../tests/simulated/node.rs"]
mod node;

use eggo_deploy::events::Silent;
use eggo_deploy::operation;
use eggo_deploy::stop::Stop;
use node::Site;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes: usize = std::env::args().nth(1).ok_or("usage: scale NODES")?.parse()?;
    let folder = tempfile::tempdir()?;
    let site = Site::new("scale", nodes, Duration::from_millis(10));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (begin, before) = (Instant::now(), cpu()?);
    let request = site.request(folder.path(), Arc::new(Silent), Stop::default());
    let installed = runtime
        .block_on(async { operation::prepare(request).await?.run().await })
        .map_err(|report: eggo_errors::Report| format!("{report}: {}", report.notes.join("; ")))?;
    let took = begin.elapsed().as_secs_f64();
    let each = (cpu()? - before) / nodes as f64;
    println!(
        "{}",
        serde_json::json!({
            "nodes": installed.nodes, "changed": installed.changed, "seconds": took, "cpu": each, "peak": peak()?,
        })
    );
    Ok(())
}

/// Seconds of CPU that the threads of this process have used.
fn cpu() -> Result<f64, Box<dyn std::error::Error>> {
    let mut nanoseconds = 0.0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        // One that has just ended is not missed.
        let Ok(text) = std::fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        nanoseconds += text.split_whitespace().next().ok_or("no schedstat")?.parse::<f64>()?;
    }
    Ok(nanoseconds / 1e9)
}

/// The most memory that it has had.
fn peak() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? * 1024)
}
