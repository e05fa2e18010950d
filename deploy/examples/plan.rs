//! Prints what an install would do as JSON, without connecting to any node:
//!
//!     cargo run -p eggo-deploy --example plan -- BUNDLE deploy.yaml KEY.pub
//!
//! Without facts from the nodes, the plan assumes that their stores are empty, and takes the packages of any format.

use eggo_bundles::{Bundle, PublicKey, TrustedKeys};
use eggo_deploy::{config, operation};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, deploy, key] = words.as_slice() else {
        return Err("usage: plan BUNDLE deploy.yaml KEY.pub".into());
    };
    let trusted = TrustedKeys::new([PublicKey::load(Path::new(key))?]);
    let bundle = Bundle::open(Path::new(bundle))?.verify(&trusted)?;
    let loaded = config::load(Path::new(deploy))?;
    eprint!("{}", loaded.warnings);
    let plan =
        operation::plan(&loaded.config, bundle.index(), &BTreeMap::new(), &operation::Options::default())?;
    println!("{}", serde_json::to_string_pretty(&plan)?);
    Ok(())
}
