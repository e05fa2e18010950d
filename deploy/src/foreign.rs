//! The parsers of bytes that somebody else wrote, for fuzzing: see [`eggo_bundles::foreign`].

use crate::pki::Certificate;
use crate::ssh::KnownHosts;
use crate::{config, facts, journal};
use eggo_bundles::foreign::Parser;

pub const PARSERS: [Parser; 5] = [
    ("certificates", certificates),
    ("deploy_yaml", deploy_yaml),
    ("facts", facts),
    ("journal", journal::foreign),
    ("known_hosts", known_hosts),
];

fn certificates(bytes: &[u8]) {
    let _ = Certificate::parse("a certificate", bytes);
    let _ = Certificate::parse_all("certificates", bytes);
}

fn deploy_yaml(bytes: &[u8]) {
    let _ = config::parse("deploy.yaml", bytes);
}

/// What a node says of itself.
fn facts(bytes: &[u8]) {
    let _ = facts::parse("node", &String::from_utf8_lossy(bytes), 0, 1);
}

fn known_hosts(bytes: &[u8]) {
    KnownHosts::foreign(&String::from_utf8_lossy(bytes));
}
