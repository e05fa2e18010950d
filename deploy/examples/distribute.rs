//! Distributes a bundle to sshd targets on this machine, to each what is of its arch, for `scripts/bench`:
//!
//!     distribute BUNDLE PRIVATE-KEY ARCH:PORT…

use eggo_bundles::{Arch, Bundle, SecretKey, TrustedKeys};
use eggo_deploy::content::Content;
use eggo_deploy::distribute::{Delivery, distribute};
use eggo_deploy::events::{Silent, Sink};
use eggo_deploy::journal::Journal;
use eggo_deploy::remote::Host;
use eggo_deploy::run::{Outcome, Run, Step};
use eggo_deploy::ssh::{HostKeys, Login, SshHost, Target};
use eggo_deploy::store;
use eggo_errors::Report;
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, private, targets @ ..] = words.as_slice() else {
        return Err("usage: distribute BUNDLE PRIVATE-KEY ARCH:PORT…".into());
    };
    // The key is beside the bundle, as `pack` leaves it.
    let key = SecretKey::load(Path::new(&format!("{bundle}.key")), || None)?;
    let trusted = TrustedKeys::new([key.public().clone()]);
    let bundle = Bundle::open(Path::new(bundle))?.verify(&trusted)?;
    let items: Vec<_> = bundle.index().items.iter().cloned().map(Arc::new).collect();
    let content = Arc::new(Content::Bundle(bundle));
    let folder = tempfile::tempdir()?;
    let keys = Arc::new(HostKeys::load(&folder.path().join("known_hosts"), &[])?.accept_new());
    let login = Login::new("root").load_key(Path::new(private), |_| None)?;
    let events: Arc<dyn Sink> = Arc::new(Silent);
    let run = Run::new(Journal::open(&folder.path().join("state"))?, events.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut jobs = Vec::new();
        for target in targets {
            let (arch, port) = target.split_once(':').ok_or("a target is ARCH:PORT")?;
            let arch: Arch = arch.parse()?;
            let target = Target::new(port, "127.0.0.1", port.parse()?);
            let host = Arc::new(SshHost::new(target, login.clone(), keys.clone(), events.clone()));
            let items = items.iter().filter(|item| item.arch == arch).cloned().collect();
            let run = &run;
            jobs.push(async move {
                let look = async |permit| Ok((Outcome::Unchanged, store::recover(permit, &*host).await?));
                let contents = run.step_for(host.name(), Step::new("look", "look"), look).await?;
                Ok::<_, Report>(Delivery { host: host.clone() as Arc<dyn Host>, items, contents })
            });
        }
        let deliveries = futures::future::try_join_all(jobs).await.map_err(|report| report.to_string())?;
        let delivered = distribute(deliveries, content, &run).await;
        for failure in &delivered.failures {
            eprintln!("{}: {}", failure.node, failure.report);
        }
        println!("{}", delivered.sent.values().sum::<u64>());
        if delivered.failures.is_empty() { Ok(()) } else { Err("some targets failed".into()) }
    })
}
