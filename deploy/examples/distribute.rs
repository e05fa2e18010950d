//! Distributes a bundle to sshd targets on this machine, to each what is of its arch, for `scripts/bench`:
//!
//!     distribute BUNDLE PRIVATE-KEY ARCH:PORT…

use eggo_bundles::{Arch, Bundle, SecretKey, TrustedKeys};
use eggo_deploy::content::Content;
use eggo_deploy::distribute::{Delivery, distribute};
use eggo_deploy::events::{Silent, Sink};
use eggo_deploy::operation::Limits;
use eggo_deploy::remote::Host;
use eggo_deploy::ssh::{HostKeys, Login, SshHost, Target};
use eggo_deploy::store;
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, private, targets @ ..] = words.as_slice() else {
        return Err("usage: distribute BUNDLE PRIVATE-KEY ARCH:PORT…".into());
    };
    // The key lies beside the bundle, as `pack` leaves it.
    let key = SecretKey::load(Path::new(&format!("{bundle}.key")), || None)?;
    let trusted = TrustedKeys::new([key.public().clone()]);
    let bundle = Bundle::open(Path::new(bundle))?.verify(&trusted)?;
    let items: Vec<_> = bundle.index().items.iter().cloned().map(Arc::new).collect();
    let content = Arc::new(Content::Bundle(bundle));
    let folder = tempfile::tempdir()?;
    let keys = Arc::new(HostKeys::load(&folder.path().join("known_hosts"), &[])?.accept_new());
    let login = Login::new("root").load_key(Path::new(private), |_| None)?;
    let events: Arc<dyn Sink> = Arc::new(Silent);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut jobs = Vec::new();
        for target in targets {
            let (arch, port) = target.split_once(':').ok_or("a target is ARCH:PORT")?;
            let arch: Arch = arch.parse()?;
            let target = Target::new(port, "127.0.0.1", port.parse()?);
            let host = Arc::new(SshHost::new(target, login.clone(), keys.clone(), events.clone()));
            let items = items.iter().filter(|item| item.arch == arch).cloned().collect();
            jobs.push(async move {
                let contents = store::look(&*host).await?;
                Ok::<_, eggo_deploy::remote::RemoteError>(Delivery {
                    host: host as Arc<dyn Host>,
                    items,
                    contents,
                })
            });
        }
        let deliveries = futures::future::try_join_all(jobs).await?;
        let delivered = distribute(deliveries, content, events, &Limits::default()).await;
        for failure in &delivered.failures {
            eprintln!("{}: {}", failure.node, failure.report);
        }
        println!("{}", delivered.sent.values().sum::<u64>());
        if delivered.failures.is_empty() { Ok(()) } else { Err("some targets failed".into()) }
    })
}
