//! The node's store: content by its sha256, verified there before it gets its name.
//!
//! `sha256/DIGEST` is whole. `in/DIGEST` is on its way: all of it, or the first bytes after a cut;
//! `in/DIGEST.rest` continues it. Everything of ours on a node lies below [`ROOT`].

use crate::remote::{Command, Host, RemoteError};
use eggo_bundles::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The installer's own folder on a node.
pub const ROOT: &str = "/var/lib/eggo";
pub const STORE: &str = "/var/lib/eggo/store/sha256";
pub const INCOMING: &str = "/var/lib/eggo/store/in";

/// Where a whole item lies on the node.
pub fn path(digest: &Digest) -> String {
    format!("{STORE}/{digest}")
}

/// What a node's store holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Whole and verified, with sizes.
    pub whole: BTreeMap<Digest, u64>,
    /// On its way: how many bytes are there.
    pub incoming: BTreeMap<Digest, u64>,
    /// A cut left pieces that must be put together before anything else comes.
    pub unmerged: bool,
}

impl Contents {
    /// From two listings of `ls -ln`: mode links owner group size month day time name.
    pub(crate) fn parse(store: &[&str], incoming: &[&str]) -> Self {
        let mut contents = Self::default();
        for (name, size) in store.iter().filter_map(|line| entry(line)) {
            if let Ok(digest) = name.parse() {
                contents.whole.insert(digest, size);
            }
        }
        for (name, size) in incoming.iter().filter_map(|line| entry(line)) {
            match name.parse() {
                Ok(digest) => drop(contents.incoming.insert(digest, size)),
                Err(_) => contents.unmerged |= name.ends_with(".rest"),
            }
        }
        contents
    }
}

fn entry(line: &str) -> Option<(&str, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, _, _, _, size, .., name] = fields.as_slice() else { return None };
    Some((name, size.parse().ok()?))
}

/// Looks into the store after a cut, and puts together what the cut left in pieces.
pub async fn look(host: &dyn Host) -> Result<Contents, RemoteError> {
    let script = format!(
        "umask 077; mkdir -p {STORE} {INCOMING}; cd {INCOMING}\n\
         for rest in *.rest; do [ -e \"$rest\" ] || continue\n\
           whole=${{rest%.rest}}; cat \"$rest\" >> \"$whole\"; rm -f \"$rest\"; done\n\
         rm -f list.* sums.*\n\
         ls -ln {STORE}; echo @@; ls -ln {INCOMING}"
    );
    let command = Command::sh("look into the store", script).timeout(Duration::from_secs(300));
    let text = host.run(command).await?.text();
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| *line == "@@").unwrap_or(lines.len());
    Ok(Contents::parse(&lines[..at], lines.get(at + 1..).unwrap_or(&[])))
}
