//! What runs on the node for a transaction.
//!
//! deb: apt-get over the given files alone, with no repository in sight, so that it can neither
//! download nor choose anything else; it may remove nothing. rpm: `rpm -U --test`, then `rpm -U`.
//! The transaction itself writes to a file, so that a lost connection does not stop it half-way.

use super::{Transaction, file_name};
use crate::facts::{Facts, Manager};
use crate::remote::{Command, KEPT, Output, words};
use crate::store::{ROOT, path};
use bytes::Bytes;
use eggo_bundles::Item;
use std::time::Duration;

/// The first line of our own policy-rc.d, by which it is told from the administrator's.
const POLICY_MARK: &str = "# eggo: no service starts while packages are installed";
/// What the node's repositories brought, with everything that it needed: one package a line.
pub(super) const BROUGHT: &str = "/var/lib/eggo/kept/brought";
/// Held as long as a transaction goes on. A lost connection ends the installer's command, but not the
/// transaction, and the command is run again: it waits here and then finds the work done. The package
/// managers do not get the descriptor (`9>&-`), for a service that one starts would keep it.
const LOCK: &str = "if command -v flock >/dev/null; then exec 9> /var/lib/eggo/packages.lock; flock 9; fi";
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
            || line.contains("No space left")
            || line.contains("Read-only file system")
    };
    let chosen = lines.iter().enumerate().filter(|(at, line)| says_why(*at, line)).map(|(_, line)| *line);
    let chosen: Vec<&str> = chosen.collect();
    let chosen = if chosen.is_empty() { &lines[..] } else { &chosen[..] };
    chosen[chosen.len().saturating_sub(12)..].join("\n")
}

pub(super) fn simulate(transaction: &Transaction) -> Command {
    let script = match transaction.manager {
        Manager::Dpkg => format!("{}\n{APT} -s install ./*.deb 2>&1", prepare(ROOT)),
        Manager::Rpm => format!("{}\nrpm -U --test ./*.rpm 2>&1", prepare(ROOT)),
    };
    let links = archive(transaction, |_| None);
    Command::sh("try the package transaction", script).stdin(links).timeout(TIMEOUT).unchecked()
}

/// The same with stubs, and before there is a store: of what only the whole package can prove, digest and
/// signature, nothing is asked.
pub(super) fn rehearse(manager: Manager, stubs: Bytes) -> Command {
    let prepare = prepare("${TMPDIR:-/tmp}");
    let script = match manager {
        Manager::Dpkg => format!("{prepare}\n{APT} -s install ./*.deb 2>&1"),
        Manager::Rpm => format!("{prepare}\nrpm -U --test --nodigest --nosignature ./*.rpm 2>&1"),
    };
    Command::sh("try the package transaction", script).stdin(stubs).timeout(TIMEOUT).unchecked()
}

pub(super) fn install(transaction: &Transaction) -> Command {
    // The subshell waits for its last command too, instead of becoming it: then the lock outlives its parent.
    let script = match transaction.manager {
        Manager::Dpkg => format!(
            "{LOCK}\n{}\n{}\ntrap '' HUP INT PIPE TERM; (exec > ../packages.log 2>&1 < /dev/null\n\
             [ -z \"$(dpkg --audit)\" ] || DEBIAN_FRONTEND=noninteractive dpkg --configure -a --force-confdef --force-confold 9>&-\n\
             {APT} install ./*.deb 9>&-\n:) &\n\
             wait $! || {{ cat ../packages.log; exit 1; }}\n{}",
            prepare(ROOT),
            hold_services(),
            release_services(Manager::Dpkg)
        ),
        // Offline mode: a scriptlet's `systemctl start` does nothing, `enable` still works.
        Manager::Rpm => format!(
            "{LOCK}\n{}\nset --; for file in ./*.rpm; do name=$(rpm -qp --qf '%{{NAME}}-%{{VERSION}}-%{{RELEASE}}.%{{ARCH}}' \"$file\" 2>/dev/null)\n\
               rpm -q --quiet \"$name\" || set -- \"$@\" \"$file\"; done\n\
             [ $# -gt 0 ] || exit 0\n\
             trap '' HUP INT PIPE TERM; (exec > ../packages.log 2>&1 < /dev/null\n\
             SYSTEMD_OFFLINE=1; export SYSTEMD_OFFLINE; rpm -U --test \"$@\"; rpm -U \"$@\" 9>&-\n:) &\n\
             wait $! || {{ cat ../packages.log; exit 1; }}\n{}",
            prepare(ROOT),
            release_services(Manager::Rpm)
        ),
    };
    let links = archive(transaction, |_| None);
    Command::sh("install packages", script).stdin(links).timeout(TIMEOUT).unchecked()
}

pub(super) fn from_repositories(manager: Manager, facts: &Facts, names: &[String]) -> Command {
    let names = words(names);
    let (before, after) = (note_packages(manager), note_brought(manager));
    let script = match manager {
        Manager::Dpkg => format!(
            "{LOCK}\n{}\n{before}\nDEBIAN_FRONTEND=noninteractive apt-get -y --no-remove --no-install-recommends install {names} 2>&1 9>&- || \
             {{ {}; exit 1; }}\n{after}\n{}",
            hold_services(),
            release_services(Manager::Dpkg),
            release_services(Manager::Dpkg)
        ),
        Manager::Rpm => {
            let tool = if facts.has("dnf") { "dnf" } else { "yum" };
            let release = release_services(Manager::Rpm);
            format!(
                "{LOCK}\n{before}\nSYSTEMD_OFFLINE=1 {tool} -y install {names} 2>&1 9>&-\n{after}\n{release}"
            )
        }
    };
    Command::sh("install packages from the node's repositories", script).timeout(TIMEOUT).unchecked()
}

/// The packages of before, noted once: a run that was cut off has changed them already.
fn note_packages(manager: Manager) -> String {
    format!("mkdir -p {KEPT}; [ -e {BROUGHT}.before ] || {} > {BROUGHT}.before", installed(manager))
}

fn note_brought(manager: Manager) -> String {
    format!(
        "{} | grep -vxF -f {BROUGHT}.before >> {BROUGHT} || :\nrm -f {BROUGHT}.before",
        installed(manager)
    )
}

fn installed(manager: Manager) -> &'static str {
    match manager {
        Manager::Dpkg => {
            "dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package}\\n' | awk '$1 ~ /^.i/ { print $2 }'"
        }
        Manager::Rpm => "rpm -qa --qf '%{NAME}\\n'",
    }
}

/// apt-get that sees the installed packages and the files it is given, and nothing else. The
/// folder `apt` stands in for its state; the system's own lists and caches are left alone.
const APT: &str = "DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-remove --no-install-recommends \
    -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=\"$work\"/apt/lists \
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Dir::Cache::Archives=\"$work\"/apt/archives \
    -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold";

/// A folder with the packages under their own names, and a place for apt.
fn prepare(folder: &str) -> String {
    format!(
        "umask 022; work=$(mktemp -d {folder}/packages.XXXXXX); trap 'rm -rf \"$work\"' EXIT\n\
         mkdir -p \"$work/files\" \"$work/apt/lists/partial\" \"$work/apt/archives/partial\"\n\
         cd \"$work/files\"; tar -x -f -"
    )
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

/// Debian's way of saying that no maintainer script may start anything.
fn hold_services() -> String {
    format!(
        "policy=/usr/sbin/policy-rc.d\n\
         if [ ! -e \"$policy\" ]; then printf '#!/bin/sh\\n{POLICY_MARK}\\nexit 101\\n' > \"$policy\"; chmod 755 \"$policy\"; fi\n\
         release() {{ if grep -qs '{POLICY_MARK}' \"$policy\"; then rm -f \"$policy\"; fi; }}\n\
         trap 'release; rm -rf \"${{work:-/nonexistent}}\"' EXIT"
    )
}

pub(super) fn release_services(manager: Manager) -> String {
    match manager {
        Manager::Dpkg => format!(
            "if grep -qs '{POLICY_MARK}' /usr/sbin/policy-rc.d; then rm -f /usr/sbin/policy-rc.d; fi\n\
             systemctl daemon-reload 2>/dev/null || :"
        ),
        Manager::Rpm => "systemctl daemon-reload 2>/dev/null || :".into(),
    }
}
