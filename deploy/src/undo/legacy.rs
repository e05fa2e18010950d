//! Journals of version 0.1.0 have shell where later ones have actions. Each of its scripts is known by its title: it
//! becomes the action that does the same today. One that is not known is refused.

use super::{Firewall, KernelNote, Undo, package_of};
use crate::manager::Manager;
use crate::paths;
use crate::runtimes::RuntimeKind;
use serde_json::Value;

/// Replaces the scripts in a record by the actions that do the same, and writes what else was looser then as it is today.
pub(crate) fn translate(record: &mut Value) -> Result<(), String> {
    let step = record["step"].as_str().unwrap_or_default().to_string();
    let Some(undo) = record.get_mut("undo").and_then(Value::as_array_mut) else { return Ok(()) };
    for one in undo.iter_mut().filter(|one| one["undo"] == "script") {
        let field = |name: &str| one[name].as_str().unwrap_or_default();
        let (title, script) = (field("title"), field("script"));
        let action = action(&step, title, script).ok_or_else(|| {
            format!("no version of eggo-install wrote the script `{}`", title.escape_debug())
        })?;
        *one = serde_json::to_value(action).map_err(|error| error.to_string())?;
    }
    undo.retain_mut(tidy);
    Ok(())
}

/// `cni-bin-dir` was taken as it was written, and so were requests for packages. False: nothing is left to undo.
fn tidy(undo: &mut Value) -> bool {
    if undo["undo"] == "folder"
        && let Some(path) = undo["path"].as_str().map(paths::plain)
    {
        undo["path"] = path.as_str().into();
        // One right below the root of all files is nobody's to remove.
        return path.matches('/').count() > 1;
    }
    if undo["undo"] == "packages"
        && let Some(names) = undo["names"].as_array_mut()
    {
        names.retain_mut(|name| {
            let Some(package) = name.as_str().and_then(package_of).map(str::to_string) else { return false };
            *name = package.into();
            true
        });
        return !names.is_empty();
    }
    true
}

fn action(step: &str, title: &str, script: &str) -> Option<Undo> {
    let runtime = || {
        let service = step.strip_prefix("service/")?;
        RuntimeKind::all().find(|kind| kind.service == service)
    };
    Some(match title {
        "remove our names from /etc/hosts" => {
            let (_, rest) = script.split_once("# begin eggo ")?;
            Undo::HostsEntry { cluster: rest.split_once('\'')?.0.to_string() }
        }
        "restore kernel settings" => {
            let kubelet = script.contains("/sysctl-kubelet");
            Undo::KernelSettings { noted: if kubelet { KernelNote::Kubelet } else { KernelNote::System } }
        }
        "let services start again" => Undo::ReleaseServices,
        "remove what they brought along" => {
            let dpkg = script.contains("dpkg-query");
            Undo::BroughtAlong { manager: if dpkg { Manager::Dpkg } else { Manager::Rpm } }
        }
        "remove links to CNI programs" => cni_links(script)?,
        "remove docker's bridge" => Undo::RuntimeLink { runtime: runtime()? },
        "end the containers and remove their data" => Undo::ContainersOf { runtime: runtime()? },
        "leave the runtime that was there before as it was" => Undo::RuntimeAsBefore { runtime: runtime()? },
        "remove pods, their mounts and interfaces" => Undo::Pods,
        "remove kube-proxy's rules" => {
            Undo::KubeProxyRules { program: word(script.split_once(" --cleanup >/dev/null")?.0)? }
        }
        _ => {
            if let Some(was) = title.strip_prefix("set the hostname back to ") {
                return Some(Undo::Hostname { was: was.to_string() });
            }
            let firewall = title.strip_prefix("close ports in ")?;
            let firewall = Firewall::ALL.into_iter().find(|known| known.as_str() == firewall)?;
            Undo::FirewallPorts { firewall }
        }
    })
}

/// `for f in INTO/*; do case $(readlink "$f") in FROM/*|FROM/*) rm -f "$f" ;; esac; done`
fn cni_links(script: &str) -> Option<Undo> {
    let (into, rest) = script.strip_prefix("for f in ")?.split_once("/*; do case $(readlink \"$f\") in ")?;
    let (from, _) = rest.split_once("/*) rm -f")?;
    let plain = |quoted: &str| Some(paths::plain(&word(quoted)?));
    let from = from.split("/*|").map(plain).collect::<Option<_>>()?;
    Some(Undo::CniLinks { into: plain(into)?, from })
}

/// What a shell reads of a word as 0.1.0 wrote it: plain, or between single quotes.
fn word(quoted: &str) -> Option<String> {
    match quoted.strip_prefix('\'') {
        None => Some(quoted.to_string()),
        Some(rest) => Some(rest.strip_suffix('\'')?.replace(r"'\''", "'")),
    }
}

#[cfg(test)]
mod tests;
