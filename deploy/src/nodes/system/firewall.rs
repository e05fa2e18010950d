//! Ports that the node's firewall must let in, with whatever firewall runs there; without one there
//! is nothing to open. Only ports that were closed are opened, and only those are closed again.

use crate::components;
use crate::config::Port;
use crate::facts::Facts;
use crate::journal::Undo;
use crate::nodes::{Node, Nodes};
use crate::remote::{Command, KEPT, words};
use crate::run::{Outcome, Step};
use eggo_errors::Report;

/// Which ports we opened, one `PORT/PROTOCOL` a line; with `later` behind it, if it was open until a reboot
/// before.
const OPENED: &str = "/var/lib/eggo/kept/ports";
/// Shell: `among PORT/PROTOCOL LIST` succeeds if firewalld's list has the port, be it in a range: to close one
/// port of the user's range would break it apart.
const AMONG: &str = r#"
among() {
  for known in $2; do
    range=${known%/*}
    if [ "${1#*/}" = "${known#*/}" ] && [ "${1%/*}" -ge "${range%-*}" ] && [ "${1%/*}" -le "${range#*-}" ]; then return 0; fi
  done
  return 1
}
"#;
const NFT_FILE: &str = "/etc/nftables-eggo.nft";
const NFT_DROP_IN: &str = "/etc/systemd/system/nftables.service.d/eggo.conf";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Firewall {
    Firewalld,
    Ufw,
    Nftables,
}

impl Firewall {
    /// The one that runs.
    pub fn of(facts: &Facts) -> Option<Self> {
        if facts.runs("firewalld") {
            return Some(Self::Firewalld);
        }
        if facts.runs("ufw") || (facts.has("ufw") && facts.enabled_services.contains("ufw")) {
            return Some(Self::Ufw);
        }
        let nftables = facts.has("nft") && facts.enabled_services.contains("nftables");
        nftables.then_some(Self::Nftables)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Firewalld => "firewalld",
            Self::Ufw => "ufw",
            Self::Nftables => "nftables",
        }
    }

    /// Opens what is closed, and writes down what it opened.
    fn open(self, ports: &[String]) -> String {
        let ports = words(ports);
        let each = match self {
            // Its program takes half a second for anything: one call for all.
            Self::Firewalld => {
                "later=later; among \"$port\" \"$runs\" || { later=; now=\"$now --add-port=$port\"; }\n\
                 among \"$port\" \"$open\" || { add=\"$add --add-port=$port\"; echo \"$port${later:+ $later}\" >> \"$opened\"; }"
            }
            Self::Ufw => {
                "ufw status | grep -q \"^$port \" || { ufw allow \"$port\" comment eggo >/dev/null; echo \"$port\" >> \"$opened\"; }"
            }
            Self::Nftables => {
                "grep -qsx \"$port\" \"$opened\" || { nft insert rule inet filter input \"${port#*/}\" dport \"${port%/*}\" \
                 accept comment '\"eggo\"'; echo \"$port\" >> \"$opened\"; }\n\
                 echo \"insert rule inet filter input ${port#*/} dport ${port%/*} accept comment \\\"eggo\\\"\" >> \"$rules\""
            }
        };
        let (before, after) = match self {
            Self::Nftables => (
                // No such chain: nothing is filtered there.
                format!(
                    "nft list chain inet filter input >/dev/null 2>&1 || exit 0\nrules={NFT_FILE}.new; : > \"$rules\"\n"
                ),
                format!(
                    "mv -f \"$rules\" {NFT_FILE}; mkdir -p {folder}\n\
                     printf '[Service]\\nExecStartPost=/usr/sbin/nft -f {NFT_FILE}\\nExecReload=/usr/sbin/nft -f {NFT_FILE}\\n' > {NFT_DROP_IN}\n\
                     systemctl daemon-reload\n",
                    folder = NFT_DROP_IN.rsplit_once('/').map_or("/", |(folder, _)| folder)
                ),
            ),
            Self::Firewalld => (
                format!(
                    "{AMONG}now=; add=; open=$(firewall-cmd --permanent --list-ports); runs=$(firewall-cmd --list-ports)\n"
                ),
                "[ -z \"$add\" ] || firewall-cmd -q --permanent $add\n[ -z \"$now\" ] || firewall-cmd -q $now\n"
                    .to_string(),
            ),
            Self::Ufw => (String::new(), String::new()),
        };
        format!("opened={OPENED}; mkdir -p {KEPT}\n{before}for port in {ports}; do\n{each}\ndone\n{after}")
    }

    fn close(self) -> String {
        let each = match self {
            Self::Firewalld => {
                "remove=\"${remove-} --remove-port=$port\"; [ -n \"$later\" ] || now=\"${now-} --remove-port=$port\""
            }
            Self::Ufw => "ufw delete allow \"$port\" >/dev/null || :",
            Self::Nftables => ":",
        };
        let after = match self {
            Self::Nftables => format!(
                "\nnft -a list chain inet filter input 2>/dev/null | sed -n 's/.*comment \"eggo\".*# handle \\([0-9]*\\)$/\\1/p' |\n\
                 while read -r handle; do nft delete rule inet filter input handle \"$handle\"; done\n\
                 rm -f {NFT_FILE} {NFT_DROP_IN}; rmdir {} 2>/dev/null || :; systemctl daemon-reload",
                NFT_DROP_IN.rsplit_once('/').map_or("/", |(folder, _)| folder)
            ),
            Self::Firewalld => "\n[ -z \"${remove-}\" ] || firewall-cmd -q --permanent $remove || :\n\
                 [ -z \"${now-}\" ] || firewall-cmd -q $now || :"
                .to_string(),
            Self::Ufw => String::new(),
        };
        format!(
            "if [ -e {OPENED} ]; then while read -r port later; do {each}; done < {OPENED}; rm -f {OPENED}; fi{after}"
        )
    }
}

pub(super) async fn open(all: &Nodes, node: &Node) -> Result<(), Report> {
    let Some(firewall) = Firewall::of(&node.facts) else { return Ok(()) };
    let ports: Vec<String> = components::ports(&all.config, &node.host).iter().map(Port::to_string).collect();
    if ports.is_empty() {
        return Ok(());
    }
    let title = format!("open {} ports in {}", ports.len(), firewall.as_str());
    let step = Step::new("system/ports", title.clone())
        .fingerprint_of(std::iter::once(firewall.as_str()).chain(ports.iter().map(String::as_str)))
        .undo(Undo::script(format!("close ports in {}", firewall.as_str()), firewall.close()));
    let work = || async {
        node.remote.run(Command::sh(title, firewall.open(&ports))).await?;
        Ok(Outcome::Changed)
    };
    all.run.step(&node.host.name, step, work).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script with a firewalld that has some ports open for good and some now; what it was told.
    fn told(folder: &std::path::Path, open: &str, runs: &str, script: &str) -> String {
        let script = script.replace(KEPT, folder.to_str().unwrap());
        let firewall = format!(
            "firewall-cmd() {{ case $* in '--permanent --list-ports') echo {open} ;; --list-ports) echo {runs} ;; \
             *) echo \"$@\" ;; esac; }}"
        );
        // A name like that is a function's in bash only.
        let script = format!("set -eu; {firewall}\n{script}").replace("firewall-cmd", "firewall_cmd");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn ports_in_a_range_of_the_users_are_open_and_stay_so() {
        let folder = tempfile::tempdir().unwrap();
        let (users, firewall) = ("22/tcp 2379-2380/tcp 6443/udp", Firewall::Firewalld);
        let ports = ["2379/tcp", "2380/tcp", "2381/tcp", "6443/tcp"].map(String::from);
        let told = |open, runs, script: &str| told(folder.path(), open, runs, script);
        assert_eq!(
            told(users, "2379-2381/tcp", &firewall.open(&ports)),
            "-q --permanent --add-port=2381/tcp --add-port=6443/tcp\n-q --add-port=6443/tcp\n"
        );
        let merged = "2379-2381/tcp 6443/tcp 6443/udp";
        assert_eq!(told(merged, merged, &firewall.open(&ports)), "", "nothing is left to open");
        let closed =
            "-q --permanent --remove-port=2381/tcp --remove-port=6443/tcp\n-q --remove-port=6443/tcp\n";
        assert_eq!(told(merged, merged, &firewall.close()), closed);
        assert_eq!(told(users, users, &firewall.close()), "", "once");
    }
}
