//! Journals of version 0.1.0 have shell where later ones have actions. Each of its scripts is known by its title: it
//! becomes the action that does the same today. One that is not known is refused.

use super::{Firewall, KernelNote, Undo};
use crate::facts::Manager;
use crate::runtimes::RuntimeKind;
use serde_json::Value;

/// Replaces the scripts in a record by the actions that they stand for.
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
    Ok(())
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
    let from = from.split("/*|").map(word).collect::<Option<_>>()?;
    Some(Undo::CniLinks { into: word(into)?, from })
}

/// What a shell reads of a word as 0.1.0 wrote it: plain, or between single quotes.
fn word(quoted: &str) -> Option<String> {
    match quoted.strip_prefix('\'') {
        None => Some(quoted.to_string()),
        Some(rest) => Some(rest.strip_suffix('\'')?.replace(r"'\''", "'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(step: &str, title: &str, script: &str) -> Result<Undo, String> {
        let undo = serde_json::json!([{"undo": "script", "title": title, "script": script}]);
        let mut record = serde_json::json!({"record": "intent", "step": step, "undo": undo});
        translate(&mut record)?;
        Ok(serde_json::from_value(record["undo"][0].clone()).unwrap())
    }

    #[test]
    fn parameters_come_out_of_the_scripts() {
        let links = |quoted: &str| {
            format!(
                "for f in /opt/cni/bin/*; do case $(readlink \"$f\") in {quoted}) rm -f \"$f\" ;; esac; done"
            )
        };
        let read_links =
            |quoted: &str| read("service/containerd", "remove links to CNI programs", &links(quoted));
        let into = |from: &[&str]| Undo::CniLinks {
            into: "/opt/cni/bin".into(),
            from: from.iter().map(|folder| folder.to_string()).collect(),
        };
        assert_eq!(
            read_links("/usr/libexec/cni/*|'/a b'/*|'/it'\\''s'/*"),
            Ok(into(&["/usr/libexec/cni", "/a b", "/it's"]))
        );
        assert_eq!(read_links("/usr/libexec/cni/*"), Ok(into(&["/usr/libexec/cni"])));
        let docker = |title: &str| read("service/docker", title, "…");
        let runtime = "docker".parse().unwrap();
        assert_eq!(docker("remove docker's bridge"), Ok(Undo::RuntimeLink { runtime }));
        for unknown in ["service/podman", "docker", ""] {
            assert!(read(unknown, "remove docker's bridge", "…").is_err(), "{unknown}");
        }
        assert_eq!(
            read("system/hostname", "set the hostname back to a.b", "…"),
            Ok(Undo::Hostname { was: "a.b".into() })
        );
        assert!(read("system/ports", "close ports in shorewall", "…").is_err());
        let rules = "'/opt/a b/kube-proxy' --cleanup >/dev/null 2>&1 || :\n…";
        let program = "/opt/a b/kube-proxy".to_string();
        assert_eq!(
            read("service/kube-proxy", "remove kube-proxy's rules", rules),
            Ok(Undo::KubeProxyRules { program })
        );
        assert!(read("x", "anything", "reboot").is_err());
    }
}
