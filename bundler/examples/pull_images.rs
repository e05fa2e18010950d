//! Pulls images of both archs from a plain-http registry into a cache and a layout's files
//! beside it: what `scripts/bench` races against `skopeo copy --all`.
//!
//!     pull_images FOLDER IMAGE…

use eggo_bundle::Tools;
use eggo_bundle::cache::Cache;
use eggo_bundle::http::{Http, Options};
use eggo_bundle::images::{self, Reference, Registries, Wanted};
use eggo_bundles::Arch;
use eggo_bundles::progress::Silent;
use std::error::Error;
use std::path::PathBuf;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: pull_images FOLDER IMAGE…")?);
    let mut registries = Registries::default();
    let mut wanted = Vec::new();
    for image in arguments {
        let reference: Reference = image.parse()?;
        registries.insecure.insert(reference.registry().to_string());
        wanted.push(Wanted::new(reference, vec![], "test".to_string()));
    }
    let (http, cache) = (Http::new(Options::default())?, Cache::open(folder.join("cache"))?);
    let tools = Tools { http: &http, cache: &cache, progress: &Silent };
    let locked = images::lock(&wanted, &Arch::ALL, &registries, &folder, tools).await?;
    images::fetch(&locked, &registries, &folder, tools).await?;
    for (path, bytes) in images::contents(&locked)?.generated {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(&folder))?;
        std::fs::write(path, bytes)?;
    }
    Ok(())
}
