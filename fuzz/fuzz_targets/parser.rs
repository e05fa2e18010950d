//! The parser that `EGGO_FUZZ` names, of those that the crates list in `foreign.rs`.

#![no_main]

use eggo_bundles::foreign::Parser;
use std::sync::OnceLock;

fn parser() -> fn(&[u8]) {
    let asked = std::env::var("EGGO_FUZZ").unwrap_or_default();
    let all: Vec<Parser> = [
        &eggo_bundles::foreign::PARSERS[..],
        &eggo_bundle::foreign::PARSERS,
        &eggo_deploy::foreign::PARSERS,
    ]
    .concat();
    match all.iter().find(|(name, _)| *name == asked) {
        Some((_, parse)) => *parse,
        None => {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            eprintln!("EGGO_FUZZ is `{asked}`, expected one of {}", names.join(", "));
            std::process::exit(2)
        }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static PARSER: OnceLock<fn(&[u8])> = OnceLock::new();
    PARSER.get_or_init(parser)(bytes);
});
