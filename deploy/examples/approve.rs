//! Prepares an install, writes what was prepared, and runs it when it is given back, as a server would that waits for an
//! approval. Nodes must be reachable with an SSH key, and their host keys known:
//!
//!     cargo run -p eggo-deploy --example approve -- BUNDLE deploy.yaml KEY.pub SSH-KEY KNOWN-HOSTS STATE > plan.json
//!     cargo run -p eggo-deploy --example approve -- BUNDLE deploy.yaml KEY.pub SSH-KEY KNOWN-HOSTS STATE plan.json

use eggo_bundles::{Bundle, PublicKey, TrustedKeys};
use eggo_deploy::config;
use eggo_deploy::content::Content;
use eggo_deploy::events::Silent;
use eggo_deploy::operation::{self, Access, InstallRequest, Options, Prepared};
use eggo_deploy::ssh::{HostKeys, Login};
use eggo_deploy::stop::Stop;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, deploy, key, private, known, state, approved @ ..] = words.as_slice() else {
        return Err("usage: approve BUNDLE deploy.yaml KEY.pub SSH-KEY KNOWN-HOSTS STATE [PLAN.json]".into());
    };
    let trusted = TrustedKeys::new([PublicKey::load(Path::new(key))?]);
    let content = Content::Bundle(Bundle::open(Path::new(bundle))?.verify(&trusted)?);
    let config = config::load(Path::new(deploy))?.config;
    let login = Login::new(&config.login.user).load_key(Path::new(private), |_| None)?;
    let request = InstallRequest {
        access: Access::with(login, Arc::new(HostKeys::load(Path::new(known), &[])?)),
        state: Path::new(state).join(&config.cluster_id),
        config: Arc::new(config),
        operator: "ops@desk".into(),
        index: Arc::new(content.index().clone()),
        source: Arc::new(content),
        options: Options::default(),
        rolling: Default::default(),
        events: Arc::new(Silent),
        stop: Stop::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match approved.first() {
            None => {
                let ready = operation::prepare(request).await.map_err(|report| report.to_string())?;
                println!("{}", serde_json::to_string_pretty(ready.prepared())?);
            }
            Some(file) => {
                let approved: Prepared = serde_json::from_str(&std::fs::read_to_string(file)?)?;
                let done = operation::run(request, &approved).await.map_err(|report| report.to_string())?;
                println!("{} changes on {} nodes", done.changed, done.nodes);
            }
        }
        Ok(())
    })
}
