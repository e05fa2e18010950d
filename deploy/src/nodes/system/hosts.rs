//! A block of our own in /etc/hosts with every node's name; the rest of the file is not ours.

use crate::config::Config;
use crate::journal::Undo;
use crate::nodes::{Node, Nodes};
use crate::remote::{Command, quote};
use crate::run::{Outcome, Step};
use eggo_errors::Report;

fn marks(cluster: &str) -> (String, String) {
    (format!("# begin eggo {cluster}"), format!("# end eggo {cluster}"))
}

fn block(config: &Config) -> String {
    let (begin, end) = marks(&config.cluster_id);
    let mut text = format!("{begin}\n");
    for host in &config.hosts {
        text.push_str(&format!("{}\t{}\n", host.ip, host.name));
    }
    text + &end + "\n"
}

/// Prints the file without our block.
fn without(cluster: &str) -> String {
    let (begin, end) = marks(cluster);
    let (begin, end) = (quote(&begin), quote(&end));
    format!(
        "awk -v begin={begin} -v end={end} '$0 == begin {{ ours = 1 }} !ours {{ print }} $0 == end {{ ours = 0 }}' /etc/hosts"
    )
}

/// Puts a new text in place of /etc/hosts; where the file is a mount of its own, it is overwritten.
const REPLACE: &str = "chmod 644 /etc/hosts.eggo-new\n\
    mv -f /etc/hosts.eggo-new /etc/hosts 2>/dev/null || { cat /etc/hosts.eggo-new > /etc/hosts; rm -f /etc/hosts.eggo-new; }";

pub(super) async fn write(all: &Nodes, node: &Node) -> Result<(), Report> {
    let config = &all.config;
    let block = block(config);
    let without = without(&config.cluster_id);
    let undo = format!("[ ! -e /etc/hosts ] || {{ {without} > /etc/hosts.eggo-new\n{REPLACE}\n}}");
    let step = Step::new("system/hosts", "write /etc/hosts")
        .fingerprint_of([&block])
        .undo(Undo::script("remove our names from /etc/hosts", undo));
    let work = || async {
        let script = format!(
            "touch /etc/hosts; {{ {without}; cat; }} > /etc/hosts.eggo-new\n\
             if cmp -s /etc/hosts.eggo-new /etc/hosts; then rm -f /etc/hosts.eggo-new; echo same; exit 0; fi\n{REPLACE}"
        );
        let output = node.remote.run(Command::sh("write /etc/hosts", script).stdin(block.clone())).await?;
        Ok(Outcome::changed_if(output.text() != "same"))
    };
    all.run.step(&node.host.name, step, work).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awk_takes_out_our_block_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        let text = "127.0.0.1 localhost\n# begin eggo one\n10.0.0.1\ta\n# end eggo one\n# begin eggo two\n10.0.0.2\tb\n# end eggo two\n::1 x\n";
        std::fs::write(&file, text).unwrap();
        let script = without("one").replace("/etc/hosts", file.to_str().unwrap());
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let left = "127.0.0.1 localhost\n# begin eggo two\n10.0.0.2\tb\n# end eggo two\n::1 x\n";
        assert_eq!(String::from_utf8(output.stdout).unwrap(), left);
    }
}
