//! kubectl on a master, with the administrator's kubeconfig for just as long as it runs.
//!
//! The kubeconfig comes with standard input and is in memory (tmpfs, 0600) until the command
//! ends; what follows it on standard input is the command's own.

use crate::paths::KUBECTL as FOLDER;
use crate::remote::{Command, Host, Output, Script};
use crate::run::Permit;
use eggo_errors::Report;
use serde_json::Value;
use std::time::Duration;
use zeroize::Zeroizing;

/// `repeat LIMIT COMMAND…`, for a script.
pub const REPEAT: &str = include_str!("repeat.sh");

/// A thousand nodes, with all that the API has to say about each.
const MOST_OUTPUT: usize = 32 << 20;

pub struct Kubectl<'a> {
    host: &'a dyn Host,
    program: &'a str,
    kubeconfig: Zeroizing<String>,
}

impl<'a> Kubectl<'a> {
    pub fn new(host: &'a dyn Host, program: &'a str, kubeconfig: Zeroizing<String>) -> Self {
        Self { host, program, kubeconfig }
    }

    pub fn host(&self) -> &'a dyn Host {
        self.host
    }

    /// A script in which `kubectl` is the administrator's, and only looks.
    pub fn look(&self, title: impl Into<String>, script: Script) -> Command {
        self.given(Command::scratch(title, self.with_kubectl(script)), b"")
    }

    /// A script in which `kubectl` is the administrator's. It changes the cluster.
    pub fn change(&self, permit: Permit, title: impl Into<String>, script: Script) -> Command {
        self.given(Command::change(permit, title, self.with_kubectl(script)), b"")
    }

    fn with_kubectl(&self, script: Script) -> Script {
        script
            .after(include_str!("kubectl.sh"))
            .set("KUBECTL", self.program)
            .set("LENGTH", self.kubeconfig.len().to_string())
            .set("FOLDER", FOLDER)
    }

    /// With the kubeconfig, and the standard input of the script itself.
    fn given(&self, command: Command, input: &[u8]) -> Command {
        command.stdin([self.kubeconfig.as_bytes(), input].concat()).at_most(MOST_OUTPUT)
    }

    pub async fn run(&self, command: Command) -> Result<Output, Report> {
        Ok(self.host.run(command).await?)
    }

    /// Applies objects; says whether anything was changed.
    pub async fn apply(&self, permit: Permit, title: &str, manifest: &[u8]) -> Result<bool, Report> {
        let script = self.with_kubectl(words(&["apply", "-f", "-"]));
        let output = self.run(self.given(Command::change(permit, title, script), manifest)).await?;
        Ok(output.text().lines().any(|line| !line.ends_with(" unchanged")))
    }

    pub async fn json(&self, title: &str, what: &str) -> Result<Value, Report> {
        let output = self.run(self.look(title, words(&["get", what, "-o", "json"]))).await?;
        serde_json::from_slice(&output.stdout).map_err(|error| {
            Report::new(format!(
                "{}: could not {title}: kubectl's answer is not JSON: {error}",
                self.host.name()
            ))
        })
    }

    /// Repeats one kubectl command on the node, twice a second, until it succeeds or the time is over.
    pub async fn until<S: AsRef<str>>(
        &self,
        title: &str,
        words: &[S],
        limit: Duration,
    ) -> Result<Output, Report> {
        self.repeat(title, Script::new([]), call(words), limit).await
    }

    /// The same with a function of the script's: its name and its arguments.
    pub async fn repeat(
        &self,
        title: &str,
        script: Script,
        words: Vec<String>,
        limit: Duration,
    ) -> Result<Output, Report> {
        let begin = ["repeat".to_string(), limit.as_secs().to_string()];
        let script = script.and(REPEAT).then(begin.into_iter().chain(words));
        self.run(self.look(title, script).timeout(limit + Duration::from_secs(30))).await
    }
}

/// A script of one kubectl command.
pub fn words<S: AsRef<str>>(words: &[S]) -> Script {
    Script::new([]).then(call(words))
}

/// A call of the function `kubectl`.
pub fn call<S: AsRef<str>>(words: &[S]) -> Vec<String> {
    let words = words.iter().map(|word| word.as_ref().to_string());
    ["kubectl".to_string()].into_iter().chain(words).collect()
}

/// Moves the pods of a node elsewhere, as far as the cluster knows the node. Arguments are further options.
pub fn drain_script(node: &str, limit: Duration) -> Script {
    let script = Script::new([include_str!("drain.sh")]).set("NODE", node);
    script.set("LIMIT", limit.as_secs().to_string())
}
