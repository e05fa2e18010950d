//! The node's store: content by its sha256, verified there before it gets its name, and again before it is used.
//!
//! `sha256/DIGEST` is whole. `in/DIGEST` is on its way: all of it, or the first bytes after a cut;
//! `in/DIGEST.rest` continues it. `current` lists what the last whole install needs, `previous` what
//! the one before it needed. Everything of ours on a node is below [`ROOT`].

pub use crate::paths::ROOT;

use crate::remote::{COMMON, Command, Host, Output, RemoteError, Script};
use crate::run::Permit;
use eggo_bundles::{Digest, Item};
use eggo_errors::{Code, Exit, Explain};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub const STORE: &str = "/var/lib/eggo/store/sha256";
pub const INCOMING: &str = "/var/lib/eggo/store/in";
/// A node's programs before an upgrade, noted until it is through.
pub const FORMER: &str = "/var/lib/eggo/kept/former-programs";

/// Functions that hash content. A script that has it used calls `intact` before.
pub const INTACT: &str = include_str!("store/intact.sh");
/// How `intact` ends a script.
const NOT_INTACT: u32 = 65;

/// Where a whole item is on the node.
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
    /// Something was damaged since it was verified: nothing is known of what is whole.
    #[serde(skip)]
    pub suspect: bool,
}

impl Contents {
    /// Of a store that is not what it was.
    pub fn suspect() -> Self {
        Self { suspect: true, ..Self::default() }
    }

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

/// Puts together what a cut left in pieces, and lists the store.
pub async fn recover(permit: Permit, host: &dyn Host) -> Result<Contents, RemoteError> {
    list(permit, host, "", Duration::from_secs(300)).await
}

/// The same of a store that is suspect: everything in it is hashed again, and what is damaged is removed.
pub async fn inspect(permit: Permit, host: &dyn Host) -> Result<Contents, RemoteError> {
    list(permit, host, "yes", Duration::from_secs(3600)).await
}

async fn list(
    permit: Permit,
    host: &dyn Host,
    suspect: &str,
    timeout: Duration,
) -> Result<Contents, RemoteError> {
    let script = Script::new([INTACT, include_str!("store/recover.sh")])
        .set("STORE", STORE)
        .set("INCOMING", INCOMING)
        .set("SUSPECT", suspect);
    let command = Command::change(permit, "look into the store", script).timeout(timeout);
    let text = host.run(command).await?.text();
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| *line == "@@").unwrap_or(lines.len());
    Ok(Contents::parse(&lines[..at], lines.get(at + 1..).unwrap_or(&[])))
}

/// Content of a store that is not what was verified there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{node}: damaged in the node's store: {}", paths.join(", "))]
pub struct Damaged {
    pub node: String,
    /// In the bundle.
    pub paths: Vec<String>,
}

impl Damaged {
    pub const CODE: Code = Code::new("store-damaged");

    /// Whether that is how a script ended that uses `items`.
    pub fn check<'a>(
        node: &str,
        output: &Output,
        items: impl IntoIterator<Item = &'a Item>,
    ) -> Result<(), Self> {
        if output.status != NOT_INTACT {
            return Ok(());
        }
        let text = output.text();
        let damaged: Vec<Digest> =
            text.lines().filter_map(|line| line.strip_prefix("damaged ")?.parse().ok()).collect();
        let paths: BTreeSet<String> = items
            .into_iter()
            .filter(|item| damaged.contains(&item.sha256))
            .map(|item| item.path.clone())
            .collect();
        if paths.is_empty() {
            return Ok(());
        }
        Err(Self { node: node.into(), paths: paths.into_iter().collect() })
    }
}

impl Explain for Damaged {
    fn code(&self) -> Code {
        Self::CODE
    }

    fn hint(&self) -> Option<String> {
        Some("check the node's disk and memory".into())
    }

    fn exit(&self) -> Exit {
        Exit::SomeHosts
    }
}

/// Takes the list of what is needed on standard input; prints what it removed.
pub fn prune_script() -> Script {
    Script::new([COMMON, include_str!("store/prune.sh")]).set("ROOT", ROOT).set("FORMER", FORMER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::sandbox::Sandbox;

    fn digest(name: &str) -> String {
        Digest::of(name.as_bytes()).hex()
    }

    /// Where an item is in the sandbox.
    fn place(name: &str) -> String {
        format!("eggo/store/sha256/{}", digest(name))
    }

    /// What is removed when so much is needed.
    fn prune(sandbox: &Sandbox, needed: &str) -> String {
        let list: String = needed.chars().map(|name| digest(&name.to_string()) + "\n").collect();
        let script = prune_script().set("ROOT", sandbox.at("eggo")).set("FORMER", sandbox.at("eggo/former"));
        let said = sandbox.feed(script, list.as_bytes());
        assert!(said.done && said.err.is_empty(), "{said:?}");
        said.out
    }

    #[test]
    fn what_the_last_two_installs_need_stays() {
        let sandbox = Sandbox::new();
        sandbox.write("eggo/former", "");
        for (needed, there) in [("ab", "ab"), ("ab", "ab"), ("bc", "abc"), ("cd", "bcd"), ("cd", "bcd")] {
            needed.chars().for_each(|name| sandbox.write(&place(&name.to_string()), ""));
            prune(&sandbox, needed);
            let left: String = "abcd".chars().filter(|name| sandbox.has(&place(&name.to_string()))).collect();
            assert_eq!(left, there, "after {needed}");
        }
        assert!(!sandbox.has("eggo/former"), "an upgrade that was cut short is finished");
    }

    #[test]
    fn cut_off_between_the_lists_nothing_needed_goes() {
        let sandbox = Sandbox::new();
        ["a", "b", "c"].iter().for_each(|name| sandbox.write(&place(name), ""));
        // The old list is the previous one already, and the new one not yet there.
        sandbox.write("eggo/store/previous", &(digest("a") + "\n"));
        assert_eq!(prune(&sandbox, "b"), digest("c") + "\n");
        assert!(sandbox.has(&place("a")) && sandbox.has(&place("b")));
    }
}
