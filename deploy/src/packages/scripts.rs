//! What runs on the node for a transaction.
//!
//! deb: apt-get over the given files alone, with no repository in sight, so that it can neither
//! download nor choose anything else; it may remove nothing. rpm: `rpm -U --test`, then `rpm -U`.
//! The transaction itself writes to a file, so that a lost connection does not stop it half-way.

use super::{Transaction, file_name};
use crate::facts::{Facts, Manager};
use crate::failure::Disk;
use crate::remote::{Command, Output, Script};
use crate::run::Permit;
use crate::store::{INTACT, ROOT, path};
use crate::undo;
use bytes::Bytes;
use eggo_bundles::Item;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(3600);

/// The lines of a failed command's output that say why.
pub(super) fn reasons(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    // apt names what it would have to remove on the next line.
    let removes = |at: usize| lines.get(at).is_some_and(|line| line.contains("will be REMOVED:"));
    let says_why = |at: usize, line: &str| {
        let line = line.trim_start();
        removes(at)
            || at.checked_sub(1).is_some_and(removes)
            || ["E:", "error:", "dpkg: error", "Depends:", "PreDepends:", "Breaks:", "Conflicts:"]
                .iter()
                .any(|word| line.contains(word))
            || line.contains("is needed by")
            || line.contains("conflicts with")
            || Disk::of(line).is_some()
    };
    let chosen = lines.iter().enumerate().filter(|(at, line)| says_why(*at, line)).map(|(_, line)| *line);
    let chosen: Vec<&str> = chosen.collect();
    let chosen = if chosen.is_empty() { &lines[..] } else { &chosen[..] };
    chosen[chosen.len().saturating_sub(12)..].join("\n")
}

/// Asks the package manager, in a folder of its own.
fn ask(function: &str, manager: Manager, words: &[String], packages: impl Into<Bytes>) -> Command {
    let command = Command::scratch("try the package transaction", script(function, manager, words));
    command.stdin(packages).timeout(TIMEOUT).unchecked()
}

/// One of the functions that each manager has.
pub(super) fn script(function: &str, manager: Manager, words: &[String]) -> Script {
    let function = format!("{function}_{}", manager.as_str());
    let script = undo::library().and(INTACT).and(include_str!("transaction.sh")).set("ROOT", ROOT);
    script.then([function].into_iter().chain(words.iter().cloned()))
}

pub(super) fn simulate(transaction: &Transaction) -> Command {
    let folder = [ROOT.to_string()];
    ask("try", transaction.manager, &folder, archive(transaction, |_| None))
}

/// The same with stubs, and before there is a store.
pub(super) fn rehearse(manager: Manager, stubs: Bytes) -> Command {
    ask("rehearse", manager, &[], stubs)
}

pub(super) fn install(permit: Permit, transaction: &Transaction) -> Command {
    let links = archive(transaction, |_| None);
    let script = script("install", transaction.manager, &[]);
    Command::change(permit, "install packages", script).stdin(links).timeout(TIMEOUT).unchecked()
}

pub(super) fn from_repositories(
    permit: Permit,
    manager: Manager,
    facts: &Facts,
    names: &[String],
) -> Command {
    let tool = match manager {
        Manager::Dpkg => "apt-get",
        Manager::Rpm if facts.has("dnf") => "dnf",
        Manager::Rpm => "yum",
    };
    let words = [&[tool.to_string()], names].concat();
    let (title, script) = ("install packages from the node's repositories", script("from", manager, &words));
    Command::change(permit, title, script).timeout(TIMEOUT).unchecked()
}

/// The packages under their own names, as a tar: stubs where there are any, else links into the store.
pub(super) fn archive<'a>(transaction: &Transaction, stub: impl Fn(&Item) -> Option<&'a [u8]>) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for item in &transaction.install {
        let mut header = tar::Header::new_gnu();
        let name = file_name(item);
        let appended = match stub(item) {
            Some(bytes) => {
                header.set_size(bytes.len() as u64);
                header.set_mode(0o644);
                archive.append_data(&mut header, name, bytes)
            }
            None => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                header.set_mode(0o777);
                archive.append_link(&mut header, name, path(&item.sha256))
            }
        };
        appended.expect("writing to memory does not fail");
    }
    archive.into_inner().expect("writing to memory does not fail")
}
